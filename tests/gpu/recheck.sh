#!/bin/sh
# On real GPUs: a kept result survives a recheck that nothing speaks against, and says what was compared. About 10 s.
# usage: recheck.sh BUILD [OPTION...]      BUILD: the build folder; options go to decide. Nothing is written outside a private cache
set -eu
program=$1/bin/p2psafe
shift
P2PSAFE_CACHE=$(mktemp -d)
export P2PSAFE_CACHE
trap 'rm -rf "$P2PSAFE_CACHE"' EXIT

kept() { # arguments of decide -> "hit<TAB>reason<TAB>ms"
	"$program" decide --json "$@" | python3 -c '
import json, sys
report = json.load(sys.stdin)
print(report["kept"]["hit"], report["kept"]["reason"], report["timing_ms"].get("total"), sep="\t")'
}

first=$(kept --level quick "$@")
echo "$first"
case $first in
False*) ;;
*) echo "FAIL: the first answer was not made afresh"; exit 1 ;;
esac
if [ "$("$program" decide --level quick "$@" --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)["pairs"]))')" = 0 ]; then
	echo "skip: no two GPUs here"
	exit 77
fi
for i in 1 2 3; do
	line=$(kept --level quick --recheck "$@")
	echo "$line"
	case $line in
	True*rechecked*) ;;
	*)
		echo "FAIL: a recheck of an unchanged machine is no hit: UUID, VBIOS, NVLink states or ACS words differ between two looks"
		exit 1
		;;
	esac
done
