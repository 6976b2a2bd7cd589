"""The tick of EDP follows the instance's scale, and nothing overflows: by brute force written from the page alone."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import chipmap
from benchmarks import edp_scale
from chipmap.inputs.reading import read
from chipmap.instances.multimodel import MultiInstance, MultiSolution
from chipmap.instances.multimodel.instance import Chiplet, Layer, Model, Module, Task
from chipmap.instances.multimodel.problem import multi_problem
from chipmap.instances.multimodel.shipped import SHIPPED
from chipmap.instances.multimodel.units import units
from chipmap.records import Unit, Units
from chipmap.result import Result
from chipmap.solve import check, disagreements
from chipmap.validation.multimodel.checker import edp_tick


def tick(given: dict[str, Any]) -> int:
    """τ of the page ("Objective"), in ns · pJ."""
    least: list[tuple[int, int]] = []
    most: list[tuple[int, int]] = []
    for model in given["models"]:
        last = len(model["layers"]) - 1
        whole = [edp_scale.cost(given, model, ((0, last, c),)) for c in range(len(given["module"]["chiplets"]))]
        least.append((min(ns for ns, _ in whole), min(pj for _, pj in whole)))
        most.append((max(ns for ns, _ in whole), max(pj for _, pj in whole)))
    scale = max(ns for ns, _ in least) * sum(pj for _, pj in least)
    greatest = sum(ns for ns, _ in most) * sum(pj for _, pj in most)
    found, ticks = (10**9, 10**18) if scale >= 10**13 else (1, 10**15)
    while greatest >= ticks * found:
        found *= 10
    return found


def test_the_tick_is_the_pages() -> None:
    seen = set()
    for seed in range(120):
        given = edp_scale.instance(seed)
        instance = MultiInstance.make(**given)
        wanted = tick(given)
        assert multi_problem(instance).edp_tick == edp_tick(instance) == wanted
        assert units(instance).objective == Unit(name="J·s", per_tick=float(f"1e{len(str(wanted)) - 22}"))
        seen.add(wanted)
    assert seen == {1, 10**9}


def one_layer(*costs: tuple[int, int]) -> MultiInstance:
    """A layer on one chiplet of each class, with these costs; nothing is moved."""
    kinds = [f"k{i}" for i in range(len(costs))]
    layer = Layer(name="l", costs=dict(zip(kinds, costs, strict=True)))
    chiplets = tuple(Chiplet(name=kind, kind=kind, hops=0) for kind in kinds)
    module = Module(chiplets=chiplets, dram_ns=0, hop_ns=0)
    return MultiInstance(name="one", task=Task(), models=(Model(name="m", layers=(layer,)),), module=module)


@pytest.mark.parametrize(
    ("costs", "wanted"),
    [
        (((10**6, 10**7),), 10**9),
        (((10**6, 10**7 - 1),), 1),
        (((1, 1), (10**7, 10**8 - 1)), 1),
        (((1, 1), (10**7, 10**8)), 10),
        (((1, 1), (10**10, 10**9)), 10**5),
        (((10**13, 10**14 - 1),), 10**9),
        (((10**13, 10**14),), 10**10),
    ],
)
def test_where_the_tick_changes(costs: tuple[tuple[int, int], ...], wanted: int) -> None:
    instance = one_layer(*costs)
    assert multi_problem(instance).edp_tick == edp_tick(instance) == wanted
    result = chipmap.solve(instance, "multimodel/cpsat", isolate=False, threads=1)
    t, e = min(costs, key=lambda cost: cost[0] * cost[1])
    assert result.status == "optimal" and result.objective == -(-t * e // wanted)


def test_shipped_instances_keep_their_tick() -> None:
    instances = [read(name) for name in SHIPPED]
    ticks = [units(one) for one in instances if isinstance(one, MultiInstance) and one.task.objective == "edp"]
    assert len(ticks) > 30 and all(one.objective.per_tick == 1e-12 for one in ticks)


def test_edp_of_any_scale_is_the_least_product() -> None:
    """A sample of ``python -m benchmarks.edp_scale``: optimal, and the product exactly the least."""
    for seed in Random(7).sample(range(1000, 2000), 20):
        found = edp_scale.outcome(seed, 60.0)
        assert found.status == "optimal" and found.found == found.least and not edp_scale.wrong(found), seed


def test_methods_agree_beyond_64_bits() -> None:
    """Products beyond 2^62: CP-SAT divides both sides; far beyond, it solves for energies within latencies."""
    taken = set()
    for seed in (2, 3, 6, 7, 10, 11):
        given = edp_scale.instance(seed)
        result = chipmap.solve(given, "multimodel/cpsat", isolate=False, threads=1)
        assert result.certificate is not None and result.status == "optimal"
        terms = result.certificate.terms
        assert terms["T1"] * terms["T2"] == min(edp_scale.products(given))
        taken.add("within latencies" in result.bounds[-1].source)
    assert taken == {True, False}


def test_archives_of_the_older_tick_are_valid() -> None:
    """A result that counts a small instance in 10^-12 J·s, as all did, isn't contradicted; another objective is."""
    instance = MultiInstance.make(**edp_scale.instance(0))
    result = chipmap.solve(instance, "multimodel/auto", isolate=False, threads=1)
    assert result.units is not None and result.objective is not None and result.certificate is not None
    ticks = -(-result.objective * multi_problem(instance).edp_tick // 10**9)
    old = Units(objective=Unit(name="J·s", per_tick=1e-12), terms=result.units.terms)
    bounds = tuple(bound.replace(value=0) for bound in result.bounds)
    older = result.replace(units=old, objective=ticks, bound=0, gap=1.0, status="feasible", bounds=bounds)
    older = Result.from_json(older.to_json())
    certificate = check(instance, MultiSolution.make(**(result.solution or {})))
    assert disagreements(older, instance, certificate) == []
    assert disagreements(older.replace(objective=ticks + 1), instance, certificate)
    assert disagreements(result, instance, certificate) == []
