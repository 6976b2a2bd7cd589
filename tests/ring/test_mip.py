"""The MIP of ring: brute force on every subset of constraints and every cost mode, cuts, restriction, windows."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from random import Random
from typing import Any

import pyomo.environ as pyo
import pytest
from hypothesis import given, settings

from chipmap.family import Scope, Standing
from chipmap.formulations.built import Built
from chipmap.formulations.ring.mip import RingMipChoices, build
from chipmap.instances.ring import Forbidden, Package, Pin, RingInstance, RingSolution
from chipmap.instances.ring.precedence import skips
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.ring.station_windows import station_windows
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import Outcome, SolveRequest
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.candidates import candidates
from chipmap.validation.ring.checker import check
from tests.lanes import of_all
from tests.ring.random_instances import LABELS, MODES, random_instance, seeds

SUBSETS = [labels for size in range(5) for labels in combinations(LABELS, size)]


def skip_network(chips: int = 3, **fields: Any) -> RingInstance:
    """Six operations: a chain with a skip over two of them, a side branch, and weights that press."""
    ends = [(0, (1, 3)), (1, (2,)), (2, (3, 5)), (3, (4,)), (4, ()), (5, ())]
    times, weights, sizes = (6, 10, 6, 11, 8, 4), (10, 10, 20, 40, 10, 20), (6, 2, 5, 3, 1, 1)
    graph = OperationGraph(
        name="skip",
        operations=tuple(Operation(name=f"op{v}", kind="k", weight_bytes=weight) for v, weight in enumerate(weights)),
        tensors=tuple(Tensor(producer=u, readers=to, bytes=sizes[u]) for u, to in ends),
    )
    package = Package(chips=chips, sram_bytes=80, link_bytes_per_ns=1.0)
    made: dict[str, Any] = {"name": "skip", "graph": graph, "package": package}
    return RingInstance(**(made | {"time_ns": tuple(map(float, times))} | fields))


@cache
def every_subset(labels: tuple[str, ...], mode: str) -> tuple[RingInstance, int | None]:
    """The network with these constraints, and its optimum by brute force, which several tests ask for."""
    instance = skip_network(constraints=labels, cost_mode=mode)
    return instance, brute_force(instance, check)[0]


def solved(model: Any, solver: str | None = None, **request: Any) -> Outcome:
    """The outcome on one thread within a minute."""
    return solve_model(model, SolveRequest(time_limit=60.0, threads=1, **request), solver)


def agrees(instance: RingInstance, model: Any, best: int | None, solver: str | None = None) -> None:
    """The solver finds and proves ``best`` (None: that there is nothing), and the checker says the same."""
    outcome = solved(model, solver)
    if best is None:
        assert outcome.termination.reason == "infeasible"
        return
    assert outcome.termination.reason == "optimal", outcome.termination
    assert outcome.value_of is not None
    certificate = check(instance, model.decode(outcome.value_of))
    assert certificate.feasible and certificate.objective == best
    assert outcome.objective == pytest.approx(best) and outcome.bound == pytest.approx(best)


@pytest.mark.parametrize("solver", ["highs", "gurobi"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("labels", SUBSETS, ids=lambda labels: "".join(labels) or "none")
def test_brute_force_on_every_subset(labels: tuple[str, ...], mode: str, solver: str) -> None:
    instance, best = every_subset(labels, mode)
    agrees(instance, build(instance), best, solver)


def test_every_constraint_matters_in_the_example() -> None:
    """Leaving any one label out lowers the optimum, or the test above would show little."""
    whole, _ = brute_force(skip_network(), check)
    assert whole is not None
    for label in ("C1", "C3", "C4"):  # without C2, chips could stay empty, which helps nobody here
        less = tuple(other for other in LABELS if other != label)
        best, _ = brute_force(skip_network(constraints=less), check)
        assert best is not None and best < whole, label


@settings(max_examples=of_all(40, few=16), deadline=None)
@given(seeds)
def test_highs_equals_brute_force(seed: int) -> None:
    instance = random_instance(Random(seed), operations=6)
    agrees(instance, build(instance), brute_force(instance, check)[0])


@pytest.mark.parametrize(
    "fields",
    [
        {"pins": (Pin(operation="op2", chip=1),)},
        {"pins": (Pin(operation="op4", chip=0),)},
        {"forbidden": (Forbidden(operation="op0", chips=(0,)),)},
        {"forbidden": (Forbidden(operation="op3", chips=(0, 1, 2)),)},
        {"together": (("op0", "op5"),)},
        {"together": (("op1", "op4"), ("op4", "op5")), "constraints": ("C2", "C3")},
        {"package": Package(chips=1)},
    ],
    ids=str,
)
def test_side_constraints(fields: dict[str, Any]) -> None:
    instance = skip_network(**fields)
    agrees(instance, build(instance), brute_force(instance, check)[0])


def on_values(model: Built, solution: RingSolution) -> None:
    """Give the step variables the values of ``solution``."""
    for variable, value in model.encode(solution) or ():
        variable.set_value(int(value))


@settings(max_examples=of_all(30, few=12), deadline=None)
@given(seeds)
def test_n1_rows_cut_off_no_solution(seed: int) -> None:
    instance = random_instance(Random(seed), operations=7, side=False, constraints=("C1", "C3"))
    model = build(instance)
    for solution in candidates(instance):
        if check(instance, solution).feasible:
            on_values(model, solution)
            assert all(row.slack() >= 0 for row in model.native.ring.cut_n1.values())


def test_n1_rows_cut_off_what_they_are_for() -> None:
    instance = skip_network(constraints=("C1",))
    assert {(u, w, v) for u, w, v in skips(ring_problem(instance)).tolist()} == {(0, 1, 3), (0, 2, 3)}
    model = build(skip_network(constraints=("C1", "C3")))
    rows = model.native.ring.cut_n1
    cut = 0
    for solution in candidates(instance):
        if check(instance, solution).feasible:
            on_values(model, solution)
            spread = any(solution.chips[w] not in (solution.chips[0], solution.chips[3]) for w in (1, 2))
            assert any(row.slack() < 0 for row in rows.values()) == spread
            cut += spread
    assert cut


@settings(max_examples=of_all(30, few=12), deadline=None)
@given(seeds)
def test_path_family_is_the_best_of_its_rule(seed: int) -> None:
    """Equal to brute force over the mappings with f(v) <= f(u) + 1 on every flow: solutions count, bounds don't."""
    instance = random_instance(Random(seed), operations=6)
    model = build(instance, {"family": "path"})
    assert model.standing is Standing.RESTRICTION and not model.standing.bounds
    flows = ring_problem(instance).flows.tolist()
    certificates = [
        check(instance, s) for s in candidates(instance) if all(s.chips[v] <= s.chips[u] + 1 for u, v in flows)
    ]
    agrees(instance, model, min((c.objective or 0 for c in certificates if c.feasible), default=None))


