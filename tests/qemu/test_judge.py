#!/usr/bin/env python3
"""Does the judge read the witnesses right, and does it notice every kind of wrong answer? Needs neither QEMU nor a kernel."""

import copy
import dataclasses
import sys
import unittest

import boots
import initramfs
import judge
import kernel_says
import lab

GPUS = tuple(f"0000:{bus:02x}:00.0" for bus in (3, 4, 5, 6))
BOOT = next(boot for boot in boots.BOOTS if boot.name == "intel-switch")
PORT = """{address} 0604: 10b5:8747 (rev ca)
\tCapabilities: [148 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir{sign} CmpltRedir{sign} UpstreamFwd+ EgressCtrl- DirectTrans-"""
BARE = """0000:01:00.0 0604: 10b5:8747 (rev ca)
\tCapabilities: [90] Express (v2) Upstream Port, MSI 00"""
GPU = """{address} 0302: 10de:2330 (rev a1)
\tRegion 0: Memory at fe800000 (32-bit, non-prefetchable) [size=1M]
\tRegion 1: Memory at {bar} (64-bit, prefetchable) [size=64M]"""


def witnesses(driver="nvidia", kind="DMA-FQ", sign="+"):
    """The files that a guest with four GPUs behind one switch sends."""
    ports = [PORT.format(address=f"0000:02:0{i}.0", sign=sign) for i in range(4)]
    gpus = [GPU.format(address=address, bar=f"f{8 - i:x}000000") for i, address in enumerate(GPUS)]
    log = [f"[    0.5] pci {address}: Adding to iommu group {8 + i}" for i, address in enumerate(GPUS) if kind != "none"]
    log.append("[    0.4] iommu: Default domain type: " + ("Passthrough" if kind == "identity" else "Translated"))
    log.append("[    0.4] iommu: DMA domain TLB invalidation policy: " + ("strict mode" if kind == "DMA" else "lazy mode"))
    return {
        "gpus.txt": "\n".join(f"{address} type={kind} driver={driver} node=-1 bar1=0x00000000f{8 - i:x}000000"
                              for i, address in enumerate(GPUS)),
        "bridges.txt": "\n".join(f"0000:00:02.0/01:00.0/02:0{i}.0/{address[5:]} 0302: 10de:2330 (rev a1)"
                                 for i, address in enumerate(GPUS)),
        "lspci.txt": "\n\n".join([PORT.format(address="0000:00:02.0", sign=sign), BARE] + ports + gpus) + "\n",
        "dmesg.txt": "\n".join(log),
        "kernel.txt": "6.1.0-57-amd64\n",
    }


def path_of(i, address):
    """The hops of one GPU: a root port, an upstream port without ACS, a downstream port that redirects, itself."""
    ports = [("0000:00:02.0", "0x005f", "0x001d"), ("0000:01:00.0", "none", "none"), (f"0000:02:0{i}.0", "0x005f", "0x001d")]
    hops = [{"bdf": bdf, "acs_cap": capability, "acs_ctl": control} for bdf, capability, control in ports]
    return hops + [{"bdf": address, "acs_cap": None, "acs_ctl": None}]


def answer(driver="nvidia", kind="DMA-FQ"):
    """What the program has to say there."""
    gpus = [{"bdf": address, "driver": driver, "domain_type": kind, "numa_node": None, "bar1_bytes": 64 << 20,
             "ours": True, "state": "unknown", "path": path_of(i, address)} for i, address in enumerate(GPUS)]
    pairs = [{"src": a, "dst": b, "path": "PIX", "nccl_path": "PIX", "verdict": "UNTESTED"}
             for a in GPUS for b in GPUS if a != b]
    evidence = [{"source": f"/sys/bus/pci/devices/{address}/iommu_group/type", "text": kind} for address in GPUS]
    return {
        "simulated": False,
        "host": {"kernel": "6.1.0-57-amd64", "privileged": True, "log_state": "readable"},
        "iommu": {"state": "translated", "confidence": "medium", "evidence": evidence},
        "gpus": gpus,
        "pairs": pairs,
        "decision": {"consumers": {"nccl_p2p": {"allowed": False}}},
        "findings": [{"code": "ACS_REDIRECT", "subject": address, "evidence": [
            {"source": "configuration space", "text": f"ACS control 0x001d of bridge 0000:02:0{i}.0 (request redirect)"}]}
            for i, address in enumerate(GPUS)],
    }


def look(report=None, files=None, name="bound"):
    return lab.Look(name, 3, answer() if report is None else report, "", witnesses() if files is None else files)


class Right(unittest.TestCase):
    def test_a_right_answer_has_no_difference(self):
        self.assertEqual([], judge.differences(BOOT, "bound", look()))

    def test_every_boot_has_its_parts(self):
        names = [boot.name for boot in boots.BOOTS]
        self.assertEqual(len(names), len(set(names)))
        for boot in boots.BOOTS:
            self.assertIn(boot.topology, lab.machine.TOPOLOGIES)
            self.assertIn(boot.iommu, lab.machine.IOMMUS)
            self.assertIn(boot.types, judge.STATES)
            for step in boot.steps:
                self.assertTrue((initramfs.GUEST / "steps" / f"{step}.sh").is_file(), step)


