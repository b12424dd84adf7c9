#!/bin/sh
# Slurm: Prolog= (slurm.conf). Runs as root on each node of a job: makes sure that the node's decision is kept, so that every task of the
# job reads the same answer. A kept decision costs milliseconds; the first job after a boot pays for one test.
#
# Always exits 0: Slurm drains a node whose prolog fails, and a node whose GPUs must not talk to each other directly is a node that works.
if p2psafe decide >/dev/null 2>&1; then
	exit 0
fi
logger -t p2psafe "peer transfers are not proven safe on this node; 'p2psafe explain' says why" 2>/dev/null
exit 0
