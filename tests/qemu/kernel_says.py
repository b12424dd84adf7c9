"""Reads the guest's own witnesses: dmesg, lspci -vvv, lspci -PP, sysfs as the shell printed it."""

import dataclasses
import re

REDIRECTS = ("ReqRedir", "CmpltRedir")  # lspci's words for Request and Completion Redirect
ACS_BITS = ("SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")  # bit 0 first


def acs_word(flags):
    """The register that lspci spelt out."""
    return sum(1 << bit for bit, word in enumerate(ACS_BITS) if flags[word])


@dataclasses.dataclass
class Gpu:
    """One line of gpus.txt."""

    address: str
    type: str
    driver: str
    node: int
    bar1: int


@dataclasses.dataclass
class Port:
    """A bridge in lspci -vvv. capability and control: {word: bool}, None without the ACS capability."""

    address: str
    capability: dict
    control: dict

    def redirects(self):
        return self.control is not None and any(self.control[word] for word in REDIRECTS)

    def control_word(self):
        return acs_word(self.control)


@dataclasses.dataclass
class Fault:
    """A line of the log about a stopped transfer. owner: the GPU whose second region holds the address; "" none."""

    line: str
    device: str
    owner: str
    offset: int


@dataclasses.dataclass
class Says:
    """All of it. bridges: for each GPU the addresses from the root port down to itself."""

    gpus: dict
    ports: dict
    bridges: dict
    bar1_bytes: dict
    log: str
    faults: list


def read(files):
    gpus = {}
    for line in files["gpus.txt"].splitlines():
        address, *words = line.split()
        values = dict(word.split("=", 1) for word in words)
        gpus[address] = Gpu(address, values["type"], values["driver"], int(values["node"]), int(values["bar1"], 16))
    sizes = bar1_of(files["lspci.txt"])
    return Says(gpus, ports_of(files["lspci.txt"]), bridges_of(files["bridges.txt"]), sizes, files["dmesg.txt"],
                faults_of(files["dmesg.txt"], gpus, sizes))


def blocks(lspci):
    """(address, class, text) of each device of lspci -D -n -vvv."""
    for text in re.split(r"\n\n+", lspci.strip()):
        head = re.match(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([0-9a-f]{4}):", text)
        if head is not None:
            yield head.group(1), head.group(2), text


def flags(text, word):
    line = re.search(rf"{word}:(.*)", text)
    if line is None:
        return None
    return {name: sign == "+" for name, sign in re.findall(r"(\w+)([+-])", line.group(1))}


def ports_of(lspci):
    return {address: Port(address, flags(text, "ACSCap"), flags(text, "ACSCtl"))
            for address, kind, text in blocks(lspci) if kind == "0604"}


def bar1_of(lspci):
    """Bytes of the second region of each GPU, by lspci's words."""
    units = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = {}
    for address, kind, text in blocks(lspci):
        region = re.search(r"Region 1: .*\[size=(\d+)([KMG]?)\]", text)
        if kind == "0302" and region is not None:
            sizes[address] = int(region.group(1)) * units[region.group(2)]
    return sizes


def faults_of(log, gpus, sizes):
    """The lines of Intel's and AMD's drivers that name a device and an address (Linux 6.1 and later)."""
    forms = (r"\] (DMAR: \[DMA (?:Read|Write).*Request device \[(\S+)\] fault addr (0x[0-9a-f]+) .*)",
             r"\] (pci (\S+): AMD-Vi: Event logged \[IO_PAGE_FAULT .*address=(0x[0-9a-f]+) .*)")
    found = []
    for line in log.splitlines():
        match = next(filter(None, (re.search(form, line) for form in forms)), None)
        if match is None:
            continue
        text, device, address = match.group(1).strip(), match.group(2), int(match.group(3), 16)
        device = device if device.count(":") == 2 else f"0000:{device}"
        owner = next((gpu.address for gpu in gpus.values() if gpu.bar1 <= address < gpu.bar1 + sizes[gpu.address]), "")
        found.append(Fault(text, device, owner, address - gpus[owner].bar1 if owner else 0))
    return found


def bridges_of(text):
    """lspci -PP prints "0000:00:02.0/01:00.0/02:00.0/03:00.0 0302: ..."."""
    found = {}
    for line in text.splitlines():
        first, *rest = line.split()[0].split("/")
        domain = first.split(":")[0]
        steps = [first] + [f"{domain}:{step}" for step in rest]
        found[steps[-1]] = steps
    return found


def shared_bridges(says, a, b):
    """How many bridges two GPUs have in common, counted from the root port."""
    up, down = says.bridges[a], says.bridges[b]
    common = 0
    while up[common] == down[common]:
        common += 1
    return common


def redirecting(says):
    """({port: control word} below a shared bridge, {root port: control word} where GPUs share none), of those that redirect."""
    below, roots = {}, {}
    for a in says.gpus:
        for b in says.gpus:
            if a == b:
                continue
            common = shared_bridges(says, a, b)
            for address in says.bridges[a][common:-1]:
                port = says.ports[address]
                if port.redirects() and common > 0:
                    below[address] = port.control_word()
                elif port.redirects() and address == says.bridges[a][0]:
                    roots[address] = port.control_word()
    return below, roots


def path(says, a, b):
    """The path class of two GPUs, from lspci's bridges and the NUMA nodes."""
    up, down = says.bridges[a], says.bridges[b]
    if up[0].rsplit(":", 1)[0] != down[0].rsplit(":", 1)[0]:  # root ports on different root buses
        return "NODE" if says.gpus[a].node == says.gpus[b].node else "SYS"
    common = shared_bridges(says, a, b)
    if common == 0:
        return "PHB"
    # The last common bridge is a switch's upstream port; a lone switch has a downstream port and the GPU below it.
    return "PIX" if len(up) - common == 2 and len(down) - common == 2 else "PXB"


def type_at_start(says):
    """The domain type that the kernel announced while it started: "none" if it put the GPUs in no group."""
    grouped = [f" {address}: Adding to iommu group " in says.log for address in says.gpus]
    if not any(grouped):
        return "none"
    if not all(grouped):
        return "only some of the GPUs are in a group"
    if re.search(r"iommu: Default domain type: Passthrough", says.log):
        return "identity"
    if not re.search(r"iommu: Default domain type: Translated", says.log):
        return "the log does not say"
    strict = re.search(r"policy: strict mode|IOMMU batching disallowed|Using strict mode", says.log)
    return "DMA" if strict else "DMA-FQ"