class Wrong(unittest.TestCase):
    def change(self, *path, value):
        """The right answer with one place changed must be noticed."""
        report = copy.deepcopy(answer())
        at = report
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        self.assertNotEqual([], judge.differences(BOOT, "bound", look(report)), path)

    def test_each_place_of_the_answer(self):
        self.change("simulated", value=True)
        self.change("host", "kernel", value="6.1.0")
        self.change("host", "privileged", value=False)
        self.change("host", "log_state", value="absent")
        self.change("iommu", "state", value="identity")
        self.change("iommu", "state", value="none")
        self.change("iommu", "confidence", value="low")
        self.change("iommu", "evidence", value=[])
        self.change("gpus", 0, "domain_type", value="DMA")
        self.change("gpus", 0, "domain_type", value=None)
        self.change("gpus", 3, "driver", value=None)
        self.change("gpus", 3, "numa_node", value=0)
        self.change("gpus", 3, "bar1_bytes", value=0)
        self.change("gpus", value=answer()["gpus"][:3])
        self.change("gpus", 2, "path", value=[])
        self.change("gpus", 2, "path", 1, "acs_ctl", value=None)
        self.change("gpus", 2, "path", 1, "acs_cap", value="0x0000")
        self.change("gpus", 2, "path", 2, "acs_ctl", value="0x0000")
        self.change("gpus", 2, "path", 2, "acs_ctl", value="none")
        self.change("findings", value=[])
        invented = {"code": "IOMMU_FAULT_LOGGED", "subject": GPUS[0], "evidence": []}
        self.change("findings", value=answer()["findings"] + [invented])
        self.change("findings", 1, "evidence", 0, "text", value="ACS control 0x000c of bridge 0000:02:01.0 (request redirect)")
        self.change("pairs", value=[])
        self.change("pairs", 5, "path", value="PHB")
        self.change("pairs", 5, "nccl_path", value="SYS")
        self.change("pairs", 5, "verdict", value="OK")
        self.change("decision", "consumers", "nccl_p2p", "allowed", value=True)

    def test_nothing_came_back(self):
        self.assertNotEqual([], judge.differences(BOOT, "bound", None))
        self.assertNotEqual([], judge.differences(BOOT, "bound", dataclasses.replace(look(), report=None)))

    def test_noise(self):
        self.assertNotEqual([], judge.differences(BOOT, "bound", dataclasses.replace(look(), stderr="pcilib: ...")))

    def test_another_laboratory(self):
        for files in (witnesses(kind="identity"), witnesses(kind="DMA"), witnesses(driver="none"), witnesses(sign="-"),
                      dict(witnesses(), **{"gpus.txt": ""})):
            lines = judge.differences(BOOT, "bound", look(files=files))
            self.assertTrue(any(line.startswith("lab: ") for line in lines), lines)


class Words(unittest.TestCase):
    def test_types_by_the_log(self):
        for kind in judge.STATES:
            self.assertEqual(kind, kernel_says.type_at_start(kernel_says.read(witnesses(kind=kind))))

    def test_ports(self):
        ports = kernel_says.read(witnesses(sign="-")).ports
        self.assertIsNone(ports["0000:01:00.0"].control)
        self.assertFalse(ports["0000:02:03.0"].redirects())
        self.assertTrue(ports["0000:02:03.0"].capability["ReqRedir"])
        self.assertTrue(kernel_says.read(witnesses()).ports["0000:02:03.0"].redirects())

    def test_paths(self):
        steps = {
            "PIX": (["0000:00:02.0", "0000:01:00.0", "0000:02:00.0", "a"],
                    ["0000:00:02.0", "0000:01:00.0", "0000:02:01.0", "b"]),
            "PXB": (["0000:00:02.0", "0000:01:00.0", "0000:02:00.0", "a"],
                    ["0000:00:02.0", "0000:01:00.0", "0000:02:01.0", "0000:05:00.0", "0000:06:00.0", "b"]),
            "PHB": (["0000:00:02.0", "a"], ["0000:00:03.0", "b"]),
            "NODE": (["0000:20:00.0", "a"], ["0000:40:00.0", "b"]),
        }
        says = kernel_says.read(witnesses())
        for name in "ab":
            says.gpus[name] = dataclasses.replace(says.gpus[GPUS[0]], node=0)
        for expected, (up, down) in steps.items():
            says.bridges.update(a=up, b=down)
            self.assertEqual(expected, kernel_says.path(says, "a", "b"))
            self.assertEqual(expected, kernel_says.path(says, "b", "a"))
        says.gpus["b"].node = 1
        self.assertEqual("SYS", kernel_says.path(says, "a", "b"))


if __name__ == "__main__":
    sys.exit(unittest.main())
