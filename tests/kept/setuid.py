"""A setuid program believes nothing of its user's environment, and hands nothing of it to the helper.

Usage: setuid.py P2PSAFE HOST. Needs root, to make a setuid copy of the program and to start it as another user; exits 77
elsewhere. The helper is a script that writes down the environment it was given.
"""
import os
import shutil
import subprocess
import sys
import tempfile

NOBODY = 65534
PLANTED = {"LD_LIBRARY_PATH": "/planted/libraries", "HOME": "/planted/home", "P2PSAFE_SIM_HOST": "/planted/host"}
PLACES = ("P2PSAFE_CACHE", "XDG_CACHE_HOME", "HOME")


def place(program, folder, name, user, owner):
    """Where the record would be kept when a variable names a folder of owner's, who is whom the program runs as."""
    planted = os.path.join(folder, "planted-" + name)
    os.makedirs(planted, exist_ok=True)
    os.chown(planted, owner, owner)
    done = subprocess.run([program, "cache", "path"], env={name: planted, "PATH": "/usr/bin:/bin"}, user=user, group=user,
                          extra_groups=[], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True, text=True)
    return done.stdout


def given(program, folder, user):
    out = os.path.join(folder, "environment")
    if os.path.exists(out):
        os.unlink(out)
    helper = os.path.join(folder, "helper.sh")
    with open(helper, "w", encoding="ascii") as f:
        f.write(f"#!/bin/sh\nenv > {out}\n")
    os.chmod(helper, 0o755)
    host = os.path.join(folder, "host")
    subprocess.run([program, "probe", "--helper", helper, "--host", host], env={**PLANTED, "PATH": "/usr/bin:/bin"}, user=user, group=user,
                   extra_groups=[], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
    with open(out, encoding="utf-8", errors="replace") as f:
        return f.read()


def main():
    program = sys.argv[1]
    if os.geteuid() != 0:
        print("skipped: needs root to make a setuid program")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        shutil.copytree(sys.argv[2], os.path.join(folder, "host"), symlinks=True)
        copy = os.path.join(folder, "p2psafe")
        shutil.copy(program, copy)
        os.chmod(copy, 0o4755)
        if os.statvfs(folder).f_flag & os.ST_NOSUID:
            print("skipped: setuid is off where temporary files live")
            return 77
        secure = given(copy, folder, NOBODY)
        secure_places = [place(copy, folder, name, NOBODY, 0) for name in PLACES]
        os.chmod(copy, 0o755)
        plain = given(copy, folder, NOBODY)
        plain_places = [place(copy, folder, name, NOBODY, NOBODY) for name in PLACES]
    failed = 0
    if "/planted/libraries" not in plain:
        print("the plain program hands on no LD_LIBRARY_PATH: this test could not fail")
        failed = 1
    for value in PLANTED.values():
        if value in secure:
            print(f"the setuid program handed on {value}")
            failed = 1
    for name, secure_place, plain_place in zip(PLACES, secure_places, plain_places):
        if "planted-" not in plain_place:
            print(f"the plain program does not heed {name} ({plain_place.strip()}): this test could not fail")
            failed = 1
        if "planted-" in secure_place:
            print(f"the setuid program believes {name}")
            failed = 1
    print("failed" if failed else "a setuid program hands on nothing")
    return failed


if __name__ == "__main__":
    sys.exit(main())
