"""Writes the seeds that come from real runs of the program on simulated hosts: corpus/record, full, merge, host, and what argv and
caches are made of.

usage: seeds.py --program BUILD/bin/p2psafe [--out DIR]
Small by design: of a report only what its reader looks at, and legs without what no decision hangs on.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOSTS = HERE.parent / "hosts"
KEPT = ["ok-2xh200-nvlink", "f01c-mixed-domains", "x-torn"]
TOP = "schema level simulated deadline_hit created_unix measured_unix host iommu gpus pairs staged findings decision".split()
GPU = "bdf uuid name driver domain_type ours state minor numa_node path".split()
PAIR = "src dst path nccl_path can_access bandwidth latency legs".split()
LEG = "leg mapping verdict damage bytes rounds".split()
COMMANDS = [
    "probe\n--json", "test\n--level\nthorough\n--soak\n30\n--json", "decide\n--recheck\n--deadline=2.5", "env\n--format\ndocker",
    "run\n--require-enforced\n--\npython\n-m\nserver", "merge\na.json\nb.json\n--format=json", "cache\nshow", "help\ntest",
    "gather\n--host\nx\nout", "groups\n--best\n4\n--by\nuuid", "--version", "-h", "env\n--write-caches\n--home\n/x\n--force",
    "decide\n--gpus\n0000:01:00.0,GPU-5d3c,2\n--no-cache",
]


def write(folder, name, data):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def few(report, top=TOP):
    """The report with only the keys that matter, so that a search spends its time on them."""
    out = {k: report[k] for k in top if k in report}
    out["gpus"] = [{k: g[k] for k in GPU if k in g} for g in report["gpus"]]
    out["pairs"] = [{k: p[k] for k in PAIR if k in p} for p in report["pairs"]]
    for pair in out["pairs"]:
        pair["legs"] = [{k: leg[k] for k in LEG if k in leg} for leg in pair["legs"]]
    decision = report["decision"]
    out["decision"] = {k: decision[k] for k in ("gpus", "exit_code") if k in decision}
    out["decision"]["consumers"] = {k: {"allowed": v["allowed"]} for k, v in decision["consumers"].items()}
    out["findings"] = report["findings"][:2]
    return out


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def run(program, host, place, *words):
    environment = dict(os.environ, P2PSAFE_CACHE=str(place))
    done = subprocess.run([program, *words, "--host", str(HOSTS / host)], env=environment, capture_output=True, check=False)
    return done.stdout


def join(program, host):
    """The report that `merge` makes of one of this host, without what `merge` does not read."""
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report"
        report.write_bytes(run(program, host, place, "test", "--level", "quick", "--no-measure", "--json"))
        done = subprocess.run([program, "merge", "--json", str(report)], capture_output=True, check=False)
    joined = json.loads(done.stdout)
    out = {k: v for k, v in few(joined).items() if v}
    out["decision"] = {k: joined["decision"][k] for k in ("consumers", "exit_code", "joined", "settings", "transport", "vetoes")}
    return out


def from_runs(program, out):
    reports = []
    for host in KEPT:
        with tempfile.TemporaryDirectory() as place:
            report = json.loads(run(program, host, place, "test", "--level", "quick", "--no-measure", "--json"))
            record = (Path(place) / "1.json").read_bytes()
            full = next(p for p in Path(place).iterdir() if p.name not in ("1.json", "lock")).read_text().split("\n")
        reports.append(compact(few(report)))
        write(out / "record", host, b"\1" + record.rstrip().rsplit(b',"sum"', 1)[0] + b"}")
        head = json.loads(full[0])
        head = few(dict(head, decision=dict(report["decision"], **head["decision"])))
        write(out / "full", host, "\n".join([compact(head)] + full[1:]))
        write(out / "merge", host, reports[-1])
    gpu = {"bdf": "0000:01:00.0", "ours": True}
    single = {"schema": 1, "gpus": [gpu], "pairs": [],
              "decision": {"exit_code": 0, "consumers": {}, "gpus": [gpu["bdf"]], "vetoes": [], "settings": []}}
    write(out / "merge", "says-no", reports[0].replace('"allowed":true', '"allowed":false'))  # though its legs prove it
    write(out / "merge", "says-no-in-part", reports[0].replace('"allowed":true', '"allowed":false', 1))
    write(out / "merge", "two", reports[0] + "\0" + compact(single))
    write(out / "merge", "one-gpu", compact(single))
    for host in ("ok-4xpcie", "x-torn-lines", "s01-founding-host", "one-gpu"):
        joined = compact(join(program, host))
        write(out / "merge", "joined-" + host, joined)
        write(out / "merge", "joined-" + host + "-and-one", joined + "\0" + reports[0])


def by_hand(out):
    for i, command in enumerate(COMMANDS):
        write(out / "argv", "%02d" % i, command)
    for host in ("s01-founding-host", "x-narrow-sockets", "f09-display-gpu", "x-torn"):
        write(out / "host", host + ".host", b"\0" + (HOSTS / host / "host.json").read_bytes())
        cuda = json.loads((HOSTS / host / "cuda.json").read_text())
        write(out / "host", host + ".cuda", "\1" + compact(cuda))
    flat = {"%d->%d" % (i, j): True for i in range(2) for j in range(2)}
    no = {k: False for k in flat}
    for how in range(24):
        if how in (0, 1, 4, 8, 14, 21):
            write(out / "caches", "foreign-%d" % how, bytes([how]) + compact(flat).encode())
    write(out / "caches", "ours", b"\0" + compact(dict(no, p2psafe=False)).encode())
    write(out / "caches", "says-no", b"\1" + compact(no).encode())
    write(out / "caches", "damaged", b"\1" + compact(no).encode()[:-9])
    marker = "p2psafe-marker 1 boot=%s key=%s count=%d step=0000:01:00.0>0000:41:00.0 sm_store"
    boot = "7c0d3a52-8f4e-4b7e-9a51-3f2d6f0c1b9e"
    for name, text in (("one", marker % (boot, "1234", 1)), ("two", marker % (boot, "1234", 2)), ("earlier", marker % ("-", "1234", 1)),
                       ("other", marker % (boot, "99", 1)), ("cut", (marker % (boot, "1234", 1))[:40])):
        write(out / "marker", name, "\0" + (text.ljust(255) + "\n" if name != "cut" else text))
    write(out / "marker", "conf", "\1# a machine\nhost_dir=/srv/host\ncuda_library=/usr/lib/libcuda.so.1\n")
    write(out / "marker", "conf-twice", "\1host_dir=/a\r\nhost_dir=/b\n")
    codec(out)
    orders(out)
    changes(out)


def number(value, size):
    return int(value).to_bytes(size, "little")


def codec(out):
    hello = number(5, 4) + number(5, 2) + b"1.0.0"
    write(out / "codec", "hello", bytes([2 | 3 << 2]) + hello)
    write(out / "codec", "raw", b"\0P2PS" + number(16, 2) + number(8 + len(hello), 2) + hello)
    write(out / "codec", "request", bytes([3]) + bytes(184))
    write(out / "codec", "risk", bytes([2 | 8 << 2]) + number(0, 4) + number(1, 4) + number(3, 4))
    # the library's side: table index | 128 (fields as in the struct), length, fields
    leg = 9
    frames = b""
    for src in range(2):
        for mapping in range(1, 4):
            for kind in range(1, 14):
                fields = b"".join(number(v, 4) for v in (src, 1 - src, kind, mapping, src, 1, 0, 0, 0, 0)) + number(4096, 8)
                frames += bytes([128 | leg]) + number(len(fields), 2) + fields
    write(out / "helper", "all-ok", frames)
    write(out / "helper", "some-ok", frames[: len(frames) // 3])
    for i in range(20):
        write(out / "helper", "one-%02d" % i, bytes([128 | i]) + number(200, 2) + b"".join(number(k % 3, 4) for k in range(50)))


def orders(out):
    """Library to conductor: how, length, fields. 0xc0: the fields only touch a good message."""
    run, gpu, risk = 0, 1, 2

    def message(how, fields=b""):
        return bytes([how, len(fields)]) + fields

    order = message(0xC0 | run, b"\2") + message(0xC0 | gpu, b"\0") + message(0xC0 | gpu, b"\1")
    for name, tail in (("two", b""), ("go", message(0x80 | risk, number(1, 4))), ("stop", message(0x80 | risk, number(0, 4))),
                       ("odd", message(0x80 | risk, number(77, 4)) + message(0x80 | 3, b"\5"))):
        write(out / "orders", name, order + tail + b"\0")
    write(out / "orders", "none", message(0xC0 | run, b"\0") + b"\0")
    write(out / "orders", "twice", message(0xC0 | run, b"\2") + message(0xC0 | gpu, b"\1") + message(0xC0 | gpu, b"\1") + b"\0")
    write(out / "orders", "raw", message(run, number(5, 4) + number(5, 2) + b"1.0.0" + number(1, 4) + number(1, 4)) + b"\0")
    worker(out)
    for i in range(6):
        write(out / "judge", "%d" % i, bytes((i * 37 + k * (2 * i + 1)) & 255 for k in range(220)))
    write(out / "judge", "zero", bytes(220))
    write(out / "judge", "ones", b"\1" * 220)


def request(op, buf=0, buf2=0, off=0, off2=0, length=0, rounds=0, words=0, slot=0, flag=0, mode=0, idiom=0, fail=0, luck=1):
    """fail, luck, length, struct p2s_op_request up to max_ns."""
    fields = b"".join(number(v, 4) for v in (0, op, buf, buf2, 0, 0)) + b"".join(number(v, 8) for v in (off, off2, length, 0, length, 5, 6))
    fields += b"".join(number(v, 4) for v in (rounds, words, slot, flag, mode, idiom)) + number(0, 8) + number(1000, 8) + number(1000000, 8)
    return bytes([fail]) + number(luck, 3) + bytes([len(fields)]) + fields


def worker(out):
    alloc = request(2, buf=1, length=1 << 20) + request(2, buf=2, length=1 << 20, mode=1)
    fill = request(8, buf=1, length=4096) + request(9, buf=1, length=4096)
    message = request(15, buf=1, buf2=2, off=0, off2=4096, rounds=3, words=8, slot=128, flag=64)
    moves = request(11, buf=1, buf2=2, length=4096) + request(10, buf=1, buf2=2, length=4096) + request(12, buf=1, length=64)
    write(out / "worker", "fill", alloc + fill + request(7, buf=1))
    write(out / "worker", "moves", alloc + moves)
    write(out / "worker", "messages", alloc + message + request(16, buf=1, rounds=4, words=8) + request(17, buf=1, rounds=4))
    write(out / "worker", "host", alloc + request(13, buf=3, length=65536, fail=128) + request(14, buf=1, buf2=3, length=4096))
    write(out / "worker", "export", alloc + request(3, buf=1, mode=2) + request(3, buf=2, mode=3) + request(4, buf=4, length=65536, mode=3, fail=128))
    write(out / "worker", "peer", alloc + b"\x7f" + request(5, buf=0, fail=128) + request(8, buf=1, length=4096) + moves)
    write(out / "worker", "slots", alloc + request(19, buf=1, rounds=3, words=8, slot=128, flag=64) +
          request(18, buf=2, buf2=1, rounds=3, words=8, slot=128, flag=64))
    write(out / "worker", "fails", b"".join(request(2, buf=i, length=1 << 20, mode=i % 2, fail=20 + i) for i in range(1, 12)))
    speed = request(22) + request(23, buf=1, buf2=2, length=65536, rounds=2, words=2) + request(25, buf=1, length=65536, slot=128, rounds=9, words=2)
    write(out / "worker", "speed", alloc + speed + request(26, buf=1, buf2=2, rounds=5) + request(24, buf=1, buf2=2) + request(27, buf=1))


def changes(out):
    # kept: how, then place (2 bytes; bit 15: the full report), bytes to cut, bytes to put
    write(out / "kept", "as-it-is", b"\0")
    write(out / "kept", "sealed", b"\1")
    for at in (0, 40, 100, 300, 600, 900, 1200, 1500):
        write(out / "kept", "cut-%d" % at, b"\1" + number(at, 2) + b"\x08\0")
        write(out / "kept", "letter-%d" % at, b"\1" + number(at, 2) + b"\1\1C")
        write(out / "kept", "full-%d" % at, b"\1" + number(0x8000 | at * 4, 2) + b"\4\1" + b"3")
    write(out / "kept", "flip", b"\0" + number(700, 2) + b"\1\1C")
    # tree: file, length, bytes
    def file(index, text):
        return bytes([index]) + number(len(text), 2) + text

    write(out / "tree", "cmdline", file(2, b"iommu=pt pci=noacs,disable_acs_redir=pci:1 intel_iommu=on\n"))
    write(out / "tree", "version", file(10, b"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14-p2p\n"))
    write(out / "tree", "params", file(11, b'RegistryDwords: "ForceP2P=0x11;RMForceP2PType=1"\nDmaRemapPeerMmio: 0\n'))
    write(out / "tree", "boot", file(5, b"\n") + file(9, b"0::/docker/0123456789abcdef\n"))
    write(out / "tree", "gone", bytes([36]) + b"\xff\xff")
    write(out / "tree", "placement", bytes([255]) + number(32, 2) + b"0000:01:00.0 0\n0000:41:00.0 0\n\n\n")
    for index in (36, 40, 49, 50, 51, 52, 57, 68, 70, 80, 88):
        write(out / "tree", "file-%d" % index, file(index, b"0x10de\n"))
        write(out / "tree", "other-%d" % index, file(index, b"DMA-FQ\n") + file(index + 1, b"65535\n"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--out", type=Path, default=HERE / "corpus")
    arguments = parser.parse_args()
    for name in "record full merge host argv caches marker codec helper orders worker judge kept tree".split():
        shutil.rmtree(arguments.out / name, ignore_errors=True)
    from_runs(os.path.abspath(arguments.program), arguments.out)
    by_hand(arguments.out)


if __name__ == "__main__":
    main()
