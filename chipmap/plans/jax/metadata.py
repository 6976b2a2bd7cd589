"""The mapping inside a program's text: a table that a person reads, and `adopt` reads back."""

from __future__ import annotations

import ast
import json
from collections import Counter
from typing import Any

import msgspec

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.records import InputError, choices

SCHEMA = "jax/1"
#: What a mapping says beside schemes and partitions.
_FIELDS = ("keep", "micro_batch", "chunks", "recompute", "shard")


class _Mapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: str
    degrees: dict[str, Any]
    kernels: dict[str, tuple[str, int]]
    keep: str | None = None
    micro_batch: int | None = None
    chunks: int | None = None
    recompute: str | None = None
    shard: str | None = None


def table(instance: DataflowInstance, solution: DataflowSolution) -> str:
    """The mapping as an assignment."""
    degrees = json.dumps(msgspec.to_builtins(solution.degrees))
    lines = [
        "#: The mapping: scheme and partition of each kernel, degrees, how a batch is run. `chipmap adopt` reads it.",
        "MAPPING = {",
        f'    "schema": "{SCHEMA}",',
        f'    "degrees": {degrees},',
        *(f'    "{name}": {_plain(getattr(solution, name))},' for name in _FIELDS),
        '    "kernels": {',
    ]
    kernels = instance.workload.kernels
    for kernel, scheme, partition in zip(kernels, solution.schemes, solution.partitions, strict=True):
        lines.append(f'        {json.dumps(kernel.name)}: ("{scheme}", {partition}),')
    return "\n".join([*lines, "    },", "}"])


def _plain(value: str | int | None) -> str:
    return json.dumps(value) if isinstance(value, str) else repr(value)


def assigned(text: str, where: str) -> dict[str, ast.expr]:
    """What a file of Python assigns to names, at its top level."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"is no Python: {error}", where, "Give a file as `chipmap emit --as jax` writes it.") from None
    found: dict[str, ast.expr] = {}
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found[node.target.id] = node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
    return found


def once(name: str, value: ast.expr, where: str) -> None:
    """Refuse a table in which a name stands twice: Python takes the last one without a word."""
    for node in ast.walk(value):
        if isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            for key, count in Counter(keys).items():
                if count > 1:
                    raise InputError(f"has the key {key!r} twice", f"{where}: {name}", "Keep the one that you mean.")


def mapping_in(value: ast.expr, instance: DataflowInstance, where: str) -> DataflowSolution:
    """The mapping of the table ``value``, for ``instance``."""
    once("MAPPING", value, where)
    try:
        read = msgspec.convert(ast.literal_eval(value), _Mapping)
    except (ValueError, TypeError, RecursionError, MemoryError, msgspec.ValidationError) as error:
        what = f"its MAPPING isn't one: {error}"
        raise InputError(what, where, "Give a file as `chipmap emit --as jax` writes it.") from None
    if read.schema != SCHEMA:
        raise InputError(f"its MAPPING is of schema {read.schema!r}", where, f"Give one of {SCHEMA}.")
    known = [kernel.name for kernel in instance.workload.kernels]
    for name in read.kernels:
        if name not in known:
            raise InputError(f"no kernel is called {name!r}", f"{where}: MAPPING", choices(name, known, "There are"))
    missing = [name for name in known if name not in read.kernels]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        remedy = "Say scheme and partition of each, or give its SPECS alone: the rest is solved then."
        raise InputError(f"says nothing of kernel {missing[0]!r}{more}", f"{where}: MAPPING", remedy)
    each = [read.kernels[name] for name in known]
    said = {name: value for name in _FIELDS if (value := getattr(read, name)) is not None}
    return DataflowSolution.make(
        instance=instance.name,
        degrees=read.degrees,
        schemes=[scheme for scheme, _ in each],
        partitions=[partition for _, partition in each],
        **said,
    )
