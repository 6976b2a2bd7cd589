"""Tiny instances of every family that have no solution: what a solve says, what `explain` says, and what helps.

They are those of the generators' ``infeasible()`` and random ones whose memory, limits or room are cut down
(:data:`CUTS`) until nothing is left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import pytest

from chipmap.explain import explain
from chipmap.explanation import EXPLAIN
from chipmap.family import Family
from chipmap.inputs.reading import changed
from chipmap.records import InputError
from chipmap.result import Infeasibility, Result
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.brute_force import count
from tests.conformance.cases import FAMILIES, LIMIT_S, TinyCase, hooks, identify

#: Random instances that are looked at per family, and those of them that are kept.
TRIED, KEPT = 60, 3
#: The limit of a solve: many times what one takes, so that a proof isn't cut short on a busy machine.
PATIENCE = SolveOptions(time_limit=4 * LIMIT_S, threads=1)
#: Candidates that brute force may look at.
MOST = 3**6
#: By family what is cut down: the path of a number, and shares of it.
CUTS: dict[str, tuple[str, ...]] = {
    "ring": ("package.sram_bytes",),
    "dataflow": ("system.chip.sram_bytes", "system.memory.capacity_bytes"),
    "wafer": ("fabric.memory_words", "fabric.width", "fabric.height"),
    "multimodel": ("module.chiplets.*.sram_bytes", "task.latency_limit_ns", "task.energy_limit_pj"),
    "placement": ("system.devices.*.memory_bytes", "task.limit_ns"),
}
SHARES = (0.5, 0.2, 0.05)


def at(instance: Any, path: str) -> Any:
    """The value at a path (``*``: the first item)."""
    value = instance
    for name in path.split("."):
        value = value[0] if name == "*" else getattr(value, name)
    return value


def put(instance: Any, path: str, value: int) -> Any:
    """The instance with ``value`` at a path, ``*`` for all items."""
    head, star, tail = path.partition(".*")
    paths = [f"{head}.{i}{tail}" for i in range(len(at(instance, head)))] if star else [path]
    return changed(instance, "cut", [f"{one}={value}" for one in paths])


def cut_down(family: Family) -> Iterator[tuple[str, Any]]:
    """Random instances without a solution, which have one where nothing is cut down; none of a family not in CUTS."""
    kept = 0
    if family.name not in CUTS:
        return
    for seed in range(TRIED):
        random = Random(seed)
        instance = hooks(family).tiny_instance(random)
        if count(instance) > MOST or TinyCase(family, "", instance).best[0] is None:
            continue
        path, share = random.choice(CUTS[family.name]), random.choice(SHARES)
        value = at(instance, path)
        if value is None:  # what nothing limits yet
            value = 2_000
        try:
            less = put(instance, path, max(1, int(value * share)))
        except InputError:
            continue
        if count(less) <= MOST and TinyCase(family, "", less).best[0] is None:
            yield f"random {seed}, {path} cut down", less
            kept += 1
        if kept == KEPT:
            return


@cache
def found(name: str) -> dict[str, tuple[Any, Result]]:
    """The instances of that family with what a solve says of them."""
    (family,) = (one for one in FAMILIES if one.name == name)
    made = {case: instance for case, (_, instance) in hooks(family).infeasible().items()} | dict(cut_down(family))
    return {case: (instance, solved(instance)) for case, instance in made.items()}


def solved(instance: Any) -> Result:
    """The result of the best chain."""
    return solve(instance, None, PATIENCE, isolate=False)


families = pytest.mark.parametrize("family", FAMILIES, ids=identify)


@families
def test_there_is_a_reason_and_no_bound(family: Family) -> None:
    """The demand exceeds the limit, and is a figure of the message where it is one that may be given."""
    assert len(found(family.name)) >= (6 if family.name in CUTS else 1)
    for case, (_, result) in found(family.name).items():
        assert (result.status, result.objective, result.bound, result.gap) == ("infeasible", None, None, None), case
        assert result.infeasibility, case
        for reason in result.infeasibility:
            assert reason.demand > reason.limit and reason.remedies, (case, reason)
            assert reason.label in family.constraints, (case, reason)


@families
def test_a_solve_and_explain_have_one_source(family: Family) -> None:
    """The same reasons in the same words; no change that is proved to be useless is a hint."""
    for case, (instance, result) in found(family.name).items():
        hints = [hint for reason in result.infeasibility for hint in reason.remedies]
        if not family.explain:
            assert not any("explain" in hint for hint in hints), (case, hints)
            continue
        told = explain(instance, options=PATIENCE)
        assert (told.status, told.objective, told.bound) == ("infeasible", None, None), case
        assert told.infeasibility == result.infeasibility, case
        for change in told.changes:
            if change.standing == "infeasible":
                assert not any(change.what in hint and EXPLAIN not in hint for hint in hints), (case, change, hints)


def raised(family: Family, instance: Any, reason: Infeasibility) -> Any | None:
    """The instance with what the reason names raised to the figure that it names; None where it names none."""
    demand, paths = math.ceil(reason.demand), dict[str, int]()
    if family.name == "ring" and reason.unit == "bytes":
        paths["package.sram_bytes"] = demand
    elif family.name == "dataflow" and reason.resource in ("SRAM", "DRAM"):
        paths[{"SRAM": "system.chip.sram_bytes", "DRAM": "system.memory.capacity_bytes"}[reason.resource]] = demand
    elif family.name == "wafer" and reason.unit == "words":
        paths["fabric.memory_words"] = demand
    elif family.name == "wafer" and reason.unit == "tiles":
        width, height = instance.fabric.width, instance.fabric.height
        if reason.label == "C2":
            paths["fabric.width"] = -(-demand // height)
        else:
            paths["fabric.height" if (reason.limit == height) else "fabric.width"] = demand
        assert paths != {"fabric.width": width}
    elif family.name == "multimodel" and reason.unit in ("bytes", "ns", "pJ"):
        models = {f"latency of {model.name!r}": f"models.{m}.deadline_ns" for m, model in enumerate(instance.models)}
        known = {"SRAM": CUTS["multimodel"][0], "latency": CUTS["multimodel"][1], "energy": CUTS["multimodel"][2]}
        paths[(known | models)[reason.resource]] = demand
    elif family.name == "placement" and reason.unit == "bytes":
        paths[CUTS["placement"][0]] = demand
    for path, value in paths.items():
        instance = put(instance, path, value)
    return instance if paths else None


@families
def test_what_is_raised_to_the_figure_named_is_no_reason_any_more(family: Family) -> None:
    followed = 0
    for case, (instance, result) in found(family.name).items():
        for reason in result.infeasibility:
            more = raised(family, instance, reason)
            if more is None:
                continue
            followed += 1
            for other in solved(more).infeasibility:
                same = (other.label, other.resource, other.unit) == (reason.label, reason.resource, reason.unit)
                assert not (same and other.demand <= reason.demand), (case, reason, other)
    assert followed or family.name not in CUTS


@families
def test_promises_and_least_figures_hold(family: Family) -> None:
    """What ``--set`` promises has a solution; one less than what is needed at least has none (by brute force)."""
    for case, (instance, result) in found(family.name).items():
        for hint in (hint for reason in result.infeasibility for hint in reason.remedies):
            for path, value in re.findall(r"--set ([\w.]+)=(\S+)", hint):
                assert not re.search("maybe|at least", hint), hint
                more = changed(instance, "raised", [f"{path}={value}"])
                assert TinyCase(family, "", more).best[0] is not None, (case, hint)
            for amount, path in re.findall(r"^at least ([\d,]+) \w+ \(([\w.]+)\)", hint):
                less = changed(instance, "less", [f"{path}={int(amount.replace(',', '')) - 1}"])
                assert TinyCase(family, "", less).best[0] is None, (case, hint)
