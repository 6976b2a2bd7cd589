"""C4 in grade ``full``: checker, costs, models and programs say the same; by hand, and against brute force."""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import chipmap
from chipmap.instances.ring import Package, RingInstance, RingSolution
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.loads import loads
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.checker import check
from chipmap.validation.ring.facts import facts
from tests.lanes import of_all
from tests.ring.random_instances import random_instance, random_solution, seeds

ALL = ("C1", "C2", "C3", "C4")


def skip_chain(**fields: Any) -> RingInstance:
    """a -> b -> c -> d, with a's tensor read by d as well."""
    graph = OperationGraph(
        name="skip",
        operations=tuple(Operation(name=name, kind="k", flop=10, weight_bytes=1) for name in "abcd"),
        tensors=(
            Tensor(producer=0, readers=(1, 3), bytes=100),
            Tensor(producer=1, readers=(2,), bytes=10),
            Tensor(producer=2, readers=(3,), bytes=1000),
        ),
    )
    package = Package(chips=3, sram_bytes=10**6, flop_per_ns=1.0)
    made: dict[str, Any] = {"name": "skip", "graph": graph, "package": package, "memory_grade": "full"}
    return RingInstance(**(made | {"constraints": ("C1", "C2")} | fields))


@pytest.mark.parametrize(
    ("chips", "expected"),
    [
        ((0, 0, 0, 0), (4 + 1110, 0, 0)),  # one chip: at d, a's and c's tensors live; at c, all three
        ((0, 1, 1, 2), (1 + 200, 2 + 200 + 2000 + 10, 1 + 2200)),  # chip 1 reads a's; b's tensor lives there
        ((0, 0, 1, 2), (2 + 200 + 20, 1 + 20 + 2000 + 200, 1 + 2200)),  # a's tensor passes through chip 1
    ],
)
def test_by_hand(chips: tuple[int, ...], expected: tuple[int, ...]) -> None:
    instance = skip_chain()
    assert tuple(loads(ring_problem(instance), chips).memory_bytes) == expected
    certificate = check(instance, RingSolution(chips=chips))
    assert certificate.grade == "full" and certificate.figures["max_memory_bytes"] == max(expected)
    tight = skip_chain(constraints=("C1", "C2", "C4"), package=Package(chips=3, sram_bytes=max(expected) - 1))
    (violation,) = check(tight, RingSolution(chips=chips)).violations
    assert (violation.label, violation.amount) == ("C4", 1.0)


@pytest.mark.parametrize(("model", "solver"), [("mip", "highs"), ("cpsat", "cpsat")])
@pytest.mark.parametrize(("sram", "reason"), [(4 + 1110, "optimal"), (4 + 1110 - 1, "infeasible")])
def test_models_by_hand(model: str, solver: str, sram: int, reason: str) -> None:
    """On one chip all tensors live there: those that are alive at once decide, to the byte."""
    instance = skip_chain(constraints=("C1", "C2", "C4"), package=Package(chips=1, sram_bytes=sram))
    built = import_module(f"chipmap.formulations.ring.{model}").build(instance)
    assert solve_model(built, SolveRequest(threads=1), solver).termination.reason == reason


def squeezed(random: Random, **fields: Any) -> RingInstance:
    """A random instance in grade ``full`` whose SRAM is about what its parts need."""
    instance = random_instance(random, operations=6, chips=3, memory_grade="full", **fields)
    known = facts(instance)
    total = sum(known.weights.values()) + 2 * sum(stored.bytes for stored in known.stored)
    return instance.replace(package=instance.package.replace(sram_bytes=total * random.choice((1, 2, 3, 4)) // 4))


@settings(max_examples=of_all(100, few=40), deadline=None)
@given(seed=seeds)
def test_checker_and_costs_agree(seed: int) -> None:
    random = Random(seed)
    instance = squeezed(random)
    solution = random_solution(random, instance)
    on = loads(ring_problem(instance), solution.chips).memory_bytes
    certificate = check(instance, solution)
    assert certificate.figures["max_memory_bytes"] == float(np.max(on, initial=0))
    fits = not any(violation.label == "C4" for violation in certificate.violations)
    assert fits == ("C4" not in instance.constraints or bool((on <= instance.package.sram_bytes).all()))


@settings(max_examples=of_all(60, few=24), deadline=None)
@given(seed=seeds)
def test_contraction_keeps_memory(seed: int) -> None:
    """The contracted mapping takes the same bytes on every chip."""
    random = Random(seed)
    instance = squeezed(random, constraints=ALL)
    contraction = contract(instance)
    solution = random_solution(random, instance)
    small = contraction.lower(solution)
    assert contraction.instance.memory_grade == "full"
    before = loads(ring_problem(instance), solution.chips).memory_bytes
    assert (loads(ring_problem(contraction.instance), small.chips).memory_bytes == before).all()


@pytest.mark.parametrize("method", ["ring/auto", "ring/exact", "ring/cpsat", "ring/mip"])
@settings(max_examples=15, deadline=None)
@given(seed=seeds)
def test_methods_equal_brute_force(method: str, seed: int) -> None:
    instance = squeezed(Random(seed))
    best = brute_force(instance, check)[0]
    try:
        result = chipmap.solve(instance, method, chipmap.SolveOptions(time_limit=60, threads=1))
    except InputError:
        assert method == "ring/exact"  # where C1 is off, or groups stay
        return
    expected = ("optimal", best) if best is not None else ("infeasible", None)
    if method == "ring/exact" and "C2" not in instance.constraints and (instance.pins or instance.forbidden):
        return
    assert (result.status, result.objective) == expected


@settings(max_examples=of_all(25, few=12), deadline=None)
@given(seed=seeds)
def test_programs_bound_and_restrict(seed: int) -> None:
    """free <= n1 <= optimum <= path, each within the memory of grade ``full``."""
    instance = squeezed(Random(seed), constraints=ALL, side=False)
    best = brute_force(instance, check)[0]
    for method in ("ring/free", "ring/n1"):
        result = chipmap.solve(instance, method, chipmap.SolveOptions(warm_start="none"))
        assert best is None or (result.bound is not None and result.bound <= best)
    result = chipmap.solve(instance, "ring/path", chipmap.SolveOptions(warm_start="none"))
    assert result.objective is None or (best is not None and result.objective >= best)
    assert not any("refused" in note.text for note in result.notes)


def test_old_files_keep_their_hash() -> None:
    """The grade enters the hash only where it isn't the default, and old files read as ``boundary``."""
    full, boundary = skip_chain(), skip_chain(memory_grade="boundary")
    assert full.content_hash != boundary.content_hash
    old = boundary.to_json().replace(b',"memory_grade":"boundary"', b"")
    assert b"memory_grade" not in old
    again = RingInstance.from_json(old)
    assert again == boundary and again.content_hash == boundary.content_hash
