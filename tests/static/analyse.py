#!/usr/bin/env python3
"""What static analysis says about src/, held against a list of accepted notes.

analyse.py --build BUILD TOOL [--jobs N] [--any-version]     TOOL: gcc, clang-tidy, cppcheck

Each line of accepted.txt names tool, check, file and function, and gives the reason. A note that is not in the list is an
error, and so is a line of the list that nothing says any more. Notes differ between versions of a tool: with another version
than the list was made with, nothing is compared (77) unless --any-version is given."""
import argparse
import fnmatch
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LISTED = HERE / "accepted.txt"

# Small and strong: what is left out says much about style and nothing about mistakes. Not here because gcc or the tests have
# it already: conversions (-Wconversion), unused results (-Wunused-result). Clang's analyzer takes ten times the time of gcc's.
TIDY = ["-*", "bugprone-*", "-bugprone-easily-swappable-parameters", "-bugprone-implicit-widening-of-multiplication-result",
        "-bugprone-macro-parentheses", "-bugprone-narrowing-conversions", "-bugprone-reserved-identifier",
        "android-cloexec-*", "misc-redundant-expression", "misc-misplaced-const", "misc-misleading-*",
        "cert-env33-c", "cert-fio38-c", "cert-flp30-c", "cert-msc24-c", "cert-msc30-c", "cert-msc32-c", "cert-sig30-c",
        "concurrency-*"]
CPPCHECK = ["--quiet", "--std=c11", "--enable=warning,portability", "--inconclusive", f"--library={HERE / 'jansson.cfg'}",
            "--suppress=missingIncludeSystem", "--template={file}:{line}:{column}: {severity}: {message} [{id}]",
            "--template-location="]

TOOLS = {  # program, its major version that the list was made with, how it tells its version
    "gcc": ("gcc", "12", ["-dumpversion"]),
    "clang-tidy": ("clang-tidy", "14", ["--version"]),
    "cppcheck": ("cppcheck", "2.10", ["--version"]),
}
NOTE = re.compile(r"^(?P<file>[^:\s][^:\n]*):(?P<line>\d+):(?P<column>\d+): (?:warning|error|style|portability|performance): (?P<text>.*?)"
                  r"(?: \[CWE-\d+\])? \[(?P<check>[^\]\s]+)\]$", re.M)


