"""The emulated machines: PCI tree, NUMA nodes and IOMMU as arguments of QEMU. Devices fake* come from devices.c."""

MEMORY_MB = 512
GPUS = 4
LINK = "x-speed=16,x-width=16"
ENDPOINT = "fakegpu,dma_mask=0xffffffffffffffff"

# What keeps a kernel and a program from seeing that this is a guest: no hypervisor bit, firmware tables of nobody known.
BARE_CPU = ",-hypervisor"
BARE_TABLES = ("type=0,vendor=Lab", "type=1,manufacturer=Lab,product=Machine", "type=2,manufacturer=Lab",
               "type=3,manufacturer=Lab")

IOMMUS = {
    "none": ([], "EPYC"),
    "amd": (["amd-iommu"], "EPYC"),
    "intel": (["intel-iommu"], "Skylake-Server"),
    "intel-caching": (["intel-iommu,caching-mode=on"], "Skylake-Server"),
}


def gpu(index, bus):
    return [f"{ENDPOINT},id=gpu{index},bus={bus}"]


def port(index, bus, more=""):
    return [f"fakerp,id=rp{index},bus={bus},chassis={index + 1},slot={index + 1},{LINK}{more}"]


def switch(index, bus, gpus):
    """A switch below a root port, with one GPU at each downstream port."""
    devices = [f"fakeswup,id=up{index},bus={bus}"]
    for i in gpus:
        devices += [f"fakeswdn,id=dn{i},bus=up{index},chassis={i + 10},slot={i + 10}"] + gpu(i, f"dn{i}")
    return devices


def complexes():
    """Four root complexes with a GPU each, on two NUMA nodes."""
    devices = []
    for i in range(GPUS):
        devices += [f"pxb-pcie,id=rc{i},bus=pcie.0,bus_nr={0x20 + 0x20 * i},numa_node={i // 2}"]
        devices += port(i, f"rc{i}") + gpu(i, f"rp{i}")
    return devices


def one_switch():
    """Four GPUs behind one switch."""
    return port(0, "pcie.0", ",addr=2") + switch(0, "rp0", range(GPUS))


def two_switches():
    """Two root complexes on two NUMA nodes, each with a switch of two GPUs."""
    devices = []
    for s in range(2):
        devices += [f"pxb-pcie,id=rc{s},bus=pcie.0,bus_nr={0x20 + 0x40 * s},numa_node={s}"]
        devices += port(s, f"rc{s}") + switch(s, f"rp{s}", (2 * s, 2 * s + 1))
    return devices


def cascade():
    """A switch with a GPU and a second switch with a GPU behind it: one root port, two switches between the GPUs."""
    devices = port(0, "pcie.0", ",addr=2") + switch(0, "rp0", (0, 1))
    devices += ["fakeswdn,id=dn9,bus=up0,chassis=19,slot=19"]
    return devices + switch(1, "dn9", (2, 3))


def ports(more=""):
    """A root port for each GPU on one root complex."""
    devices = []
    for i in range(GPUS):
        devices += port(i, "pcie.0", f",addr={i + 2}{more}") + gpu(i, f"rp{i}")
    return devices


def multifunction():
    """The root ports are functions of one device and have no ACS: all GPUs in one IOMMU group."""
    devices = []
    for i in range(GPUS):
        devices += port(i, "pcie.0", f",addr=2.{i},multifunction=on,disable-acs=on") + gpu(i, f"rp{i}")
    return devices


TOPOLOGIES = {
    "complexes": complexes,
    "switch": one_switch,
    "switches": two_switches,
    "cascade": cascade,
    "ports": ports,
    "ports-no-acs": lambda: ports(",disable-acs=on"),
    "multifunction": multifunction,
}
TWO_NODES = ("complexes", "switches")


def cpus_and_nodes(topology):
    if topology not in TWO_NODES:
        return ["-smp", "2"]
    half = MEMORY_MB // 2
    args = ["-smp", "2,sockets=2,cores=1"]
    for node in range(2):
        args += ["-object", f"memory-backend-ram,id=m{node},size={half}M"]
        args += ["-numa", f"node,nodeid={node},cpus={node},memdev=m{node}"]
    return args + ["-numa", "dist,src=0,dst=1,val=32", "-numa", "dist,src=1,dst=0,val=32"]


def arguments(boot, vmlinuz, initrd, out):
    """Everything behind the program's name. One thread: with several, TCG was seen to break early boots."""
    iommu, cpu = IOMMUS[boot.iommu]
    cpu += "" if boot.guest else BARE_CPU
    args = ["-accel", "tcg,thread=single", "-machine", "q35", "-cpu", cpu, "-m", f"{MEMORY_MB}M"]
    for table in () if boot.guest else BARE_TABLES:
        args += ["-smbios", table]
    args += ["-nodefaults", "-display", "none", "-no-reboot", "-no-user-config"]
    args += ["-chardev", "stdio,id=con,signal=off", "-serial", "chardev:con", "-serial", f"file:{out}"]
    args += ["-kernel", str(vmlinuz), "-initrd", str(initrd)]
    args += ["-append", f"console=ttyS0 panic=-1 quiet {boot.cmdline}".strip()]
    args += cpus_and_nodes(boot.topology)
    for device in iommu + TOPOLOGIES[boot.topology]():
        args += ["-device", device]
    return args
