#!/usr/bin/env python3
"""`explain` and `gather`: what people read, that nothing is tested for it, and that a gathered folder holds no names.

usage: test_explain.py PATH_OF_P2PSAFE
"""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = ""
HOSTS = pathlib.Path(__file__).resolve().parent
BOOT_ID = "00000000-0000-4000-8000-000000000000"  # of every gathered host
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)
PERSON = re.compile(r"\(\S+@\S*\)")


class Program(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.cache = self.scratch / "cache"
        self.cache.mkdir(mode=0o700)

    def run_program(self, *words):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("P2PSAFE_", "CUDA_", "NCCL_", "XDG_", "COLUMNS"))}
        env.update({"P2PSAFE_CACHE": str(self.cache), "HOME": str(self.scratch), "TERM": "dumb", "COLUMNS": "1000"})
        done = subprocess.run([PROGRAM, *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env=env, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def report(self, *words):
        _, out, err = self.run_program("--json", *words)
        self.assertEqual(err, "")
        return json.loads(out)


class Explain(Program):
    FOUNDING = HOSTS / "s01-founding-host"

    def test_without_a_kept_test_it_looks_and_never_tests(self):
        code, out, err = self.run_program("explain", "--host", self.FOUNDING)
        self.assertEqual((code, err), (1, ""))
        self.assertIn("There is no kept test", out)
        self.assertIn("12 of 12 directions are not tested, and what may stand against them: the IOMMU translates", out)
        self.assertEqual([p.name for p in self.cache.iterdir() if p.suffix == ".json"], [])
        report = self.report("explain", "--host", self.FOUNDING)
        self.assertEqual({pair["verdict"] for pair in report["pairs"]}, {"UNTESTED"})

    def test_no_leg_failed_and_the_gpu_did_not_last(self):
        _, out, _ = self.run_program("test", "--host", HOSTS / "x-lost-at-the-end")
        self.assertIn("no leg failed, but 0000:61:00.0 is risky since the test", out)
        code, out, err = self.run_program("explain", "--host", HOSTS / "x-lost-at-the-end")
        self.assertEqual((code, err), (1, ""))
        self.assertIn("2 of 2 directions are ERROR, because the driver reported a grave error of a GPU: 0000:61:00.0.", out)

    def test_the_kept_test_is_explained(self):
        self.run_program("test", "--no-measure", "--host", self.FOUNDING)
        code, out, err = self.run_program("explain", "--host", self.FOUNDING)
        self.assertEqual((code, err), (1, ""))
        self.assertIn("comes from the kept test", out)
        self.assertIn("12 of 12 directions are CORRUPT, because the IOMMU translates and the driver hands out raw BAR addresses", out)
        self.assertIn("IO_PAGE_FAULT", out)
        works, _, rest = out.partition("What does not help here")
        order = [works.index(word) for word in (" 1. T0:", "I5: kernel 6.11", "S1: a boot entry")]
        self.assertEqual(order, sorted(order))
        self.assertIn("inference", works)
        for word in ("FORBIDDEN  I1: boot with iommu=pt", "FORBIDDEN  I2:", "FORBIDDEN  I3:", "already on I7: driver parameter",
                     "no effect  A1:", "no effect  A2:", "no effect  A3:"):
            self.assertIn(word, rest)
        for advice in ("noacs", "GGML_CUDA_P2P=0", "pcie_acs_override"):
            self.assertNotIn(advice, out)
        report = self.report("explain", "--host", self.FOUNDING)
        self.assertIs(report["kept"]["hit"], True)
        self.assertIn("IOMMU_TRANSLATED", [f["code"] for f in report["findings"]])
        self.assertIn("T0", [r["code"] for r in report["remedies"]])

    def test_a_raw_address_is_told_only_where_one_was_seen(self):
        host = HOSTS / "f02-intel-silent"  # before 6.12 a stock driver maps its peers, and nothing is in the log
        self.run_program("test", "--no-measure", "--host", host)
        _, out, _ = self.run_program("explain", "--host", host)
        self.assertIn("2 of 2 directions are CORRUPT, probably because the IOMMU translates what these GPUs send", out)
        self.assertNotIn("raw BAR", out)

    def test_why_nobody_tested_comes_before_what_a_test_would_show(self):
        host = HOSTS / "f04a-cmdline-off-translated"  # a patched driver under translation
        self.run_program("test", "--no-measure", "--host", host)
        _, out, _ = self.run_program("explain", "--host", host)
        self.assertIn("2 of 2 directions are not tested, and what stands against them: a test of them could bring the machine down", out)

    def test_what_is_wrong_with_pcie_explains_no_nvlink(self):
        host = self.scratch / "host"  # two of three GPUs are joined
        shutil.copytree(HOSTS / "x-fault-beside-nvlink", host, symlinks=True)
        cuda = json.loads((host / "cuda.json").read_text())
        cuda["faults"] = [{"op": "sm_store", "effect": "drop"}]
        (host / "cuda.json").write_text(json.dumps(cuda))
        for group in (host / "root/sys/kernel/iommu_groups").glob("*/type"):
            group.write_text("DMA-FQ\n")
        self.run_program("test", "--no-measure", "--keep-going", "--host", host)
        _, out, _ = self.run_program("explain", "--host", host)
        self.assertIn("4 of 6 directions are CORRUPT (0>1 1>0 1>2 2>1), probably because the IOMMU translates", out)
        self.assertIn("2 of 6 directions are CORRUPT (0>2 2>0), probably because the driver offers peers that do not work", out)

    def test_what_could_not_be_read_is_told(self):
        _, out, _ = self.run_program("explain", "--host", HOSTS / "f02a-kmsg-denied")
        self.assertIn("What could not be read", out)
        self.assertIn("the kernel log: no permission", out)
        _, out, _ = self.run_program("explain", "--host", HOSTS / "f01a-config-64-bytes")
        self.assertIn("which bridges redirect (ACS)", out)
        _, out, _ = self.run_program("explain", "--host", self.FOUNDING)
        self.assertNotIn("What could not be read", out)

    def test_a_guest_is_told_what_its_host_can_do(self):
        host = HOSTS / "f07-vm-refusal"
        self.run_program("test", "--no-measure", "--host", host)
        _, out, _ = self.run_program("explain", "--host", host)
        self.assertIn("2 of 2 directions are UNSUPPORTED, probably because this is a guest, and its hypervisor granted no peers", out)
        self.assertIn("V2: the host's owner", out)
        self.assertIn("everything about the host", out)
        for word in ("vBIOS", "patched", "ACS"):
            self.assertNotIn(word, out)

    def test_a_healthy_host_needs_nothing(self):
        host = HOSTS / "ok-2xh200-nvlink"
        self.run_program("test", "--no-measure", "--level", "quick", "--host", host)
        code, out, _ = self.run_program("explain", "--host", host)
        self.assertEqual(code, 0)
        self.assertIn("nothing is broken: every direction was proven", out)
        self.assertNotIn("What you can do", out)

    def test_probe_and_explain_of_one_look_agree(self):
        a = self.report("probe", "--host", self.FOUNDING)
        b = self.report("explain", "--host", self.FOUNDING)
        self.assertEqual((a["findings"], a["remedies"]), (b["findings"], b["remedies"]))


class Gather(Program):
    def gathered(self, host):
        folder = self.scratch / ("gathered-" + host.name)
        code, out, err = self.run_program("gather", folder, "--host", host)
        self.assertEqual((code, err), (0, ""))
        self.assertIn(str(folder), out)
        return folder

    def files(self, folder):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield path.relative_to(folder), path.read_bytes()

    def test_the_folder_replays(self):
        for name in ("s01-founding-host", "f06-private-mirror", "ok-2xh200-nvlink", "f08-one-direction", "f01a-config-64-bytes",
                     "f02a-kmsg-denied", "f04-firmware-off"):
            with self.subTest(name):
                folder = self.gathered(HOSTS / name)
                reports = [self.report("probe", "--no-cache", "--host", host) for host in (HOSTS / name, folder)]
                for report in reports:
                    for key in ("created_unix", "timing_ms"):
                        del report[key]
                    del report["host"]["log_position"]  # the folder holds only those lines that matter
                self.assertEqual(*reports)
                shutil.rmtree(folder)

    def test_an_arm_fault_finds_its_gpu(self):
        host = self.scratch / "arm"
        shutil.copytree(HOSTS / "s05-dgx-spark", host, symlinks=True)
        unit = "../../../platform/arm-smmu-v3.5.auto/iommu/smmu3.0x0000000005000000"
        (host / "root/sys/devices/pci000f:00/000f:00:00.0/000f:01:00.0/iommu").symlink_to(unit)
        line = ("arm-smmu-v3 arm-smmu-v3.{}.auto: event: F_TRANSLATION client: (unassigned sid) sid: 0x{:x} ssid: 0x0 "
                "iova: 0x1000 ipa: 0x0")
        with open(host / "kmsg", "a") as log:
            for i, (number, stream) in enumerate(((5, 0x100), (6, 0x100), (5, 0x200))):
                log.write(f"3,{200 + i},{2000000 + i},-;{line.format(number, stream)}\n")
        for folder in (host, self.gathered(host)):
            report = self.report("probe", "--no-cache", "--host", folder)
            found = [f for f in report["findings"] if f["code"] == "IOMMU_FAULT_LOGGED"]
            self.assertEqual([f["subject"] for f in found], ["000f:01:00.0"])
            self.assertEqual(len(found[0]["evidence"]), 1, found)
            self.assertIn("sid: 0x100", found[0]["evidence"][0]["text"])

    def planted(self):
        """A host with names wherever machines have them."""
        host = self.scratch / "planted"
        shutil.copytree(HOSTS / "s01-founding-host", host, symlinks=True)
        root = host / "root"
        (root / "proc/cmdline").write_text(
            "BOOT_IMAGE=/boot/vmlinuz root=UUID=deadbeef-1111-2222-3333-444455556666 ro hostname=secrethost amd_iommu=on "
            "nvidia.NVreg_TemporaryFilePath=/home/alice/tmp\n")
        (root / "proc/driver/nvidia/version").write_text(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  590.48.01  Release Build  (alice@secrethost)  Mon\n")
        with (root / "proc/driver/nvidia/params").open("a") as params:
            params.write('TemporaryFilePath: "/home/alice/tmp"\n')
        (root / "proc/1").mkdir(exist_ok=True)
        (root / "proc/1/environ").write_bytes(b"USER=alice\0container=lxc\0TOKEN=hunter2\0")
        (root / "sys/class/dmi/id/product_serial").write_text("SERIAL4711\n")
        (root / "sys/class/dmi/id/product_uuid").write_text("deadbeef-1111-2222-3333-444455556666\n")
        with (host / "kmsg").open("a") as log:
            log.write("6,200,2000000,-;systemd[1]: Hostname set to <secrethost>.\n"
                      "6,201,2000001,-;NVRM: GPU at PCI:0000:01:00: GPU-deadbeef-1111-2222-3333-444455556666\n"
                      "6,202,2000002,-;NVRM: GPU Board Serial Number: SERIAL4711\n"
                      "6,203,2000003,-;NVRM: Xid (PCI:0000:01:00): 13, pid=4242, name=alicetool, Graphics Exception\n")
        config = root / "sys/bus/pci/devices/0000:01:00.0/config"
        data = bytearray(config.read_bytes().ljust(4096, b"\0"))
        data[0x34] = 0xE0  # first capability: vital product data, with what was read last
        data[0xE0:0xE8] = bytes([0x03, 0x00, 0x12, 0x80]) + b"VPD!"
        head = struct.unpack_from("<I", data, 0x100)[0]
        struct.pack_into("<I", data, 0x100, (head & 0xFFFFF) | 0xE00 << 20 if head else 0x0001 | 1 << 16 | 0xE00 << 20)
        struct.pack_into("<I", data, 0xE00, 0x0003 | 1 << 16)
        data[0xE04:0xE0C] = b"SERIALNO"
        config.write_bytes(bytes(data))
        return host

    def test_no_names(self):
        host = self.planted()
        self.run_program("test", "--no-measure", "--level", "quick", "--host", host)
        folder = self.gathered(host)
        seen = 0
        for path, data in self.files(folder):
            text = data.decode("latin-1")
            for secret in ("alice", "secrethost", "SERIAL", "hunter2", "deadbeef", "VPD!", "4242", "TOKEN", "GPU-", str(self.scratch)):
                self.assertNotIn(secret, text, path)
            for found in UUID.findall(text):
                self.assertEqual(found, BOOT_ID, path)
            self.assertIsNone(PERSON.search(text), path)
            seen += 1
        self.assertGreater(seen, 100)
        # and what matters is still there
        self.assertEqual((folder / "root/proc/cmdline").read_text(), "amd_iommu=on\n")
        self.assertEqual((folder / "root/proc/1/environ").read_bytes(), b"container=lxc\0")
        self.assertIn("Xid (PCI:0000:01:00): 13", (folder / "kmsg").read_text())
        self.assertIn("590.48.01", (folder / "root/proc/driver/nvidia/version").read_text())
        report = json.loads((folder / "report.json").read_text())
        self.assertIn("CORRUPT", {pair["verdict"] for pair in report["pairs"]})
        self.assertNotIn("kept", report)
        kept = (folder / "root/sys/bus/pci/devices/0000:01:00.0/config").read_bytes()
        self.assertEqual(kept[:2], b"\xde\x10")

    def test_other_drivers_devices_are_not_read(self):
        folder = self.gathered(HOSTS / "s01-founding-host")
        devices = folder / "root/sys/bus/pci/devices"
        self.assertTrue((devices / "0000:01:00.0/config").is_file())
        self.assertTrue((devices / "0000:80:01.1/config").is_file())
        self.assertFalse((devices / "0000:81:00.0/config").exists())  # belongs to a virtual machine
        self.assertTrue((devices / "0000:81:00.0/resource").is_file())
        self.assertEqual(os.readlink(devices / "0000:81:00.0/driver").rsplit("/", 1)[1], "vfio-pci")

    def test_nothing_is_overwritten(self):
        folder = self.scratch / "full"
        folder.mkdir()
        (folder / "mine").write_text("mine")
        code, out, err = self.run_program("gather", folder, "--host", HOSTS / "one-gpu")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("not empty", err)
        self.assertEqual([p.name for p in folder.iterdir()], ["mine"])
        code, _, err = self.run_program("gather", "a", "b")
        self.assertEqual(code, 2)
        self.assertIn("'b'", err)
        code, _, err = self.run_program("gather", self.scratch / "no" / "such")
        self.assertEqual(code, 2)

    def test_this_machine(self):
        folder = self.scratch / "here"
        code, _, err = self.run_program("gather", folder)
        self.assertEqual((code, err), (0, ""))
        host = json.loads((folder / "host.json").read_text())
        self.assertTrue(host["source"].startswith("gathered by p2psafe "))
        name = os.uname().nodename
        for path, data in self.files(folder):
            if len(name) > 5:
                self.assertNotIn(name, data.decode("latin-1"), path)
        live = self.report("probe")
        copy = self.report("probe", "--host", folder)
        for key in ("kernel", "virtualization"):
            self.assertEqual(live["host"][key], copy["host"][key])
        self.assertEqual([g["bdf"] for g in live["gpus"]], [g["bdf"] for g in copy["gpus"]])
        self.assertEqual(live["iommu"]["state"], copy["iommu"]["state"])


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
