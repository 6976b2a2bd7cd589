"""The bound on loads by what each device pays for cut nets, against brute force."""

from __future__ import annotations

from itertools import combinations

from chipmap import SolveOptions
from chipmap.formulations.placement.cpsat_boundary import build_device
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.load_dominance import joined_by_dominance
from chipmap.instances.placement.load_graph import load_graph
from chipmap.instances.placement.problem import placement_problem
from chipmap.methods.chain import Turn
from chipmap.methods.model_solve import Limits, solve_within
from chipmap.methods.placement.boundaries import Shares, bound_by_boundaries
from chipmap.run import Run
from chipmap.validation.placement.checker import check
from tests.placement.random_instances import CHAIN, made, throughput
from tests.placement.test_throughput import valid_instances


def bounded(instance: PlacementInstance, upper: int) -> int:
    """The bound from a known load ``upper``."""
    run = Run(instance, SolveOptions(threads=1), check)
    bound_by_boundaries(Turn(run, run.deadline), joined_by_dominance(placement_problem(instance), upper), upper)
    return run.lower.value if run.lower is not None else 0


def test_no_bound_is_above_the_optimum() -> None:
    """From the optimum itself and from loads above it; mostly it says more than work alone."""
    more = equal = tried = 0
    for instance, optimum in valid_instances(120, 21, overlap=False):
        if optimum is None or optimum == 0:
            continue
        graph = load_graph(placement_problem(instance))
        plain = Shares(graph).bound() if graph.placeable else 0
        for upper in (optimum, optimum + 1, optimum + 4):
            found = bounded(instance, upper)
            assert found <= optimum
            tried += 1
            more += found > plain
            equal += found == optimum
    assert tried > 200 and min(more, equal) > 40, (tried, more, equal)


def test_the_least_boundary_of_a_device_is_that_of_all_sets() -> None:
    """All subsets of units, on the device of each kind that pays."""
    compared = 0
    for instance, _ in valid_instances(40, 22, overlap=False):
        graph = load_graph(placement_problem(instance))
        work = graph.time.min(axis=1)
        for kind in range(len(graph.kinds)):
            for least, below in ((1, 30), (6, 30), (6, 16)):
                run = Run(instance, SolveOptions(threads=1), check)
                outcome = solve_within(run, build_device(graph, kind, below, work, least), limits=Limits(gap=0.0))
                values = []
                for size in range(graph.units + 1):
                    for inside in combinations(range(graph.units), size):
                        cut = sum(
                            c for units, c, _ in graph.nets if 0 < len(set(units) & set(inside)) < len(set(units))
                        )
                        fits = sum(int(graph.time[u, kind]) for u in inside) + cut < below
                        if fits and graph.allowed[list(inside), kind].all() and work[list(inside)].sum() >= least:
                            values.append(cut)
                if values:
                    assert outcome.objective == min(values)
                    compared += 1
                else:
                    assert outcome.termination.reason == "infeasible"
    assert compared > 50


def test_by_hand() -> None:
    """Six operations of 10 ns in a row on two devices: 30 ns each, and a tensor of 4 ns is paid by both."""
    rows = [(10, 0, 4)] * 6
    instance = made(rows, [(v, v + 1) for v in range(5)], task=throughput(memory="none"))
    assert bounded(instance, 60) == 34
    three = made(rows[:3], CHAIN, devices=3, task=throughput(memory="none"))
    # below 15 ns each device holds something, and each set of one operation pays 4 ns at least
    assert bounded(three, 15) == 14
