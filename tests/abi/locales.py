"""A program's locale changes no answer: with a comma as decimal point, and where the small letter of I is no i, reports are
the same as in the locale C.

usage: locales.py PROGRAM HOSTS. Exits 77 where localedef or its sources are missing.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LOCALES = {"de_DE": "ISO-8859-1", "tr_TR": "ISO-8859-9"}  # one byte for a letter: what isspace() and tolower() see
SKIPPED = 77
# Keys of the driver are compared without regard to case.
SHOUTED = 'RegistryDwords: "RMFORCESTATICBAR1=1;PEERMAPPINGOVERRIDE=1"'


def make_locales(folder):
    for name, charmap in LOCALES.items():
        command = ["localedef", "-i", name, "-f", charmap, folder / name]
        made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if not (folder / name / "LC_NUMERIC").exists():
            print("skipped: %s" % made.stdout.decode(errors="replace").strip())
            return False
    return True


def make_host(hosts, folder):
    host = folder / "host"
    shutil.copytree(hosts / "f06-private-mirror", host, symlinks=True)
    params = host / "root/proc/driver/nvidia/params"
    text, changed = re.subn(r"^RegistryDwords: .*$", SHOUTED, params.read_text(), flags=re.MULTILINE)
    assert changed == 1
    params.chmod(0o644)
    params.write_text(text)
    return host


def documents(text):
    """JSON texts that stand one behind the other."""
    decoder = json.JSONDecoder()
    found = []
    text = text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:].strip()
    return found


def plain(value):
    """A report without what differs from run to run: numbers (but not how they are written), times, where it lies, and the random
    bytes of a test."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in ("timing_ms", "kept", "expected", "found")}
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, str):
        return re.sub(r"\d+", "#", value)
    return value if value is None or isinstance(value, bool) else "a number"


def reports(program, host, folder, name):
    point = "." if name == "C" else ","
    environ = dict(os.environ, LOCPATH=str(folder), LC_ALL=name)
    environ.pop("LANGUAGE", None)
    cache = folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    done = subprocess.run([program, host, cache, point], env=environ, stdout=subprocess.PIPE, check=True)
    found = documents(done.stdout.decode("utf-8"))
    if len(found) != 3:
        raise SystemExit("%s: %d reports" % (name, len(found)))
    for report in found:
        for number in json_numbers(report):
            assert isinstance(number, int), number
    return [plain(report) for report in found]


def json_numbers(value):
    if isinstance(value, dict):
        for member in value.values():
            yield from json_numbers(member)
    elif isinstance(value, list):
        for member in value:
            yield from json_numbers(member)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def main():
    program, hosts = sys.argv[1], Path(sys.argv[2])
    if shutil.which("localedef") is None:
        print("skipped: no localedef")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="p2psafe-abi-") as name:
        folder = Path(name)
        if not make_locales(folder):
            return SKIPPED
        host = make_host(hosts, folder)
        wanted = reports(program, host, folder, "C")
        if "RMFORCESTATICBAR#" not in json.dumps(wanted):
            raise SystemExit("nothing is said about the driver's key: this test would not see it missed")
        failed = [locale for locale in LOCALES if not same(program, host, folder, locale, wanted)]
    return 1 if failed else 0


def same(program, host, folder, locale, wanted):
    """Looks again after a difference: what a locale does is the same each time, what an overloaded machine does is not."""
    for attempt in range(3):
        got = reports(program, host, folder, locale)
        if got == wanted:
            print("%s: the same" % locale)
            return True
        differences(wanted, got, locale)
        wanted = reports(program, host, folder, "C")
    return False


def differences(one, other, where):
    """Prints each place where these two are not the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(set(one) | set(other)):
            differences(one.get(key), other.get(key), "%s.%s" % (where, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (a, b) in enumerate(zip(one, other)):
            differences(a, b, "%s[%d]" % (where, i))
    elif one != other:
        print("%s: %s is %s" % (where, json.dumps(one), json.dumps(other)))


if __name__ == "__main__":
    sys.exit(main())
