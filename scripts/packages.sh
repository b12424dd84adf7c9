# Sourced by the scripts beside it: the packages that a step needs, by their names in Debian and Ubuntu, and how to get
# those that are missing.

packages_build=(gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libpci-dev libnuma-dev)
packages_test=(g++ clang make binutils libcmocka-dev python3 python3-pip python3-setuptools python3-wheel
	abigail-tools patchelf locales)
packages_analyse=(clang-tidy cppcheck valgrind)
packages_qemu=(qemu-system-x86 busybox-static pciutils)

say()
{
	printf '\n== %s\n' "$*"
}

# Those of the given packages that are not installed, one a line.
missing_packages()
{
	local package
	for package in "$@"; do
		if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
			printf '%s\n' "$package"
		fi
	done
}

# Installs what is missing. With everything there it needs neither root nor a network.
install_packages()
{
	local missing=() as_root=()
	if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
		say "not a Debian or Ubuntu system: please have these installed under your system's names: $*"
		return 0
	fi
	mapfile -t missing < <(missing_packages "$@")
	if [ "${#missing[@]}" -eq 0 ]; then
		return 0
	fi
	say "installing: ${missing[*]}"
	if [ "$(id -u)" -ne 0 ]; then
		if ! command -v sudo >/dev/null; then
			echo "not root and no sudo: please install: ${missing[*]}" >&2
			return 1
		fi
		as_root=(sudo)
	fi
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"
}

# A kernel for tests/qemu, kept in .cache/qemu. Tries once more with fresh package lists.
fetch_kernel()
{
	python3 -B tests/qemu/kernel.py && return 0
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		return 1
	fi
	apt-get update -qq && python3 -B tests/qemu/kernel.py
}

# configure_and_build FOLDER [CMAKE OPTIONS...]; $target: only that one
configure_and_build()
{
	local folder=$1
	shift
	cmake -S . -B "$folder" -G Ninja -Wno-dev --log-level=WARNING "$@"
	cmake --build "$folder" ${target:+--target "$target"}
}
