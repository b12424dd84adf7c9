#!/usr/bin/env bash
# What can only be seen on a machine with two or more GPUs: the whole program, its times against the floor, PTX against twins,
# PyTorch with and without a veto. Changes nothing on the machine.
#
# Usage: real_machine.sh BUILD_DIR [OUT_DIR [SECTION...]]; the build may come from another machine. Sections (default: all):
#   test times kernels visible torch damage shadow kill levels neighbours plugin
set -u
build=$(cd "$1" && pwd)
out=${2:-$(mktemp -d)}
sections=" ${*:3} "
here=$(cd "$(dirname "$0")" && pwd)
p2psafe="$build/bin/p2psafe"
failed=0
cache=$(mktemp -d)
shadow=$(mktemp -d)
export P2PSAFE_CACHE=$cache
trap 'rm -rf "$cache" "$shadow"' EXIT

wanted() { [ "$sections" = "  " ] || [[ "$sections" == *" $1 "* ]]; }
step() { printf '\n== %s\n' "$*"; }
expect() { # expect STATUS WHAT COMMAND...
	local want=$1 what=$2 got
	shift 2
	"$@"
	got=$?
	if [ "$got" -ne "$want" ]; then
		printf 'FAILED: %s: exit %s, expected %s\n' "$what" "$got" "$want"
		failed=1
	fi
}
ms() { # ms COMMAND...: wall time in ms
	local begin end
	begin=$(date +%s%N)
	"$@" >/dev/null 2>&1
	end=$(date +%s%N)
	printf '%s ' $(((end - begin) / 1000000))
}
verdicts() {
	python3 - "$1" <<-'PY'
	import json, sys
	r = json.load(open(sys.argv[1]))
	for p in r["pairs"]:
	    bad = [(l["leg"], l["mapping"], l["verdict"], l["damage"], l["detail"]) for l in p["legs"] if l["verdict"] != "OK"]
	    print(p["src"] + ">" + p["dst"], p["path"], p["verdict"], p["transport"], len(p["legs"]), "legs, not OK:", bad[:12])
	print("transport", r["decision"]["transport"], "vetoes", r["decision"]["vetoes"], r["timing_ms"])
	print("staged", [(s["a"], s["b"], s["verdict"]) for s in r["staged"]],
	      "findings", [(f["code"], f["subject"], [e["text"] for e in f["evidence"]][:1]) for f in r["findings"]])
	print("bytes", [sum(l["bytes"] for l in p["legs"]) for p in r["pairs"]])
	PY
}

first_two() { # addresses of the first two GPUs
	"$p2psafe" probe --json | python3 -c 'import json, sys; print(*[g["bdf"] for g in json.load(sys.stdin)["gpus"] if g["ours"]][:2])'
}

if wanted test; then
	step "p2psafe test, three times"
	for i in 1 2 3; do
		expect 0 "test $i" "$p2psafe" test --json >"$out/test-$i.json"
		verdicts "$out/test-$i.json"
	done
	expect 0 "test for people" "$p2psafe" test
	step "what was measured, against its bars"
	python3 "$here/measure.py" --build "$build" --out "$out"
	step "decide from the kept record"
	expect 0 "decide" "$p2psafe" decide --json >"$out/decide.json"
	python3 -c "import json,sys; print(json.load(open('$out/decide.json'))['kept'])"
	ms "$p2psafe" decide; ms "$p2psafe" decide; ms "$p2psafe" decide; echo "ms: decide, kept, three times"
fi

if wanted times; then
	step "times in ms, five times each: floor, quick, standard"
	for i in 1 2 3 4 5; do
		printf 'floor '; ms "$build/bin/floor"
		printf 'quick '; ms "$p2psafe" test --level quick --no-measure
		printf 'standard '; ms "$p2psafe" test --level standard --no-measure
		echo
	done
fi

if wanted kernels; then
	step "PTX kernels against their twins"
	worker=$build/bin/worker_process
	sim=$build/libexec/p2psafe/sim/libcuda.so.1
	for form in "" --text; do # ready-made where the build has it, and compiled by this driver, each time anew
		# shellcheck disable=SC2086
		CUDA_CACHE_DISABLE=1 expect 0 "twin_compare $form" timeout 120 "$build/bin/twin_compare" $form "$worker" "$sim" \
			"$here/../hosts/ok-2xh200-nvlink" 0000:00:06.0
	done
	expect 0 two_gpus timeout 120 "$build/bin/two_gpus" "$worker"
fi

if wanted visible; then
	step "CUDA_VISIBLE_DEVICES as the driver reads it"
	expect 0 "visible devices" timeout 300 python3 "$here/visible.py" "$p2psafe"
fi

if wanted torch; then
	step "PyTorch all-reduce, plain"
	expect 0 "torch plain" timeout 200 python3 "$here/torch_allreduce.py"
	step "PyTorch all-reduce under p2psafe run"
	expect 0 "torch under run" timeout 200 "$p2psafe" run -- python3 "$here/torch_allreduce.py"
fi

if wanted damage; then
	step "one direction damaged by the wrapper around libcuda"
	read -r a b < <(first_two)
	cp "$build/libexec/p2psafe/sim/libcuda-shadow.so.1" "$shadow/"
	echo "src=$a dst=$b" >"$shadow/shadow.conf"
	export P2PSAFE_CACHE=$shadow/cache
	mkdir -p -m 700 "$P2PSAFE_CACHE"
	expect 1 "test with damage" "$p2psafe" test --keep-going --cuda-library "$shadow/libcuda-shadow.so.1" --json >"$out/damaged.json"
	verdicts "$out/damaged.json"
	"$p2psafe" env --cuda-library "$shadow/libcuda-shadow.so.1"
	step "PyTorch all-reduce under that veto"
	expect 0 "torch under veto" timeout 200 "$p2psafe" run --cuda-library "$shadow/libcuda-shadow.so.1" -- \
		python3 "$here/torch_allreduce.py"
fi

if wanted shadow; then
	step "every mode of the wrapper is caught and rightly named"
	expect 0 "shadow modes" timeout 300 python3 "$here/../faults/shadow.py" --real --build "$build" --out "$out"
fi

if wanted kill; then
	step "workers killed at any moment"
	expect 0 "killed workers" timeout 200 python3 "$here/../faults/kill.py" --real --build "$build" --runs 24 --span 1.2
fi

if wanted levels; then
	step "every level, three times, thorough with a short soak"
	expect 0 levels timeout 400 python3 "$here/levels.py" --build "$build" --out "$out" --only levels --soak 3
fi

if wanted neighbours; then
	step "beside a program that holds 97% of a GPU's memory, and one that computes all the time"
	expect 0 neighbours timeout 400 python3 "$here/levels.py" --build "$build" --out "$out" --only neighbours
fi

if wanted plugin; then
	step "the NCCL plugin in PyTorch"
	expect 0 plugin timeout 300 python3 "$here/nccl_plugin.py" "$build" "$out"
	step "the checkers of vLLM and SGLang, where they are installed"
	python3 "$here/framework_caches.py" "$p2psafe"
fi

echo
if [ "$failed" -eq 0 ]; then echo "real machine: all as expected"; else echo "real machine: something FAILED"; fi
exit "$failed"
