"""The methods that solve models: what they report to a run, on random instances and on published networks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings

from benchmarks.ring_refute import refute
from chipmap.instances.ring import Forbidden, Package, Pin, RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import ring_problem
from chipmap.methods.ring import models as ring_models
from chipmap.methods.ring import programs as ring
from chipmap.methods.ring.infeasibility import reasons
from chipmap.networks.importers import traced
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check
from tests.instances.published import published
from tests.ring.random_instances import random_instance, seeds
from tests.ring.test_mip import skip_network

METHODS = [ring_models.mip, ring_models.mip_path, ring_models.cpsat, ring_models.cpsat_cold]


def fresh(instance: RingInstance, **options: Any) -> Run:
    """A run of ``instance`` with a minute on one thread."""
    return Run(instance, SolveOptions(**({"time_limit": 60.0, "threads": 1} | options)), check)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
@settings(max_examples=20, deadline=None)
@given(seeds)
@example(1492761)  # HiGHS reports a bound almost a tick above the optimum
def test_methods_prove_what_brute_force_finds(method: Callable[[RingInstance, Run], Any], seed: int) -> None:
    instance = random_instance(Random(seed), operations=6)
    best, _ = brute_force(instance, check)
    for started in (False, True):
        run = fresh(instance)
        if started and method is not ring_models.cpsat_cold:
            ring.greedy(instance, run)
        termination = method(instance, run)
        assert not run.rejected
        if method is ring_models.mip_path:
            assert not run.bounds and not run.proved_infeasible
            assert run.upper is None or (best is not None and run.upper >= best)
            continue
        assert termination.reason == ("optimal" if best is not None else "infeasible")
        assert run.upper == best
        if best is not None:
            assert run.lower is not None and run.lower.value == best


def test_the_incumbent_is_the_start() -> None:
    """From the optimum, with a cutoff at its value: the MIP accepts it and proves it."""
    instance = skip_network()
    best, solution = brute_force(instance, check)
    assert solution is not None
    run = fresh(instance)
    run.solution(solution, "given")
    assert ring_models.mip(instance, run).reason == "optimal"
    assert run.upper == best and run.best is not None and run.best.source == "given"
    assert [note.text for note in run.notes] == ["mip: warm start accepted"]


@pytest.mark.parametrize("method", [ring_models.mip, ring_models.cpsat, ring_models.cpsat_cold])
def test_no_time_is_no_word(method: Callable[[RingInstance, Run], Any]) -> None:
    run = fresh(skip_network(), time_limit=1e-9)
    termination = method(skip_network(), run)
    assert termination.reason == "no_solution_found" and termination.limit == "time"
    assert not run.proved_infeasible


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_deterministic_runs_are_equal(method: Callable[[RingInstance, Run], Any]) -> None:
    instance = random_instance(Random(5), operations=9, chips=3, side=False)
    seen = []
    for _ in range(2):
        run = fresh(instance, deterministic=True, seed=3)
        termination = method(instance, run)
        seen.append((termination, run.best and run.best.solution, [(b.value, b.source) for b in run.bounds]))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    ("fields", "label", "demand", "limit"),
    [
        # the heaviest operation has 40 bytes
        ({"package": Package(chips=3, sram_bytes=39)}, "C4", 40, 39),
        # 110 bytes of weights on two chips: 55 each
        ({"package": Package(chips=2, sram_bytes=54)}, "C4", 55, 54),
        ({"forbidden": (Forbidden(operation="op3", chips=(0, 1, 2)),)}, "C0", 1, 0),
        ({"pins": (Pin(operation="op4", chip=0), Pin(operation="op0", chip=1))}, "C0", 1, 0),
    ],
    ids=str,
)
def test_infeasible_in_chips_and_bytes(fields: dict[str, Any], label: str, demand: int, limit: int) -> None:
    instance = skip_network(**fields)
    assert brute_force(instance, check) == (None, None)
    for method in (ring_models.mip, ring_models.cpsat, ring_models.cpsat_cold):
        run = fresh(instance)
        assert method(instance, run).reason == "infeasible"
        (reason,) = run.infeasibility
        assert (reason.label, reason.demand, reason.limit) == (label, demand, limit)
        assert reason.remedies and reason.message


def test_the_sram_that_a_report_names_does() -> None:
    """Weights fit, buffers don't: the report's demand is exactly the least SRAM, found among all mappings."""
    tight = skip_network(package=Package(chips=3, sram_bytes=60, link_bytes_per_ns=1.0))
    (reason,) = reasons(tight, fresh(tight))
    assert reason.label == "C4" and reason.limit == 60
    for sram, fits in ((int(reason.demand) - 1, False), (int(reason.demand), True)):
        instance = tight.replace(package=tight.package.replace(sram_bytes=sram))
        assert (brute_force(instance, check)[0] is not None) is fits


def network(name: str, chips: int, **fields: Any) -> RingInstance:
    """A published graph as the reference values count it: C1 to C3, free links, twice the output's bytes."""
    path = published(f"{name}.json")
    graph = traced.read(path.read_bytes(), str(path))
    package = Package(chips=chips, link_bytes_per_ns=None)
    made: dict[str, Any] = {"name": path.stem, "graph": graph, "package": package, "traffic": "twice_out"}
    return RingInstance(**(made | {"constraints": ("C1", "C2", "C3")} | fields))


@pytest.mark.parametrize(("chips", "over_average"), [(12, None), (36, 1.4862)])
def test_resnet50_is_proved(chips: int, over_average: float | None) -> None:
    """ResNet-50 on 36 chips: the published reference value; a tick less is refuted."""
    instance = network("torchvision-like/resnet50", chips)
    run = fresh(instance, threads=2)
    ring.slicing(instance, run)  # finds the optimum: CP-SAT only has to prove it
    assert ring_models.cpsat(instance, run).reason == "optimal"
    assert run.upper is not None
    small = ring_problem(contract(instance).instance)
    assert refute(small, run.upper - 1, time_limit=60.0) == "infeasible"
    if over_average is not None:
        assert run.upper / (small.total_ticks / chips) == pytest.approx(over_average, abs=1e-4)


def test_bert_large_is_refuted_below_its_optimum() -> None:
    """BERT-large's encoder on 36 chips: a mapping at 1.1224 of the average, and none a tick better than it can be."""
    instance = network("transformers-like/bert_large_encoder_s512_eager_coreaten", 36)
    small = ring_problem(contract(instance).instance)
    target = int(1.12245 * small.total_ticks / 36)
    found = refute(small, target, time_limit=60.0, threads=2)
    assert not isinstance(found, str)
    value = check(small.instance, found).objective
    assert value is not None and value <= target
    assert refute(small, int(1.1223 * small.total_ticks / 36), time_limit=60.0, threads=2) == "infeasible"
