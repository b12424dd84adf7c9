#!/usr/bin/env python3
"""Boots a Debian kernel in QEMU and holds p2psafe's answers against what that kernel says.

usage: run.py --program build/bin/p2psafe [--all | BOOT...]      without a name: the boots that CI makes
       run.py --list

What is compared is written in judge.py, the boots in boots.py. Exit code 77: QEMU or the kernel cannot be had here.
"""

import argparse
import pathlib
import sys

import boots
import judge
import kernel
import lab


SLOW_MS = 2000  # a look takes 300 to 700 ms here, 50 on a real machine; workers of the helper are given up after one second


def choose(args):
    if args.all:
        return boots.BOOTS
    if not args.boots:
        return tuple(boot for boot in boots.BOOTS if boot.in_ci)
    by_name = {boot.name: boot for boot in boots.BOOTS}
    unknown = [name for name in args.boots if name not in by_name]
    if unknown:
        raise SystemExit(f"no boot named {', '.join(unknown)}; --list names them")
    return tuple(by_name[name] for name in args.boots)


def check_boot(boot, parts, keep):
    """Prints what was found; returns 0, 1 wrong, 77 not to be had."""
    try:
        lab.check_tools(boot, parts.devices)
        looks, console, seconds = lab.start(boot, parts, keep)
    except kernel.Missing as missing:
        print(f"skip {boot.name}: {missing}")
        return 77
    except lab.NotBooted as stuck:
        print(f"FAIL {boot.name}: the guest did not come to its end\n{stuck}")
        return 1
    wrong = slow = 0
    for step in boot.steps:
        look = looks.get(step)
        lines = judge.differences(boot, step, look)
        late = bool(lines) and judge.took_ms(look) > SLOW_MS
        print(f"{'slow' if late else 'FAIL' if lines else 'ok  '} {boot.name}: {step}")
        for line in lines:
            print(f"     {line}")
        wrong += bool(lines) and not late
        slow += late
    print(f"     {seconds:.1f} s")
    if wrong:
        print(console)
    if slow:
        print(f"skip {boot.name}: this machine is so busy that the program in the guest met its own time limits")
    return 1 if wrong else 77 if slow else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, help="bin/p2psafe, with lib and libexec beside its folder")
    parser.add_argument("--tools", type=pathlib.Path, help="folder of the lab's own programs (default: beside the program)")
    parser.add_argument("--kernel", type=pathlib.Path, help="folder with vmlinuz and pci-stub.ko, made by kernel.py")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for everything that the guests saw")
    parser.add_argument("--all", action="store_true", help="every boot, about ten minutes")
    parser.add_argument("--list", action="store_true", help="name the boots")
    parser.add_argument("--list-ci", action="store_true", help="the bare names of those that CI makes")
    parser.add_argument("boots", nargs="*")
    args = parser.parse_args()
    if args.list_ci:
        print("\n".join(boot.name for boot in boots.BOOTS if boot.in_ci))
        return 0
    if args.list:
        for boot in boots.BOOTS:
            print(f"{boot.name:26}{'CI ' if boot.in_ci else '   '}{boot.topology}, {boot.iommu}: {boot.cmdline}")
        return 0
    if args.program is None:
        parser.error("--program is needed")
    program = args.program.resolve()
    tools = (args.tools or program.parent.parent / "libexec" / "qemu").resolve()
    try:
        folder = (args.kernel or kernel.fetch()).resolve()
    except kernel.Missing as missing:
        print(f"skip: {missing}")
        return 77
    parts = lab.Parts(program, tools / "p2psafe-lab-dma", tools / "p2psafe-lab-devices.so", folder)
    results = [check_boot(boot, parts, args.keep) for boot in choose(args)]
    return 1 if 1 in results else max(results)


if __name__ == "__main__":
    sys.exit(main())
