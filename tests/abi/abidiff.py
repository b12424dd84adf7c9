"""Compares the library's types and functions with the baseline in the tree. What the baseline has may grow (functions, members
at the end of structs that carry their size), never go and never change.

usage: abidiff.py --library SO --baseline ABI [--debug-info expected|absent] [--write]
Exit 77: the tools are missing, or the library was built without debug information on purpose.
"""

import argparse
import os
import re
import shutil
import subprocess
import tempfile

import header


# What abidiff prints when members were appended to a struct, and nothing else. Its own suppression for appended members
# (has_data_member_inserted_at = end) cannot be used: with it, version 2.2 is also silent about a member whose type changed.
GROWTH = re.compile(
    r"""^(
        |(Functions|Variables)\ changes\ summary:\ 0\ Removed,.*
        |\d+\ functions?\ with\ some\ indirect\ sub-type\ changes?:
        |\[C\]\ 'function\ .*'.*\ has\ some\ indirect\ sub-type\ changes:
        |parameter\ \d+\ of\ type\ '.*\*'\ has\ sub-type\ changes:
        |in\ (pointed\ to|unqualified\ underlying)\ type\ '.*'.*:
        |type\ size\ changed\ from\ \d+\ to\ \d+\ \(in\ bits\)
        |\d+\ data\ member\ insertions?:
        |'.*',\ at\ offset\ \d+\ \(in\ bits\).*
        |.*\ as\ reported\ earlier
        |.*details\ were\ reported\ earlier
    )$""",
    re.VERBOSE,
)


def suppressions():
    """The handles are opaque: what is inside them is nobody's business."""
    return "".join("[suppress_type]\nname = %s\n\n" % name for name in header.opaque())


def only_grew(text):
    """True if nothing but members at the end of structs was added."""
    for old, new in re.findall(r"type size changed from (\d+) to (\d+)", text):
        if int(new) <= int(old):
            return False
    return all(GROWTH.match(line.strip()) for line in text.splitlines())


def skip(why):
    print("skipped: %s" % why)
    raise SystemExit(77)


def write(library, baseline):
    command = ["abidw", "--headers-dir", str(header.HEADER.parent), "--drop-private-types", "--exported-interfaces-only"]
    command += ["--drop-undefined-syms", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs"]
    subprocess.run([*command, "--out-file", str(baseline), str(library)], check=True)
    with open(baseline, encoding="utf-8") as stream:
        text = stream.read()
    with open(baseline, "w", encoding="utf-8") as stream:  # where it was built is no part of the interface
        stream.write(re.sub(r" path='[^']*/(src/[^']*)'", r" path='\1'", text))


def compare(library, baseline):
    """True if nothing was lost or changed, and abidiff's text."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "allow.abignore")
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(suppressions())
        # Without --headers-dir: int32_t does not come from our header, and a member that becomes uint32_t would be private.
        command = ["abidiff", "--no-added-syms", "--suppressions", path, str(baseline), str(library)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    # Bit 4: there are changes; 1 and 2: it failed; 8: incompatible for certain.
    return result.returncode == 0 or (result.returncode == 4 and only_grew(result.stdout)), result.stdout


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

    if options.write:
        write(options.library, options.baseline)
        print("wrote %s" % options.baseline)
        return
    kept, text = compare(options.library, options.baseline)
    print(text, end="")
    if not kept:
        raise SystemExit("something that programs rely on has changed")
    print("everything in %s is still there" % os.path.basename(options.baseline))


if __name__ == "__main__":
    main()
