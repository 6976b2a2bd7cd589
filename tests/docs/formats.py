"""The files of each family, field by field, read from the records. ``python -m tests.docs.formats`` writes
``docs/reference/format-FAMILY.md``.

What a field means stands in ``docs/reference/fields.toml``.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from chipmap.family import FAMILY_NAMES, Family, get_family, resolve
from tests.docs.pages import ROOT, escaped

Schema = dict[str, Any]

FIELDS = ROOT / "docs" / "reference" / "fields.toml"


def page(family: str) -> Path:
    """Where the page of this family is."""
    return ROOT / "docs" / "reference" / f"format-{family}.md"


def type_of(schema: Schema) -> str:
    """A JSON Schema's type in words, records as links to their tables."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(type_of(one) for one in schema["anyOf"])
    kind = schema.get("type")
    if kind == "array":
        items = [type_of(one) for one in schema.get("prefixItems", [])]
        length = schema.get("minItems") if schema.get("minItems") == schema.get("maxItems") else None
        if items:
            return f"list: {', '.join(items)}"
        return (
            f"list of {f'{length} × ' if length else ''}{type_of(schema['items'])}" if schema.get("items") else "list"
        )
    if kind == "object" and "additionalProperties" in schema:
        return f"object: name → {type_of(schema['additionalProperties'])}"
    return {"integer": "whole number", "boolean": "true or false", "object": "object", None: "any"}.get(kind, str(kind))


@cache
def meanings() -> dict[str, dict[str, str]]:
    """What fields mean, by record (``Loops``, or ``ring.Pin`` where families have records of one name) and field."""
    read = tomllib.loads(FIELDS.read_text(encoding="utf-8"))
    nested = {f"{family}.{name}": fields for family in FAMILY_NAMES for name, fields in read.pop(family).items()}
    return read | nested


def meaning(family: str, record: str, field: str) -> str:
    """What a field means."""
    tables = (meanings().get(name, {}) for name in (f"{family}.{record}", record, "any"))
    return next(table[field] for table in tables if field in table)


def _code(text: str) -> str:
    """reStructuredText's code and references as Markdown's."""
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")


def records(record: type[msgspec.Struct]) -> dict[str, Schema]:
    """The JSON Schemas of a record and of those in it, by name, the record itself first."""
    schema = msgspec.json.schema(record)
    first: str = schema["$ref"].rsplit("/", 1)[1]
    return {first: schema["$defs"][first], **{k: v for k, v in schema["$defs"].items() if k != first}}


def _table(family: str, name: str, schema: Schema) -> str:
    said, required = schema.get("description", ""), schema.get("required", [])
    lines = ["| field | type | if it is left out | meaning |", "|---|---|---|---|"]
    for field, own in schema["properties"].items():
        default = "must be given" if field in required else f"`{_short(own.get('default'))}`"
        cells = [f"`{field}`", type_of(own), default, meaning(family, name, field)]
        lines.append("| " + " | ".join(map(escaped, cells)) + " |")
    first = _code(" ".join(inspect.cleandoc(said).partition("\n\n")[0].split()))
    return f"### {name}\n{first}\n\n" + "\n".join(lines)


def _short(default: Any) -> str:
    shown = json.dumps(default, ensure_ascii=False)
    return shown if len(shown) <= 40 else "{…}" if isinstance(default, dict) else "[…]"


_HEAD = """Instances and solutions are JSON, field by field below. [Family `{name}`](../families/{name}.md) states the
problem. `chipmap info --schema {name}` and `chipmap info --schema {name}-solution` print the JSON Schemas.
`python -m tests.docs.formats` makes this page of them. Amounts may have units (`"80GiB"`, `"2us"`). A field that isn't
listed is an error."""


def text(family: Family) -> str:
    """The page of a family."""
    instance, solution = records(resolve(family.instance)), records(resolve(family.solution))
    name = family.name
    parts = [
        f"# Files of family {name}",
        _HEAD.format(name=name),
        "## Instance",
        *(_table(name, record, schema) for record, schema in instance.items()),
        "## Solution",
        *(_table(name, record, schema) for record, schema in solution.items() if record not in instance),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for each in FAMILY_NAMES:
        page(each).write_text(text(get_family(each)), encoding="utf-8")
