"""Compares the library's types and functions with the baseline in the tree. What the baseline has may grow (functions, members
at the end of structs that carry their size), never go and never change.

usage: abidiff.py --library SO --baseline ABI [--debug-info expected|absent] [--write]
Exit 77: the tools are missing, or the library was built without debug information on purpose.
"""

import argparse
import os
import shutil
import subprocess
import tempfile

import header


def suppressions():
    """Members may be appended to the structs whose first member is their size: the caller's size bounds every access."""
    lines = []
    for name, members in header.structs().items():
        if members[0] == "size":
            lines += ["[suppress_type]", "name = %s" % name, "has_data_member_inserted_at = end", ""]
    return "\n".join(lines)


def skip(why):
    print("skipped: %s" % why)
    raise SystemExit(77)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--baseline", required=True)
    parser.add_argument("--debug-info", choices=("expected", "absent"), default="expected")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    if options.debug_info == "absent":
        skip("this build type has no debug information, without which two layouts compare equal")
    for tool in ("abidiff", "abidw", "readelf"):
        if shutil.which(tool) is None:
            skip("%s is not installed (Debian: abigail-tools)" % tool)
    sections = subprocess.run(
        ["readelf", "-SW", options.library], check=True, stdout=subprocess.PIPE, universal_newlines=True
    ).stdout
    if ".debug_info" not in sections:
        raise SystemExit("%s has no .debug_info: the comparison would prove nothing" % options.library)

    headers = str(header.HEADER.parent)
    if options.write:
        subprocess.run(
            ["abidw", "--headers-dir", headers, "--drop-private-types", "--no-corpus-path", "--no-comp-dir-path"]
            + ["--no-show-locs", "--out-file", options.baseline, options.library],
            check=True,
        )
        print("wrote %s" % options.baseline)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "allow.abignore")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(suppressions())
        result = subprocess.run(
            ["abidiff", "--headers-dir2", headers, "--drop-private-types", "--no-added-syms", "--fail-no-debug-info"]
            + ["--suppressions", path, options.baseline, options.library],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            universal_newlines=True,
        )
    print(result.stdout, end="")
    if result.returncode != 0:
        raise SystemExit("abidiff: exit %d: something that programs rely on has changed" % result.returncode)
    print("everything in %s is still there" % os.path.basename(options.baseline))


if __name__ == "__main__":
    main()
