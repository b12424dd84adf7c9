"""A small JSON Schema validator: the words that docs/report.schema.json uses. A word that it does not know is an error."""

import re

TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
ANNOTATIONS = {"$schema", "$id", "$defs", "title", "description", "$comment"}
KNOWN = {"type", "enum", "const", "pattern", "minimum", "maximum", "required", "properties", "additionalProperties", "items"}


def same(a, b):
    """JSON equality: true is not 1."""
    return type(a) is type(b) and a == b


def problems(value, schema, root, where="report"):
    """Sentences about what does not fit."""
    if schema is True:
        return []
    if schema is False:
        return ["%s: not allowed" % where]
    if "$ref" in schema:
        target = root
        for step in schema["$ref"].lstrip("#/").split("/"):
            target = target[step]
        return problems(value, target, root, where)
    unknown = set(schema) - ANNOTATIONS - KNOWN
    if unknown:
        raise ValueError("the schema uses %s, which this validator does not know" % ", ".join(sorted(unknown)))
    found = []
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(TYPES[name](value) for name in names):
            return ["%s: %r is not %s" % (where, value, " or ".join(names))]
    if "const" in schema and not same(value, schema["const"]):
        found.append("%s: %r is not %r" % (where, value, schema["const"]))
    if "enum" in schema and not any(same(value, allowed) for allowed in schema["enum"]):
        found.append("%s: %r is not one of %r" % (where, value, schema["enum"]))
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        found.append("%s: %r does not match %s" % (where, value, schema["pattern"]))
    if isinstance(value, int) and value < schema.get("minimum", value):
        found.append("%s: %d is below %d" % (where, value, schema["minimum"]))
    if isinstance(value, int) and value > schema.get("maximum", value):
        found.append("%s: %d is above %d" % (where, value, schema["maximum"]))
    if isinstance(value, list):
        for i, item in enumerate(value):
            found += problems(item, schema.get("items", True), root, "%s[%d]" % (where, i))
    if isinstance(value, dict):
        for name in schema.get("required", []):
            if name not in value:
                found.append("%s: %s is missing" % (where, name))
        for name, item in value.items():
            part = schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
            found += problems(item, part, root, "%s.%s" % (where, name))
    return found


def undescribed(value, schema, root, where="report"):
    """Keys of the value that the schema allows without describing them."""
    if not isinstance(schema, dict):
        return []
    while "$ref" in schema:
        target = root
        for step in schema["$ref"].lstrip("#/").split("/"):
            target = target[step]
        schema = target
    found = []
    if isinstance(value, list):
        for i, item in enumerate(value):
            found += undescribed(item, schema.get("items", True), root, "%s[%d]" % (where, i))
    if isinstance(value, dict):
        for name, item in value.items():
            part = schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
            if part is True:
                found.append("%s.%s" % (where, name))
            found += undescribed(item, part, root, "%s.%s" % (where, name))
    return found
