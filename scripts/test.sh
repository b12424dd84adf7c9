#!/usr/bin/env bash
# Installs what the tests need (Debian, Ubuntu), builds with gcc, with clang and with sanitizers, warnings being errors, and
# runs every test. Needs no GPU, no terminal and, with the packages there, neither root nor a network.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
. scripts/packages.sh
exec </dev/null

install_packages "${packages_build[@]}" "${packages_test[@]}"
install_packages "${packages_analyse[@]}" || say "without an analyzer: its test will be skipped"
say "a kernel for the tests in QEMU"
{ install_packages "${packages_qemu[@]}" && fetch_kernel; } || say "without QEMU or a kernel: these tests will be skipped"
jobs=$(nproc)
run_tests=(ctest --output-on-failure --no-tests=error -j "$jobs")

say "gcc, warnings are errors"
# /usr, as the Debian packages are built, which are made from this build
CC=gcc CXX=g++ configure_and_build build-gcc -DP2PSAFE_WERROR=ON -DCMAKE_INSTALL_PREFIX=/usr
say "clang, warnings are errors"
CC=clang CXX=clang++ configure_and_build build-clang -DP2PSAFE_WERROR=ON
say "gcc with AddressSanitizer and UndefinedBehaviorSanitizer"
CC=gcc CXX=g++ configure_and_build build-asan -DP2PSAFE_WERROR=ON -DP2PSAFE_SANITIZE=ON

say "gcc with ThreadSanitizer, only what its tests need"
CC=gcc CXX=g++ target=thread_tests configure_and_build build-tsan -DP2PSAFE_SANITIZE=THREAD \
	-DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-g1

# run_in FOLDER [OPTION OF CTEST...]: the tests of a build, and how many of them could not run here.
run_in()
{
	"${run_tests[@]}" --test-dir "$1" "${@:2}" | tee "$1/tests.log"
	say "$1: $(grep -c '\*\*\*Skipped' "$1/tests.log" || true) tests skipped"
}

# Left to the other build: packages, bench, examples, Python, and two long tests whose code others run here, too.
say "tests of the sanitized build"
run_in build-asan -LE '^(install|bench|examples|python)$' -E '^(gpu_twin_compare_simulated|plugin_ranks)$'
say "data races" # ThreadSanitizer does not know every layout of the addresses that a kernel may choose
(setarch -R true 2>/dev/null && run_tests=(setarch -R "${run_tests[@]}"); run_in build-tsan -L '^threads$')
say "libFuzzer searches on, for a fixed number of runs"
run_in build-clang -L '^search$'
# Left to the sanitized build, where more is seen: long tests of bad input, and what is said of each host.
say "tests of the gcc build"
run_in build-gcc -E '^(hosts\.(hostile|(s|f|x-|m-|ok-|capture-).*)|conductor_(odd|log|thorough|stream)|faults\.table|worker_ptx_runs)$'
