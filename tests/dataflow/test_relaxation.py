"""The convex programs: bounds below the exact optimum, balanced chips."""

from __future__ import annotations

from random import Random
from typing import cast

import pytest

from benchmarks.dataflow_design import spent
from chipmap.formulations.dataflow.relaxation import Rates, balanced, tensor_links
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.partition_loads import Load, layer_share, loads
from chipmap.methods.dataflow.bounds import relaxation
from chipmap.methods.dataflow.cases import cases
from chipmap.methods.dataflow.chain import auto
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.checker import breakdown, check
from tests.dataflow.random_instances import infeasible, on_tiles, tiny_instance, variants

DOLLARS = Rates(tile=16_522 / 1280, memory=1.0, link=2.0)
WATTS = Rates(tile=444.7 / 1280, memory=0.16248, link=0.052)


def solved(instance: DataflowInstance) -> Run:
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    auto(instance, run)
    return run


def bounded(instance: DataflowInstance) -> Run:
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    relaxation(instance, run)
    return run


def mapping(run: Run) -> DataflowSolution:
    assert run.best is not None
    return cast(DataflowSolution, run.best.solution)


def random_instances() -> list[DataflowInstance]:
    """Tiny ones with a utilisation and without."""
    found = []
    for seed in range(24):
        random = Random(seed)
        instance = tiny_instance(random)
        found.append(on_tiles(instance, random.choice((7, 100))) if seed % 2 else instance)
    return found


def layered() -> list[DataflowInstance]:
    """The variants whose stages are layers."""
    return [instance for instance in variants().values() if instance.task.stages == "layers"]


def test_no_bound_is_above_the_optimum() -> None:
    """And some are above that of compute, some equal the optimum. It knows stages of layers alone."""
    better = tight = 0
    for instance in [*layered(), *random_instances()]:
        exact, run = solved(instance), bounded(instance)
        if exact.upper is None:
            continue
        assert run.lower is not None and run.best is None
        assert run.lower.value <= exact.upper, instance
        better += run.lower.value > cases(instance)[0].bound
        tight += run.lower.value >= 0.999999 * exact.upper
    assert better >= 10 and tight >= 8


def test_published_cases_are_bounded() -> None:
    """Kernel by kernel every kernel is a group of its own: the bound is the optimum."""
    for name, least in (("table6-kbk-8x1", 0.99999), ("table6-free-8x1", 0.88), ("gpt3-1t-sn30-1024", 0.9)):
        instance = cast(DataflowInstance, read(f"dataflow/{name}"))
        upper, lower = solved(instance).upper, bounded(instance).lower
        assert upper is not None and lower is not None
        assert least * upper <= lower.value <= upper


def test_no_degrees_have_no_bound() -> None:
    run = bounded(infeasible()["neither layers nor batch divide"][1])
    assert run.lower is None and run.infeasibility[0].label == "C0"


def test_loads_are_the_checkers() -> None:
    for instance in [*layered(), *random_instances()]:
        run = solved(instance)
        if run.best is None:
            continue
        parts = breakdown(instance, mapping(run)).values()
        for one, (compute, memory, network) in zip(loads(instance, mapping(run)), parts, strict=True):
            assert (one.memory, one.network) == (memory, network) and 0 <= one.latency <= network + 1
            fixed = instance.task.utilisation is not None
            assert sum(one.compute) == compute if fixed else sum(one.compute) <= compute
        layer = check(instance, mapping(run)).terms["T4"]
        if fixed:
            join = max if instance.task.overlap else lambda *three: sum(three)
            each = [one.runs * join(sum(one.compute), one.memory, one.network) for one in loads(instance, mapping(run))]
            assert sum(each) == layer


def time_of(parts: tuple[Load, ...], tiles: float, memory: float, link: float) -> float:
    """Σ max of the three, for a chip with so many times the tiles and rates."""
    times = [
        (sum(one.compute) / tiles, one.memory / memory, (one.network - one.latency) / link + one.latency)
        for one in parts
    ]
    return sum(map(max, times))


def test_a_balanced_chip_is_the_best_of_its_price() -> None:
    """No shift of money between tiles, DRAM and links makes it faster, and it beats the real chip."""
    instance = cast(DataflowInstance, read("dataflow/gpt3-1t-sn30-1024"))
    solution = mapping(solved(instance))
    parts, links, share = loads(instance, solution), tensor_links(instance, solution), layer_share(instance, solution)
    price = DOLLARS.tile * 1280 + 300.0 + 2.0 * links * 50.0
    design = balanced(instance, solution, [(DOLLARS, price)])
    assert spent(DOLLARS, design, links) == pytest.approx(price, rel=1e-6)
    best = time_of(parts, design.tiles / 1280, design.memory_gbps / 300, design.link_gbps / 50) * share
    assert design.seconds == pytest.approx(best, rel=1e-5)
    assert design.seconds < 0.95 * time_of(parts, 1.0, 1.0, 1.0) * share
    random = Random(1)
    for _ in range(300):
        memory, link = design.memory_gbps * random.uniform(0.5, 2.0), design.link_gbps * random.uniform(0.5, 2.0)
        tiles = (price - memory - 2.0 * links * link) / DOLLARS.tile
        assert time_of(parts, tiles / 1280, memory / 300, link / 50) * share >= design.seconds * (1 - 1e-5)


def test_several_budgets_bind_together() -> None:
    instance = cast(DataflowInstance, read("dataflow/gpt3-1t-sn30-1024"))
    solution = mapping(solved(instance))
    links = tensor_links(instance, solution)
    both = balanced(instance, solution, [(DOLLARS, 17_000.0), (WATTS, 480.0)])
    assert spent(DOLLARS, both, links) <= 17_000.0 * 1.000001 and spent(WATTS, both, links) <= 480.0 * 1.000001
    assert both.seconds >= balanced(instance, solution, [(DOLLARS, 17_000.0)]).seconds * (1 - 1e-6)


def test_budgets_that_limit_nothing_are_refused() -> None:
    instance = variants()["tiles"]
    solution = mapping(solved(instance))
    with pytest.raises(InputError, match="no budget above 0"):
        balanced(instance, solution, [])
    with pytest.raises(InputError, match="a memory costs nothing"):
        balanced(instance, solution, [(Rates(tile=1.0, memory=0.0, link=1.0), 10.0)])
