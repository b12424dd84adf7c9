"""Does a report hold what was expected? Pure functions; docs/HOSTS.md ("expect.json") is the specification.

An object matches by subset. An array of things with an identity (GPUs, pairs, legs, ...) matches by that identity; "*" in
an identity stands for every element and needs at least one. A way (path) matches element by element, each by subset. Any other array
matches as a whole. A number may be expected within bounds, as speeds are.
"""

IDENTITY = {
    "gpus": ("bdf",),
    "pairs": ("src", "dst"),
    "staged": ("a", "b"),
    "legs": ("leg", "mapping"),
    "sizes": ("bytes",),
    "findings": ("code", "subject"),
    "remedies": ("code", "subject"),
    "settings": ("name",),
}
IN_ORDER = {"path"}
BOUNDS = ({"least"}, {"most"}, {"least", "most"}, {"about", "percent"})


def shown(value):
    text = repr(value)
    return text if len(text) <= 160 else text[:157] + "..."


def same(expected, found):
    """Equal, and of the same kind: 1 is not true and 0 is not false."""
    return type(expected) is type(found) and expected == found


def identity_of(entry, keys):
    return tuple(str(entry[k]) for k in keys if k in entry)


def selects(wanted, entry):
    return all(want == "*" or same(want, entry.get(key)) for key, want in wanted.items())


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def within(bounds, found):
    """bounds: {least, most}, or {about, percent}."""
    if not is_number(found):
        return False
    if "about" in bounds:
        return abs(found - bounds["about"]) * 100 <= bounds["about"] * bounds["percent"]
    return bounds.get("least", found) <= found <= bounds.get("most", found)


def differences(expected, found, path="report", key=None):
    """A list of lines, one per difference; empty when found holds what was expected."""
    if isinstance(expected, dict) and set(expected) in BOUNDS and all(is_number(v) for v in expected.values()):
        return [] if within(expected, found) else [f"{path}: expected {shown(expected)}, found {shown(found)}"]
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return [f"{path}: expected an object, found {shown(found)}"]
        lines = []
        for name, value in expected.items():
            if name not in found:
                lines.append(f"{path}.{name}: expected {shown(value)}, the key is absent")
            else:
                lines += differences(value, found[name], f"{path}.{name}", name)
        return lines
    if isinstance(expected, list) and key in IDENTITY and any(isinstance(e, dict) for e in expected):
        return listed(expected, found, path, IDENTITY[key])
    if isinstance(expected, list) and key in IN_ORDER and isinstance(found, list) and len(found) == len(expected):
        return [line for i, (e, f) in enumerate(zip(expected, found)) for line in differences(e, f, f"{path}[{i}]")]
    if same(expected, found):
        return []
    return [f"{path}: expected {shown(expected)}, found {shown(found)}"]


def listed(expected, found, path, keys):
    if not isinstance(found, list) or not all(isinstance(e, dict) for e in found):
        return [f"{path}: expected an array of objects, found {shown(found)}"]
    lines = []
    for entry in expected:
        wanted = {k: entry[k] for k in keys if k in entry}
        if not wanted:
            return [f"{path}: the expectation {shown(entry)} names none of {', '.join(keys)}"]
        rest = {k: v for k, v in entry.items() if k not in wanted}
        label = " ".join(f"{k}={v}" for k, v in wanted.items())
        hits = [e for e in found if selects(wanted, e)]
        if not hits:
            there = ", ".join(" ".join(identity_of(e, keys)) for e in found) or "nothing"
            lines.append(f"{path}[{label}]: expected, not there; there is {there[:300]}")
        for hit in hits:
            lines += differences(rest, hit, f"{path}[{' '.join(identity_of(hit, keys))}]")
    return lines
