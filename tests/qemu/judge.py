"""Holds an answer of p2psafe against what the guest's kernel printed, and that against what the boot was meant to be.

The witnesses are the kernel log, lspci (its own walk over bridges and configuration space) and sysfs as the shell reads it.
Nothing here comes from the program under test.
"""

import re

import kernel_says

STATES = {"none": "none", "identity": "identity", "DMA": "translated", "DMA-FQ": "translated"}


class Checks:
    """Collects differences."""

    def __init__(self):
        self.lines = []

    def equal(self, what, expected, found):
        if expected != found:
            self.lines.append(f"{what}: expected {expected!r}, found {found!r}")

    def true(self, what, holds):
        if not holds:
            self.lines.append(what)


def took_ms(look):
    """Milliseconds of the program's own count; 0 without a report."""
    return look.report["timing_ms"]["total"] if look is not None and look.report is not None else 0


def differences(boot, step, look):
    """What is wrong with one look, as lines for people; none when all is right."""
    checks = Checks()
    if look is None or look.report is None:
        return [f"no report; exit {look.exit if look else '?'}, {look.stderr.strip() if look else 'nothing came back'}"]
    says = kernel_says.read(look.files)
    check_lab(checks, boot, step, says)
    check_run(checks, look)
    check_gpus(checks, look.report, says)
    check_iommu(checks, look.report, says)
    check_log(checks, boot, step, look.report, says)
    check_hops(checks, step, look.report, says)
    if step not in ("unbound", "user", "mixed"):
        check_paths(checks, look.report, says)
        check_acs(checks, boot, look.report, says)
    if step == "user":
        checks.equal("bridges blamed without the right to read them", {}, blamed(look.report, "bridge"))
    return checks.lines


def check_lab(checks, boot, step, says):
    """Is this the machine that the boot was meant to be?"""
    checks.equal("lab: GPUs", 4, len(says.gpus))
    if not says.gpus:
        return
    started = kernel_says.type_at_start(says)
    checks.equal("lab: domain type by the kernel's log", boot.types, started)
    for gpu in says.gpus.values():
        last = gpu.address == max(says.gpus)
        checks.equal(f"lab: type of {gpu.address}", "identity" if step == "mixed" and last else boot.types, gpu.type)
        checks.equal(f"lab: driver of {gpu.address}", "none" if step in ("unbound", "user", "mixed") else "nvidia", gpu.driver)
    checks.equal("lab: path classes", set(boot.paths), {kernel_says.path(says, a, b) for a, b in pairs(says)})
    if step == "user":
        return  # lspci was run by root all the same, but let other steps be the measure
    redirects = {port.address for port in says.ports.values() if port.redirects()}
    want = boot.redirects and step != "acs_off" and any(port.control is not None for port in says.ports.values())
    checks.equal("lab: some port redirects", want, bool(redirects))


def pairs(says):
    return [(a, b) for a in says.gpus for b in says.gpus if a != b]


def check_run(checks, look):
    checks.equal("standard error", "", look.stderr)
    checks.equal("simulated", False, look.report.get("simulated"))
    checks.equal("host.kernel", look.files["kernel.txt"].strip(), look.report["host"]["kernel"])
    checks.equal("host.privileged", look.name != "user", look.report["host"]["privileged"])
    checks.equal("host.log_state", "denied" if look.name == "user" else "readable", look.report["host"]["log_state"])
    for name, consumer in look.report["decision"]["consumers"].items():
        checks.true(f"consumer {name} is allowed, and nothing was tested", consumer["allowed"] is not True)


def check_gpus(checks, report, says):
    """The list of GPUs, and what the kernel knows of each."""
    found = {gpu["bdf"]: gpu for gpu in report["gpus"]}
    checks.equal("gpus", sorted(says.gpus), sorted(found))
    for address, gpu in says.gpus.items():
        answer = found.get(address)
        if answer is None:
            continue
        checks.equal(f"{address} domain_type", None if gpu.type == "none" else gpu.type, answer["domain_type"])
        checks.equal(f"{address} driver", None if gpu.driver == "none" else gpu.driver, answer["driver"])
        checks.equal(f"{address} numa_node", gpu.node if gpu.node >= 0 else None, answer["numa_node"])
        checks.equal(f"{address} bar1_bytes", says.bar1_bytes[address], answer["bar1_bytes"])
        if gpu.driver != "nvidia":
            checks.equal(f"{address} ours", False, answer["ours"])
            checks.equal(f"{address} state", "not_ours", answer["state"])


