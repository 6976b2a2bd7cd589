"""Format ``torchtitan``: the modules of each part of the network, as torchtitan's job configuration lists them.

``module_fqns_per_model_part`` of ``[parallelism]`` is a list of lists of module names, one per part in the network's
order; part i runs on rank i mod ``pipeline_parallel_degree`` (torchtitan 0.2: ``config/job_config.py``,
``distributed/pipeline_parallel.py``; in 0.3 these are fields of ``ParallelismConfig``). A name is that of a child of
the model, or of a part of a list that is one (``layers.3``). Names are written as the network has them: where its
layers lie deeper (``model.layers.3``), the file says that torchtitan's own splitter doesn't look there. Modules that
each stage makes again (rotary tables) stand in each list.
"""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

from chipmap.plans.layers import graphs
from chipmap.plans.layers.common import adopted, comments, names_said, reason
from chipmap.plans.layers.graphs import Layers, layers
from chipmap.plans.layers.plan import LayerPlan
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import InputError, Record, choices, nearest, shown

FILE = "torchtitan.toml"
FIELD, DEGREE = "module_fqns_per_model_part", "pipeline_parallel_degree"


def suits(instance: Any, solution: Any) -> str | None:
    """Why lists of modules can't say the mapping; None: they do."""
    return reason(instance, solution, _plan)


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """A part of a job's configuration."""
    plan = _plan(instance, solution)
    names = _listed(layers(instance).fine(), plan)
    lines = comments(instance, plan, options, "a part of torchtitan's job configuration")
    if max(name.count(".") for each in names for name in each) > 1:
        lines.append("# names lie deeper than torchtitan's own splitter looks: it takes children of the model alone")
    rows = [f"    {json.dumps(each)}," for each in names]
    lines += ["[parallelism]", f"{DEGREE} = {plan.stages}", f"{FIELD} = [", *rows, "]", ""]
    return {FILE: "\n".join(lines)}


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether it names torchtitan's field, or is a list of lists of names."""
    return FIELD.encode() in data or re.match(rb'\s*\[\s*\[\s*"', data) is not None


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The plan that lists of modules say, for ``instance``."""
    text = data.decode(errors="replace")
    listed, degree = _lists(text, where)
    stages = degree or len(listed)
    if len(listed) % stages:
        what = f"has {len(listed)} parts, which {stages} ranks ({DEGREE}) can't share out evenly"
        raise InputError(what, where, "Give a multiple of them.")
    parts = layers(instance).fine()
    chunks = _chunks(parts, listed, where)
    plan = LayerPlan(stages=stages, chunks=chunks, parts=len(chunks) // stages, names=names_said(text))
    return adopted(instance, plan, where, parts)


def _plan(instance: Any, solution: Any) -> LayerPlan:
    parts = layers(instance).fine()
    free = next((v for part in parts.parts if not part.module for v in part.operations), None)
    if free is not None:
        what = f"{instance.graph.operations[free].name!r} is part of no module that could be listed"
        raise InputError(what, instance.name, "Use a format of operations, such as csv.")
    return graphs.plan_of(instance, graphs.places_of(instance, solution), parts)


def _again(parts: Layers) -> dict[str, None]:
    """The names of the modules that each stage makes again."""
    units = (parts.found.unit(v, "blocks") for v in parts.again)
    return dict.fromkeys(".".join(unit) for unit in units if unit)


def _listed(parts: Layers, plan: LayerPlan) -> list[list[str]]:
    """The names of the modules of each chunk."""
    of, again = iter(parts.parts), _again(parts)
    return [
        list(again | dict.fromkeys(name for _ in chunk if (name := ".".join(next(of).module)))) for chunk in plan.chunks
    ]


def _lists(text: str, where: str) -> tuple[list[list[str]], int | None]:
    """The lists, and the number of ranks, if it is said."""
    plain = _decoded(text, where)
    degree = None
    if isinstance(plain, dict):
        table = plain.get("parallelism", plain)
        table = table if isinstance(table, dict) else {}
        degree, plain = table.get(DEGREE), table.get(FIELD)
    listed = plain if isinstance(plain, list) else []
    good = listed and all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in listed)
    if not good:
        raise InputError("has no list of lists of module names", f"{where}: {FIELD}", 'Give [["layers.0"], ...].')
    if degree is not None and (not isinstance(degree, int) or isinstance(degree, bool) or degree < 1):
        raise InputError(f"is {shown(degree)}", f"{where}: {DEGREE}", "Give a number from 1 on.")
    return listed, degree


def _decoded(text: str, where: str) -> Any:
    """What a file in JSON or TOML holds."""
    for read in (json.loads, tomllib.loads):
        try:
            return read(text)
        except (ValueError, RecursionError):
            continue
    raise InputError("is neither TOML nor JSON", where, f"Give {FIELD} = [[...], ...].")


def _chunks(parts: Layers, listed: list[list[str]], where: str) -> tuple[str, ...]:
    """The layout that lists of modules are: each module stands in one, and they follow in the network's order."""
    known, again = {".".join(part.module): i for i, part in enumerate(parts.parts) if part.module}, _again(parts)
    chunk: dict[int, int] = {}
    for c, names in enumerate(listed):
        for name in names:
            if name in again:
                continue
            if name not in known:
                near = nearest(name, [*known, *again])
                remedy = f"Did you mean {' or '.join(near)}?" if near else choices(name, list(known), "There are")
                raise InputError(f"no module is called {name!r}", f"{where}: part {c}", remedy)
            if chunk.setdefault(known[name], c) != c:
                what = f"{name!r} is in part {c}, but part {chunk[known[name]]} has it, or its layer, already"
                raise InputError(what, where, "Name each module in one part.")
    missing = [name for name, i in known.items() if i not in chunk]
    if missing:
        what = f"says nothing of {missing[0]!r}" + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
        raise InputError(what, where, "Name all modules that compute.")
    found = [""] * len(listed)
    last = 0
    for i, part in enumerate(parts.parts):
        here = chunk.get(i, last)
        if here < last:
            what = f"part {here} has what comes behind part {last}"
            raise InputError(what, where, "List parts in the order in which the network runs.")
        found[here] += part.symbol
        last = here
    return tuple(found)