def version_of(tool):
    program, _, question = TOOLS[tool]
    try:
        text = subprocess.run([program, *question], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return re.search(r"(\d+(?:\.\d+)*)", text).group(1)


def same_version(have, listed):
    return (have + ".").startswith(listed + ".")


def commands(build):
    """file -> folder and flags that decide what the file means; each file once."""
    found = {}
    for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if not path.is_relative_to(ROOT / "src") or path in found:
            continue
        words = shlex.split(entry["command"])
        flags = []
        for i, word in enumerate(words):
            if word == "-isystem":
                flags += words[i:i + 2]
            elif re.match(r"-(I|D|std=)", word):
                flags.append(word)
        found[path] = (entry["directory"], flags)
    return found


def run(command, folder, good=(0,)):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    if done.returncode not in good:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def said_by(tool, files, jobs):
    """Everything the tool prints about these files."""
    if tool == "cppcheck":
        # -D and -I of the first file fit all: src is one project.
        return run(["cppcheck", *CPPCHECK, "-j", str(jobs), "-I", ROOT / "include", "-I", ROOT / "src", "-I", ROOT / "src/lib",
                    *files], ROOT)

    def one(path):
        folder, flags = files[path]
        if tool == "gcc":
            return run(["gcc", *flags, "-O0", "-fanalyzer", "-fdiagnostics-plain-output", "-c", "-o", "/dev/null", path], folder)
        return run(["clang-tidy", "--quiet", f"--checks={','.join(TIDY)}", path, "--", *flags], folder)

    with ThreadPoolExecutor(jobs) as pool:
        return "".join(pool.map(one, files))


def function_at(path, line):
    """The function that a line belongs to, by the brace in the first column that opens its body; '-' outside of any."""
    name = "-"
    head = ""
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if text == "{":
            found = re.findall(r"(\w+)\s*\(", head)
            name = found[0] if found else "-"
        elif text and not text[0].isspace() and text[0] not in "#/*}":
            head = text
        if number == line:
            return name
        if text.startswith("}"):
            name = "-"
    return "-"


def notes_in(text, tool):
    """(tool, check, file, function) -> one example of what was said."""
    notes = {}
    for m in NOTE.finditer(text):
        path = pathlib.Path(m["file"]).resolve() if pathlib.Path(m["file"]).is_absolute() else (ROOT / m["file"]).resolve()
        inside = path.is_relative_to(ROOT)
        place = str(path.relative_to(ROOT)) if inside else str(path)
        where = function_at(path, int(m["line"])) if inside else "-"
        check = m["check"].split(",")[0].removeprefix("-W")  # the other names are aliases of the first
        if check == "concurrency-mt-unsafe" and inside:  # it does not say which function it means
            called = path.read_text().splitlines()[int(m["line"]) - 1][int(m["column"]) - 1:]
            check += ":" + re.match(r"\w*", called)[0]
        notes.setdefault((tool, check, place, where), f"{place}:{m['line']}: {m['text']}")
    return notes


def listed(text):
    """The list as (tool, check, file, function) -> reason. Raises ValueError on a line that is none."""
    entries = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        place, _, reason = line.partition("|")
        words = place.split()
        if len(words) != 4 or words[0] not in TOOLS or not reason.strip() or tuple(words) in entries:
            raise ValueError(f"accepted.txt:{number}: not 'tool check file function | reason', or twice")
        entries[tuple(words)] = reason.strip()
    return entries


def fits(key, entry):
    return key[:2] == entry[:2] and all(fnmatch.fnmatchcase(have, listed) for have, listed in zip(key[2:], entry[2:]))


def compare(notes, accepted, tool):
    """What is wrong, as lines."""
    mine = {key for key in accepted if key[0] == tool}
    wrong = [f"new: {said} [{key[1]}]\n     {' '.join(key)} | why it is no mistake" for key, said in notes.items()
             if not any(fits(key, entry) for entry in mine)]
    return wrong + [f"nothing says this any more: {' '.join(entry)}" for entry in sorted(mine)
                    if not any(fits(key, entry) for key in notes)]


def planted(tool):
    """A tool that finds nothing in a file full of mistakes does not work, whatever it says about ours."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "planted.c")
        path.write_text((HERE / "planted.c").read_text())
        text = said_by(tool, {path: (folder, ["-std=c11"])}, 1)
        return {m["check"].split(",")[0] for m in NOTE.finditer(text)}


PLANTED = {"gcc": "-Wanalyzer-double-free", "clang-tidy": "android-cloexec-open", "cppcheck": "arrayIndexOutOfBounds"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="a build folder (compile_commands.json)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--any-version", action="store_true")
    parser.add_argument("tool", choices=TOOLS)
    args = parser.parse_args()
    have = version_of(args.tool)
    if have is None:
        print(f"skipped: no {args.tool}")
        return 77
    if not same_version(have, TOOLS[args.tool][1]) and not args.any_version:
        print(f"skipped: {args.tool} {have}, the list of accepted notes was made with {TOOLS[args.tool][1]}")
        return 77
    files = commands(args.build)
    if len(files) < 100:
        print(f"only {len(files)} files of src in the build")
        return 1
    if PLANTED[args.tool] not in planted(args.tool):
        print(f"{args.tool} does not see what is planted: {PLANTED[args.tool]}")
        return 1
    notes = notes_in(said_by(args.tool, files, args.jobs), args.tool)
    wrong = compare(notes, listed(LISTED.read_text()), args.tool)
    print("\n".join(wrong) if wrong else f"{args.tool}: {len(files)} files, {len(notes)} accepted notes")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
