"""Reads the public header: its functions, constants and structs. Knows only the plain C that the header allows itself."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "p2psafe" / "p2psafe.h"


def text():
    """The header without comments, continuation lines joined."""
    raw = HEADER.read_text(encoding="utf-8")
    raw = re.sub(r"/\*.*?\*/", " ", raw, flags=re.DOTALL)
    return raw.replace("\\\n", " ")


def functions():
    """Name -> (result, parameters) of every exported function, in order."""
    found = {}
    declarations = re.sub(r"^#.*$", "", text(), flags=re.MULTILINE)
    for result, name, parameters in re.findall(r"P2PSAFE_API\s+([^;()]*?)(p2psafe_\w+)\s*\(([^;]*?)\)\s*;", declarations):
        if name in found:
            raise ValueError("%s is declared twice" % name)
        found[name] = (" ".join(result.split()), " ".join(parameters.split()))
    return found


def constants():
    """Names of all P2PSAFE_* constants with a value, in order."""
    found = []
    for name, value in re.findall(r"^#define[ \t]+(P2PSAFE_\w+)[ \t]*(.*)$", text(), flags=re.MULTILINE):
        if name in ("P2PSAFE_H", "P2PSAFE_API") or not value.strip():
            continue
        found.append(name)
    return found


def values():
    """Name -> number of every constant, read from the text (the C compiler's answer is the golden file's)."""
    found = {}
    for name, value in re.findall(r"^#define[ \t]+(P2PSAFE_\w+)[ \t]+(.*)$", text(), flags=re.MULTILINE):
        if name == "P2PSAFE_API":
            continue
        number = re.sub(r"^U?INT64_C\((.*)\)$", r"\1", value.strip()).strip("() ")
        found[name] = int(number, 0)
    return found


def structs():
    """Name -> member names of every struct with a body, in order."""
    found = {}
    for name, body in re.findall(r"struct\s+(p2psafe_\w+)\s*\{(.*?)\}\s*;", text(), flags=re.DOTALL):
        members = []
        for declaration in body.split(";"):
            declaration = declaration.strip()
            if declaration:
                member = re.search(r"(\w+)\s*(\[[^\]]*\])?$", declaration)
                if member is None:
                    raise ValueError("cannot read %r in struct %s" % (declaration, name))
                members.append(member.group(1))
        found[name] = members
    return found


def opaque():
    """Names of the handles: structs that are declared and never defined here."""
    declared = re.findall(r"typedef\s+struct\s+(p2psafe_\w+)\s+p2psafe_\w+\s*;", text())
    return [name for name in declared if name not in structs()]
