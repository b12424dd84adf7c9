#!/usr/bin/env python3
"""Nothing that the program says or writes holds a secret or a name that it met on its way: of people, hosts, parts, tokens of
the environment, words of the command line that do not matter.

usage: test_leaks.py PROGRAM"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HOSTS = pathlib.Path(__file__).resolve().parent
PROGRAM = None

NAMES = ("alice", "secrethost", "hunter2", "serial4711", "deadbeef-1111", "424242424")
UUID = "deadbeef-1111-2222-3333-444455556666"
BOOT_ID = "00000000-0000-4000-8000-000000000000"  # which every gathered host has
ANY_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)

# Each call once, as a person or a script makes it; the last three are mistakes.
CALLS = (
    ("probe",), ("probe", "--json"),
    ("test", "--level", "quick", "--no-measure"), ("test", "--level", "quick", "--no-measure", "--json"),
    ("decide",), ("decide", "--json"),
    ("explain",), ("explain", "--json"),
    ("env", "--format", "shell"), ("env", "--format", "docker"), ("env", "--format", "systemd"),
    ("env", "--format", "systemd-unit"), ("env", "--format", "kubernetes"), ("env", "--format", "nccl-conf"),
    ("env", "--format", "json"), ("groups",), ("cache", "show"), ("cache", "path"), ("run", "true"),
    ("probe", "--gpus", "GPU-nowhere"), ("groups", "--json"), ("probe", "--no-such-option"), ("no-such-command",),
)


def plant(host, name):
    shutil.copytree(HOSTS / name, host, symlinks=True)
    root = host / "root"
    texts = {
        "proc/cmdline": f"BOOT_IMAGE=/boot/vmlinuz root=UUID={UUID} ro hostname=secrethost token=hunter2 amd_iommu=on iommu=pt "
                        "nvidia.NVreg_TemporaryFilePath=/home/alice/tmp\n",
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build  "
                                      "(alice@secrethost)  Mon\nGCC version: gcc (alice@secrethost) 12\n",
        "proc/sys/kernel/hostname": "secrethost\n", "etc/hostname": "secrethost\n", "etc/machine-id": "hunter2\n",
        "sys/class/dmi/id/product_serial": "SERIAL4711\n", "sys/class/dmi/id/board_serial": "SERIAL4711\n",
        "sys/class/dmi/id/product_uuid": UUID + "\n",
    }
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    with (root / "proc/driver/nvidia/params").open("a") as params:
        params.write('TemporaryFilePath: "/home/alice/tmp"\nRmMsg: ""\n')
    for process in ("1", "self"):
        (root / "proc" / process).mkdir(exist_ok=True)
        (root / "proc" / process / "environ").write_bytes(b"USER=alice\0container=lxc\0TOKEN=hunter2\0HOSTNAME=secrethost\0")
    with (host / "kmsg").open("a") as log:
        log.write("6,900,2000000,-;systemd[1]: Hostname set to <secrethost>.\n"
                  f"6,901,2000001,-;NVRM: GPU at PCI:0000:01:00: GPU-{UUID}\n"
                  "6,902,2000002,-;NVRM: GPU Board Serial Number: SERIAL4711\n"
                  "6,903,2000003,-;NVRM: Xid (PCI:0000:01:00): 31, pid=424242424, name=alicetool, Ch 00000010\n"
                  "6,904,2000004,-;NVRM: Xid (PCI:0000:01:00): 79, pid='424242424', name=alice, "
                  "GPU has fallen off the bus.\n")


def plant_parts(host, key):
    """Words of the command line and parameters of the driver that name GPUs and files: they matter to a decision, so the report says
    them, and only gather promises that they are not there. Some stand where a text is cut, in the middle of one."""
    root = host / "root"
    cmdline = root / "proc/cmdline"
    cmdline.write_text(cmdline.read_text().strip() + f" nvidia.NVreg_ExcludedGpus=GPU-{UUID},GPU-{UUID.upper()} pci=noaer "
                       f"\"nvidia.NVreg_RegistryDwords=RmGpu={UUID}\" intel_iommu=on,{UUID} iommu=pt,{UUID},/home/alice,merge\n")
    params = root / "proc/driver/nvidia/params"
    planted = {"ExcludedGpus": ",".join([f"GPU-{UUID}"] * 20), "RegistryDwords": f"{key}=17;{'a' * 160}=GPU-{UUID};/home/alice",
               "RegistryDwordsPerDevice": f"{'b' * 495},GPU-{UUID}", "CoherentGPUMemoryMode": "/home/alice/mode"}
    lines = [line for line in params.read_text().splitlines() if line.split(":")[0] not in planted]
    params.write_text("\n".join(lines + [f'{name}: "{value}"' for name, value in planted.items()]) + "\n")


class Leaks(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="p2psafe-leaks-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "P2PSAFE_LOG": "debug", "HF_TOKEN": "hunter2",
                            "USER": "alice", "LOGNAME": "alice", "HOSTNAME": "secrethost", "AWS_SECRET_ACCESS_KEY": "hunter2",
                            "HOME": str(self.scratch / "home"), "P2PSAFE_CACHE": str(self.scratch / "cache"),
                            **{k: v for k, v in os.environ.items() if k in ("LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS")}}
        (self.scratch / "home").mkdir()

    def call(self, *words):
        return subprocess.run([PROGRAM, *words], env=self.environment, capture_output=True, text=True, errors="replace",
                              timeout=120, cwd=self.scratch)

    def clean(self, what, text):
        text = text.lower()
        for name in NAMES:
            at = text.find(name)
            self.assertEqual(at, -1, f"{what}: {name}: {text[max(0, at - 200):at + 100]}")

    def test_outputs(self):
        for name in ("s01-founding-host", "ok-2xh200-nvlink"):
            host = self.scratch / name
            plant(host, name)
            for words in CALLS:
                with self.subTest(host=name, call=words):
                    done = self.call(words[0], *(("--host", host) if words[0] != "no-such-command" else ()), *words[1:])
                    self.assertIn(done.returncode, (2,) if words in CALLS[-3:] else (0, 1, 3))
                    if words[0] != "run":
                        self.assertNotEqual(done.stdout + done.stderr, "")
                    self.clean(" ".join(words), done.stdout + done.stderr)
            kept = [p for p in (self.scratch / "cache").rglob("*") if p.is_file()] if (self.scratch / "cache").exists() else []
            for path in kept:
                with self.subTest(host=name, file=path.name):
                    self.clean(path.name, path.read_text(errors="replace"))
            self.assertTrue(kept, "nothing was kept, so nothing was looked at")

    def gathered(self, name, key, *codes):
        host, folder = self.scratch / name, self.scratch / ("gathered-" + name)
        plant(host, name)
        plant_parts(host, key)
        tested = self.call("test", "--level", "quick", "--no-measure", "--deadline", "100", "--host", host)
        self.assertIn(tested.returncode, (0, 1), tested.stderr)
        done = self.call("gather", folder, "--host", host)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.clean("gather", done.stdout + done.stderr)
        for path in sorted(folder.rglob("*")):
            self.clean("a name", str(path.relative_to(folder)))
            if path.is_file() and not path.is_symlink():
                text = path.read_bytes().decode("latin-1")
                with self.subTest(host=name, file=path.name):
                    self.clean(path.name, text)
                    self.assertEqual(re.findall("deadbeef|GPU-[0-9a-f]", text, re.IGNORECASE), [])
                    self.assertLessEqual(set(ANY_UUID.findall(text)), {BOOT_ID} if path.name == "boot_id" else set())
        # What matters is still there: the words, the parameters, the findings that quote them.
        words = (folder / "root/proc/cmdline").read_text().split()
        self.assertLess({"amd_iommu=on", "iommu=pt", "nvidia.NVreg_ExcludedGpus=GPU-*,GPU-*", "pci=noaer"}, set(words))
        report = json.loads((folder / "report.json").read_text())
        self.assertEqual(report["host"]["driver"]["parameters"]["DmaRemapPeerMmio"], "1")
        self.assertLess(set(codes), {finding["code"] for finding in report["findings"]})

    def test_gathered(self):
        self.gathered("s01-founding-host", "Other", "CMDLINE_MISMATCH", "CMDLINE_NO_OPTION")

    def test_gathered_where_keys_force_peers(self):
        self.gathered("ok-2xh200-nvlink", "ForceP2P", "CMDLINE_MISMATCH", "DRIVER_FORCED_P2P")

    def test_what_is_planted_is_looked_for(self):
        with self.assertRaises(AssertionError):
            self.clean("planted", "user alice")
        with self.assertRaises(AssertionError):
            self.clean("planted", "GPU-" + UUID.upper())


if __name__ == "__main__":
    PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
