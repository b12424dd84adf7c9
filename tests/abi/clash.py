"""Beside an application with clashing names: its functions have the names of everything inside the archive, and common ones.
Linked with the archive and with the shared library. Then it is a user of jansson itself, whose addresses of jansson's
functions are entries of its own. At last it has a JSON library of its own with jansson's names, which would be called
instead of jansson: the library notices and refuses.

usage: clash.py --archive A --library SO --helper HELPER --cc CC --host HOST_DIR
"""

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

import header

HERE = Path(__file__).resolve().parent

COMMON = """log log_error log_init logger fail failed error warn warning die panic debug trace info say usage version run
    test probe decide report report_free context_new context_free options_init parse parse_line parse_json json
    json_parse json_free json_dump json_escape list_add list_append hash hash_init crc32 sha256 md5 config
    config_read buffer buf_new buf_free buf_append string_free xmalloc xstrdup min max clamp now now_ns timestamp
    lock unlock try_lock name names word table rules score choose kept store record marker place find match next
    first emit dump text fill codec_send codec_recv spawn reap child helper worker host gpu gpus pair pairs path
    paths group groups device devices pci iommu numa init cleanup start stop done handle callback""".split()

# Of a JSON library that has functions of the same names and other ideas of them, as json-c has.
FOREIGN_JSON = """
void *json_object_get(void *object, const char *key) { (void)key; return object; }
void *json_object_iter(void *object) { return object; }
"""

# A program that is no PIE: wherever the address of these is asked for, it lies in the program.
JANSSON_USER = """
#include <jansson.h>
void *volatile of_jansson[2];
__attribute__((constructor)) static void take(void) { of_jansson[0] = json_delete; of_jansson[1] = json_object_get; }
"""


def lines(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True).stdout.splitlines()


def inside(archive):
    """Names of all functions and objects that are defined in the archive and are not public."""
    public = set(header.functions())
    names = set()
    for line in lines("nm", "--defined-only", archive):
        words = line.split()
        if len(words) == 3 and words[1] in "tTdDbBrR" and re.fullmatch(r"[A-Za-z]\w*", words[2]):
            names.add(words[2])
    return names - public


def imported(*files):
    """What these take from other libraries: who defines these names replaces them on purpose."""
    return {line.split()[-1].partition("@")[0] for name in files for line in lines("nm", "-D", "--undefined-only", name)}


def main():
    parser = argparse.ArgumentParser()
    for option in ("archive", "library", "helper", "cc", "host"):
        parser.add_argument("--" + option, required=True)
    options = parser.parse_args()
    hidden = inside(options.archive)
    internal = {name for name in hidden if name.startswith("p2s_")}
    if len(internal) < 100 or len(hidden - internal) < 100:
        raise SystemExit("the archive shows only %d names inside: this test would test nothing" % len(hidden))
    jansson = [line.split()[2] for line in lines("ldd", options.library) if "libjansson" in line]
    names = sorted((hidden | set(COMMON)) - imported(options.library, *jansson) - {"main"})
    with tempfile.TemporaryDirectory(prefix="p2psafe-abi-") as name:
        folder = Path(name)
        clashes = folder / "clashes.c"
        clashes.write_text(
            "void clash_called(const char *);\n" + "".join('void %s(void) { clash_called("%s"); }\n' % (n, n) for n in names)
        )
        (folder / "json.c").write_text(FOREIGN_JSON)
        (folder / "user.c").write_text(JANSSON_USER)

        def build(program, sources, libraries):
            # every name of the program is there for its libraries, as if they had been linked with it
            flags = ["-std=gnu11", "-w", "-fno-builtin", "-rdynamic", "-I", str(HERE.parents[1] / "include"), "-I", str(HERE)]
            command = [options.cc, *flags, str(HERE / "clash.c"), *map(str, sources), "-o", str(folder / program), *libraries]
            subprocess.run(command, check=True)

        static = [options.archive, "-ljansson"]
        shared = [options.library, "-Wl,-rpath," + str(Path(options.library).parent)]
        build("static", [clashes], static)
        build("shared", [clashes], shared)
        build("shared-user", [folder / "user.c"], [*shared, "-fno-pie", "-no-pie", "-ljansson"])
        build("static-json", [folder / "json.c"], static)
        build("shared-json", [folder / "json.c"], shared)
        failed = []
        for program in ("static", "shared", "shared-user", "static-json", "shared-json"):
            answer = "refused" if program.endswith("-json") else "allowed"
            done = subprocess.run([folder / program, options.host, folder / (program + ".cache"), options.helper, answer])
            print("%s: %s" % (program, answer if done.returncode == 0 else "failed (%d)" % done.returncode), flush=True)
            failed += [program] if done.returncode != 0 else []
    if failed:
        raise SystemExit(1)
    print("%d clashing names" % len(names))


if __name__ == "__main__":
    main()
