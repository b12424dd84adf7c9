#!/usr/bin/env python3
"""CUDA_VISIBLE_DEVICES as the driver reads it, against the ordinals of our report.

usage: visible.py PROGRAM_P2PSAFE                     on a machine with GPUs; exits 77 where there are none
       visible.py PROGRAM_P2PSAFE LIBCUDA HOST_DIR    the same on a simulated host

For every mask a process of its own asks libcuda for its devices and their UUIDs, and `p2psafe decide` says which ordinal each GPU
has. Where ours is null nothing was claimed: that is counted, and an error only for masks whose meaning is documented."""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import uuid

LIBRARY = sys.argv[2] if len(sys.argv) > 3 else "libcuda.so.1"
HOST = sys.argv[3] if len(sys.argv) > 3 else None

NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE


def driver():
    """The UUIDs of this process's devices, in order."""
    cuda = ctypes.CDLL(LIBRARY)
    code = cuda.cuInit(0)
    if code == NO_DEVICE:
        return []
    if code != 0:
        return {"cuInit": code}
    count = ctypes.c_int()
    assert cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    found = []
    for i in range(count.value):
        raw = (ctypes.c_ubyte * 16)()
        get = getattr(cuda, "cuDeviceGetUuid_v2", None) or cuda.cuDeviceGetUuid
        assert get(ctypes.byref(raw), i) == 0
        found.append("GPU-%s" % uuid.UUID(bytes=bytes(raw)))
    return found


def environment(mask, order, cache):
    env = {k: v for k, v in os.environ.items() if k not in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")}
    if mask is not None:
        env["CUDA_VISIBLE_DEVICES"] = mask
    if order is not None:
        env["CUDA_DEVICE_ORDER"] = order
    env["P2PSAFE_CACHE"] = cache
    if HOST is not None:
        env["P2PSAFE_SIM_HOST"] = HOST
    return env


def theirs(env):
    """What the driver says, in a process that is made for this one question and never had a driver before."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.environ.clear()
            os.environ.update(env)
            answer = driver()
        except (OSError, AssertionError) as error:
            answer = {"error": repr(error)}
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"error": "the driver ended the process"}


def ours(program, env):
    host = ["--host", HOST] if HOST is not None else []
    done = subprocess.run([program, "decide", "--level", "quick", "--json"] + host, env=env, capture_output=True, text=True, timeout=120)
    gpus = [g for g in json.loads(done.stdout)["gpus"] if g["ordinal"] is not None]
    return [g["uuid"] for g in sorted(gpus, key=lambda g: g["ordinal"])]


def masks(uuids):
    """(mask, must we claim something?)"""
    n = len(uuids)
    last = n - 1
    sure = [None, "", "0", str(last), "%d,0" % last, "-1", "0,-1,%d" % last, "%d" % n, "0,%d,%d" % (n, last), uuids[0], uuids[last],
            "%s,%s" % (uuids[last], uuids[0]), uuids[0][:12], "NoDevFiles", "GPU-ffffffff", "%s,GPU-ffffffff" % uuids[0],
            " 0", "0 ", "0,", ",0", " ", "1gpu,0", "00", "+0"]
    open_questions = ["0,0", "%s,%s" % (uuids[0], uuids[0]), "%s,%s" % (uuids[0], uuids[0][:12]), "0,%s" % uuids[last],
                      "%s,0" % uuids[last], "0x0", "-0", "4294967296", "18446744073709551616", "0,18446744073709551616", "GPU-",
                      uuids[0].upper(), uuids[0].lower(), " " + uuids[0], uuids[0] + " ", uuids[0] + "0", "MIG-" + uuids[0],
                      "0;1", "0 %d" % last, "all", "none", "void"]
    return [(m, True) for m in sure] + [(m, False) for m in open_questions]


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory(prefix="p2psafe-visible-") as cache:
        all_uuids = theirs(environment(None, "PCI_BUS_ID", cache))
        if not isinstance(all_uuids, list) or len(all_uuids) < 2:
            print("no two GPUs here: %s" % (all_uuids,))
            return 77 if HOST is None else 1
        wrong = silent = 0
        for order in ("PCI_BUS_ID", None, "FASTEST_FIRST"):
            for mask, sure in masks(all_uuids):
                env = environment(mask, order, cache)
                want, got = theirs(env), ours(program, env)
                if got == want:
                    continue
                if not sure and got == (want[:len(got)] if isinstance(want, list) else []):
                    silent += 1
                    print("order %s, mask %r: the driver says %s, we say less: %s" % (order, mask, want, got))
                    continue
                wrong += 1
                print("WRONG: order %s, mask %r: the driver says %s, we say %s" % (order, mask, want, got))
        print("%d wrong, %d where we claim less than the driver" % (wrong, silent))
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
