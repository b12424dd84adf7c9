#!/bin/sh
# Slurm: TaskProlog= (slurm.conf). Runs as the user before each task; what it prints changes the task's environment: "export NAME=value" (the
# value without quotes) and "unset NAME". The prolog has kept the decision; where there can be none, p2psafe prints the full veto, and may
# exit with an error all the same. Where p2psafe is missing the task gets the veto that matters most.
settings=$(p2psafe env --format shell 2>/dev/null) || settings=${settings:-"export NCCL_P2P_DISABLE='1'"}
printf '%s\n' "$settings" | sed -n \
	-e "s/^export \([A-Za-z_][A-Za-z0-9_]*\)='\([^']*\)'\$/export \1=\2/p" \
	-e '/^unset [A-Za-z_][A-Za-z0-9_]*$/p'
