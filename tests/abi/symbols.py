"""The ABI gate over names: functions of the header = names in the version script = dynamic symbols of the shared library.
Also what the library needs and what it may never call, and that the static archive shows the same names.

usage: symbols.py --library SO --map MAP [--archive A] [--sanitized]
"""

import argparse
import re
import subprocess

import header

SONAME = "libp2psafe.so.1"
NEEDED = {"libjansson.so.4", "libc.so.6"}

# The process that loads the library stays untouched: these would print, end it, or change its environment, signals,
# threads, folder or loaded libraries. The last line: answers that depend on the caller's locale, and, for strerror,
# catalogues of translations that stay mapped.
FORBIDDEN = set(
    """printf fprintf vprintf vfprintf puts fputs putchar perror psignal stdout stderr __printf_chk __fprintf_chk __vfprintf_chk
    __vprintf_chk exit quick_exit abort atexit on_exit setenv putenv unsetenv clearenv getenv signal sigaction pthread_create
    dlopen dlmopen system popen chdir fchdir umask setlocale error err warn syslog openlog sched_setaffinity
    pthread_setaffinity_np setpriority
    newlocale uselocale localeconv strerror strerror_r strcasecmp strncasecmp strcasestr strtod strcoll strxfrm""".split()
)


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout


def map_names(path):
    """Node -> set of exported names; refuses a map that exports by pattern."""
    with open(path, encoding="utf-8") as stream:
        raw = re.sub(r"/\*.*?\*/", " ", stream.read(), flags=re.DOTALL)
    raw = re.sub(r"#.*", " ", raw)
    nodes = {}
    for node, body in re.findall(r"(\w[\w.]*)\s*\{(.*?)\}", raw, flags=re.DOTALL):
        public = body.split("local:")[0].replace("global:", " ")
        names = {name.strip() for name in public.split(";") if name.strip()}
        if any("*" in name or "?" in name or "[" in name for name in names):
            raise SystemExit("%s: node %s exports by pattern" % (path, node))
        nodes[node] = names
    if not nodes or not re.search(r"local:\s*\*\s*;", raw):
        raise SystemExit("%s: no node, or no `local: *;`" % path)
    return nodes


def dynamic_symbols(library):
    """Name -> version node of every defined dynamic symbol."""
    found = {}
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        kind, name = line.split()[-2:]
        base, _, node = name.partition("@@")
        if kind == "A" and not node:
            continue  # the version node itself
        found[base.partition("@")[0]] = node
    return found


def undefined_symbols(library):
    return {line.split()[-1].partition("@")[0] for line in run("nm", "-D", "--undefined-only", library).splitlines()}


def writable_objects(library):
    """Names of variables in .data and .bss: state that two contexts, or two threads, would share."""
    sections = {}
    for number, name in re.findall(r"^\s*\[\s*(\d+)\]\s+(\S+)", run("readelf", "-SW", library), flags=re.MULTILINE):
        sections[number] = name
    found = set()
    for line in run("readelf", "-sW", library).splitlines():
        words = line.split()
        if len(words) == 8 and words[3] == "OBJECT" and sections.get(words[6]) in (".data", ".bss"):
            found.add(words[7])
    return found - {"completed.0", "__dso_handle", "__TMC_END__"}  # the compiler's own start-up files


def called_jansson():
    """Functions that src/lib/api/jansson.c looks at before any is called."""
    text = (header.ROOT / "src" / "lib" / "api" / "jansson.def").read_text(encoding="utf-8")
    return set(re.findall(r"^P2S_JANSSON\((\w+)\)$", text, flags=re.MULTILINE))


def difference(left_name, left, right_name, right):
    lines = ["%s: in %s but not in %s" % (name, left_name, right_name) for name in sorted(left - right)]
    return lines + ["%s: in %s but not in %s" % (name, right_name, left_name) for name in sorted(right - left)]


def check(options):
    problems = []
    declared = set(header.functions())
    nodes = map_names(options.map)
    listed = set().union(*nodes.values())
    exported = dynamic_symbols(options.library)
    problems += difference("the header", declared, "the map", listed)
    problems += difference("the map", listed, "the library", set(exported))
    for node, names in nodes.items():
        for name in sorted(names & set(exported)):
            if exported[name] != node:
                problems.append("%s: in node %s of the map, %s in the library" % (name, node, exported[name] or "no node"))
    for name in sorted(declared):
        if not name.startswith("p2psafe_"):
            problems.append("%s: public names start with p2psafe_" % name)

    dynamic = run("readelf", "-dW", options.library)
    sonames = re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)
    if sonames != [SONAME]:
        problems.append("SONAME is %s, not %s" % (sonames, SONAME))
    if not options.sanitized:
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        problems += difference("NEEDED", needed, "the allowed list", NEEDED)
        undefined = undefined_symbols(options.library)
        for name in sorted(undefined & FORBIDDEN):
            problems.append("%s: the library calls it" % name)
        if options.archive:  # not a toy
            called = {name for name in undefined if name.startswith("json")}
            problems += difference("the library's calls", called, "jansson.def", called_jansson())
        for name in sorted(writable_objects(options.library)):
            problems.append("%s: a variable that changes; all state belongs into a context or a report" % name)
    for tag in ("RPATH", "RUNPATH", "TEXTREL"):
        if "(%s)" % tag in dynamic:
            problems.append("the library has %s" % tag)
    if re.search(r"GNU_STACK.*\bRWE\b", run("readelf", "-lW", options.library)):
        problems.append("the library asks for an executable stack")

    if options.archive and not options.sanitized:  # sanitizers keep the objects apart
        names = set()
        for line in run("nm", "-g", "--defined-only", options.archive).splitlines():
            words = line.split()
            if len(words) == 3:
                names.add(words[2])
        problems += difference("the map", listed, "the archive", names)
    return problems, len(declared)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--map", required=True)
    parser.add_argument("--archive")
    parser.add_argument("--sanitized", action="store_true")
    problems, count = check(parser.parse_args())
    for problem in problems:
        print(problem)
    if problems:
        raise SystemExit(1)
    print("%d functions: header = map = library" % count)


if __name__ == "__main__":
    main()