def check_iommu(checks, report, says):
    states = {STATES[gpu.type] for gpu in says.gpus.values()}
    checks.equal("iommu.state", states.pop() if len(states) == 1 else "mixed", report["iommu"]["state"])
    checks.true("iommu.confidence is low where the kernel leaves no doubt", report["iommu"]["confidence"] != "low")
    evidence = {line["source"]: line["text"] for line in report["iommu"]["evidence"]}
    for gpu in says.gpus.values():
        if gpu.type != "none":
            source = f"/sys/bus/pci/devices/{gpu.address}/iommu_group/type"
            checks.true(f"evidence {source}: {evidence.get(source)}", evidence.get(source, "").startswith(gpu.type))


def check_paths(checks, report, says):
    """Every directed pair, with the class that lspci's bridges give."""
    found = {(pair["src"], pair["dst"]): pair for pair in report["pairs"]}
    checks.equal("pairs", sorted(pairs(says)), sorted(found))
    for pair in pairs(says):
        if pair in found:
            path = kernel_says.path(says, *pair)
            checks.equal(f"{pair[0]}>{pair[1]} path", path, found[pair]["path"])
            checks.equal(f"{pair[0]}>{pair[1]} nccl_path", "PHB" if path == "NODE" else path, found[pair]["nccl_path"])
            checks.equal(f"{pair[0]}>{pair[1]} verdict", "UNTESTED", found[pair]["verdict"])


def check_log(checks, boot, step, report, says):
    """Each fault that the kernel logged is told, with the GPU that asked and whose window the address hits."""
    told = {finding["subject"]: [line["text"] for line in finding["evidence"]]
            for finding in report["findings"] if finding["code"] == "IOMMU_FAULT_LOGGED"}
    if step == "fault":
        logs = STATES[boot.types] == "translated" and boot.iommu.startswith("intel")
        checks.equal("lab: the kernel logged faults", logs, bool(says.faults))
        checks.equal("lab: a peer's window was hit", logs, any(fault.owner for fault in says.faults))
    if step == "user":
        checks.equal("faults told without the right to read the log", {}, told)
        return
    checks.equal("GPUs with faults", sorted({fault.device for fault in says.faults}), sorted(told))
    for fault in says.faults:
        texts = [text for text in told.get(fault.device, []) if fault.line in text]
        checks.true(f"not told: {fault.line}", bool(texts))
        if fault.owner:
            place = f"byte {fault.offset:#x} of BAR 1 of {fault.owner}"
            checks.true(f"the window is not named: {texts}", all(place in text for text in texts))
        else:
            checks.true(f"a window is named: {texts}", not any(" of BAR " in text for text in texts))


def blamed(report, what):
    """{address: control word} of the bridges that findings about ACS name."""
    findings = [finding for finding in report["findings"] if finding["code"] == "ACS_REDIRECT"]
    texts = [line["text"] for finding in findings for line in finding["evidence"]]
    found = re.findall(rf"ACS control 0x([0-9a-f]+) of {what} (\S+) ", "\n".join(texts))
    return {address: int(word, 16) for word, address in found}


def check_acs(checks, boot, report, says):
    """Redirecting ports below a shared bridge are named with their control word as lspci reads it, and no others. Root ports
    are named only where an AMD host translates and the GPUs share no bridge. In a guest the bridges are not the real ones."""
    below, roots = kernel_says.redirecting(says)
    amd = boot.iommu in ("amd", "none")  # the processor that machine.IOMMUS gives
    translated = all(STATES[gpu.type] == "translated" for gpu in says.gpus.values())
    checks.equal("bridges that redirect", {} if boot.guest else below, blamed(report, "bridge"))
    checks.equal("root ports that redirect", roots if amd and translated and not boot.guest and not below else {},
                 blamed(report, "root port"))


def hop_word(flags, unread):
    """A capability or control register as the report writes it."""
    if unread:
        return None
    return "none" if flags is None else f"{kernel_says.acs_word(flags):#06x}"


def check_hops(checks, step, report, says):
    """Every bridge above each GPU with its ACS registers as lspci reads them; unread without privilege, never "none"."""
    for gpu in report["gpus"]:
        hops = gpu["path"]
        checks.equal(f"{gpu['bdf']} path", says.bridges.get(gpu["bdf"]), [hop["bdf"] for hop in hops])
        for hop in hops[:-1]:
            port = says.ports[hop["bdf"]]
            for key, flags in (("acs_cap", port.capability), ("acs_ctl", port.control)):
                checks.equal(f"{hop['bdf']} {key}", hop_word(flags, step == "user"), hop[key])
