"""schema.py SCHEMA FILE: whether a JSON file is as a JSON Schema says. Of the schema language it takes what
docs/program.schema.json uses, and refuses other words."""

import json
import sys

_KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_WORDS = {"$schema", "$id", "$defs", "$ref", "title", "description", "type", "properties", "required",
          "additionalProperties", "items", "enum", "const", "oneOf"}


def is_kind(value, kind):
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, _KINDS[kind])


def problems(value, schema, root, at):
    unknown = set(schema) - _WORDS
    if unknown:
        raise ValueError(f"the schema has words that this check does not know: {unknown}")
    if "$ref" in schema:
        yield from problems(value, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root, at)
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if kinds and not any(is_kind(value, kind) for kind in kinds):
        yield f"{at}: {value!r} is no {' or '.join(kinds)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{at}: {value!r} is not {schema['const']!r}"
    if "oneOf" in schema:
        fits = [s for s in schema["oneOf"] if not list(problems(value, s, root, at))]
        if len(fits) != 1:
            yield f"{at}: {str(value)[:200]} fits {len(fits)} of {len(schema['oneOf'])} forms"
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for name in schema.get("required", []):
            if name not in value:
                yield f"{at}: '{name}' is missing"
        for name, item in value.items():
            if name in known:
                yield from problems(item, known[name], root, f"{at}.{name}")
            elif schema.get("additionalProperties") is False:
                yield f"{at}: '{name}' is not in the schema"
    if isinstance(value, list) and "items" in schema:
        for k, item in enumerate(value):
            yield from problems(item, schema["items"], root, f"{at}[{k}]")


def main(schema_path, path):
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    found = list(problems(value, schema, schema, "program"))
    for problem in found[:10]:
        print(problem)
    sys.exit(bool(found))


main(*sys.argv[1:])
