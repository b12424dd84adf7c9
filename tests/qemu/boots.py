"""The boots: a machine, a command line, what is looked at in it, and what that machine is meant to be.

The last five columns are written by hand. judge.py holds them against what the guest's kernel printed, and both against the
program's answer: a laboratory that no longer is what it was meant to be fails like a wrong answer.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Boot:
    """One start of the guest."""

    name: str
    topology: str  # machine.TOPOLOGIES
    iommu: str  # machine.IOMMUS
    cmdline: str
    steps: tuple  # guest/steps
    types: str  # domain type of every GPU; "none": no IOMMU group
    paths: frozenset  # path classes between its GPUs
    switch_acs: bool = True  # downstream ports of switches have the capability
    redirects: bool = True  # the kernel turned ACS redirection on, wherever there is the capability
    links: str = ""  # LAB_LINKS of devices.c
    guest: bool = False  # the machine tells that it is virtual
    in_ci: bool = False


PHB = frozenset({"PHB"})
PIX = frozenset({"PIX"})
FAR = frozenset({"NODE", "SYS"})
LOOK = ("unbound", "bound")
NO_REDIRECT = "pci=disable_acs_redir=0000:00:02.0;0000:02:00.0;0000:02:01.0;0000:02:02.0;0000:02:03.0"

BOOTS = (
    # Many states in one boot: translated, seen without privilege, one identity GPU among the others, real faults, ACS cleared.
    Boot("intel-switch", "switch", "intel", "intel_iommu=on", ("unbound", "user", "mixed", "bound", "fault", "acs_off"),
         "DMA-FQ", PIX, in_ci=True),
    Boot("intel-cascade-pt", "cascade", "intel", "intel_iommu=on iommu=pt", ("bound", "fault"), "identity", PIX | {"PXB"},
         in_ci=True),
    Boot("amd-complexes", "complexes", "amd", "amd_iommu=on", LOOK, "DMA-FQ", FAR, in_ci=True),
    # The IOMMU is off, and the kernel turns ACS redirection on all the same.
    Boot("amd-complexes-off", "complexes", "amd", "amd_iommu=off", LOOK, "none", FAR, in_ci=True),
    Boot("amd-complexes-pt", "complexes", "amd", "iommu=pt", LOOK, "identity", FAR),
    Boot("amd-complexes-strict", "complexes", "amd", "iommu.strict=1", LOOK, "DMA", FAR),
    Boot("amd-switch", "switch", "amd", "", LOOK + ("acs_off",), "DMA-FQ", PIX),
    Boot("amd-switch-no-acs", "switch", "amd", "", LOOK, "DMA-FQ", PIX, switch_acs=False),
    Boot("amd-ports", "ports", "amd", "", ("unbound", "mixed", "bound"), "DMA-FQ", PHB),
    Boot("amd-ports-no-acs", "ports-no-acs", "amd", "", LOOK, "DMA-FQ", PHB),
    Boot("intel-switch-default", "switch", "intel", "", LOOK, "DMA-FQ", PIX),
    Boot("intel-switch-off", "switch", "intel", "intel_iommu=off", LOOK + ("fault",), "none", PIX, redirects=False),
    Boot("intel-switch-pt", "switch", "intel", "intel_iommu=on iommu=pt", LOOK + ("fault",), "identity", PIX),
    Boot("intel-switch-strict", "switch", "intel", "intel_iommu=on iommu.strict=1", LOOK, "DMA", PIX),
    Boot("intel-switch-no-acs", "switch", "intel", "intel_iommu=on", LOOK + ("fault",), "DMA-FQ", PIX, switch_acs=False),
    Boot("intel-switch-no-redirect", "switch", "intel", "intel_iommu=on " + NO_REDIRECT, LOOK + ("acs_off",), "DMA-FQ", PIX,
         redirects=False),
    Boot("intel-switches", "switches", "intel", "intel_iommu=on", LOOK + ("fault",), "DMA-FQ", PIX | {"SYS"}),
    Boot("intel-cascade", "cascade", "intel", "intel_iommu=on", LOOK + ("fault",), "DMA-FQ", PIX | {"PXB"}),
    Boot("intel-ports", "ports", "intel", "intel_iommu=on", ("unbound", "user", "mixed", "bound", "fault"), "DMA-FQ", PHB),
    Boot("intel-ports-caching", "ports", "intel-caching", "intel_iommu=on", LOOK, "DMA", PHB),
    Boot("intel-multifunction", "multifunction", "intel", "intel_iommu=on", LOOK, "DMA-FQ", PHB, links="16:4,8:3,16:4,1:1"),
    Boot("intel-complexes", "complexes", "intel", "intel_iommu=on", LOOK + ("fault",), "DMA-FQ", FAR),
    Boot("none-complexes", "complexes", "none", "", LOOK + ("fault",), "none", FAR, redirects=False),
    Boot("none-switch", "switch", "none", "iommu=pt", LOOK + ("fault",), "none", PIX, redirects=False),
    Boot("none-ports", "ports", "none", "intel_iommu=on", LOOK, "none", PHB, redirects=False),
)