@settings(max_examples=of_all(30, few=12), deadline=None)
@given(seeds)
def test_windows_and_cutoff_keep_the_optimum(seed: int) -> None:
    instance = random_instance(Random(seed), operations=6)
    best, solution = brute_force(instance, check)
    if best is None or solution is None:
        return
    for upper, wanted in ((best + 3, best), (best, best), (best - 1, None)):
        within = station_windows(ring_problem(instance), upper)
        if within is None:
            assert wanted is None
            continue
        model = build(instance, RingMipChoices(windows=within.pairs(), upper=upper))
        assert model.standing is Standing.EXACT
        agrees(instance, model, wanted)
        if wanted is not None:
            start = model.encode(solution)
            assert start is None or solved(model, start=tuple(start)).start_accepted


def test_scope_of_choices() -> None:
    free = dict.fromkeys(range(6), (0, 2))
    assert RingMipChoices().scope is Scope.WHOLE
    assert RingMipChoices(upper=10).scope is Scope.WHOLE
    assert RingMipChoices(windows=free).scope is Scope.SUBSET
    assert RingMipChoices(windows=free, upper=10).scope is Scope.WHOLE
    assert RingMipChoices(family="path", upper=10).scope is Scope.SUBSET


def test_mappings_outside_the_fixings_are_not_encoded() -> None:
    instance = skip_network()
    model = build(instance, RingMipChoices(windows={0: (0, 0)}))
    outside = RingSolution(chips=(1, 1, 1, 1, 1, 1))
    assert model.encode(outside) is None
    assert model.encode(RingSolution(chips=(0, 1, 1))) is None
    assert model.encode(RingSolution(chips=(0, 1, 1, 1, 1, 3))) is None
    assert build(instance).encode(outside) is not None


@pytest.mark.parametrize("mode", MODES)
def test_expressions_are_the_checkers_figures(mode: str) -> None:
    """``chip_work``, ``link_load``, ``chip_memory`` and ``terms`` of the optimum are at least the checker's."""
    instance = skip_network(cost_mode=mode)
    model = build(instance)
    outcome = solved(model)
    assert outcome.value_of is not None
    solution = model.decode(outcome.value_of)
    for variable in model.native.component_data_objects(pyo.Var):
        if not variable.fixed:
            variable.set_value(outcome.value_of(variable), skip_validation=True)
    ring = model.native.ring
    times = [round(100 * time) for time in instance.time_ns or () if time is not None]
    for c in range(3):
        work = sum(time for time, chip in zip(times, solution.chips, strict=True) if chip == c)
        assert pyo.value(ring.chip_work[c]) == pytest.approx(work)
        weights = sum(
            op.weight_bytes for op, f in zip(instance.graph.operations, solution.chips, strict=True) if f == c
        )
        assert weights <= pyo.value(ring.chip_memory[c]) <= instance.package.sram_bytes + 1e-6
    certificate = check(instance, solution)
    assert pyo.value(ring.cost) == pytest.approx(certificate.objective)
    for name, ticks in certificate.terms.items():
        assert ticks - 1e-6 <= pyo.value(ring.terms[name]) <= (certificate.objective or 0) + 1e-6
    if mode == "period":
        assert max(pyo.value(ring.link_load[c]) for c in range(2)) <= (certificate.objective or 0) + 1e-6
