"""The CP-SAT model of ring: brute force on every subset of constraints and every cost mode, decisions, labels."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

from chipmap.family import Scope
from chipmap.formulations.ring import cpsat_sram
from chipmap.formulations.ring.cpsat import RingCpChoices, build
from chipmap.instances.ring import Forbidden, Package, Pin, RingInstance, RingSolution
from chipmap.instances.ring.loads import loads
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.ring.station_windows import station_windows
from chipmap.solvers import infeasible_labels
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import brute_force
from chipmap.validation.ring.candidates import candidates
from chipmap.validation.ring.checker import check
from tests.lanes import of_all
from tests.ring.random_instances import MODES, random_instance, seeds
from tests.ring.test_mip import SUBSETS, agrees, every_subset, skip_network, solved


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("labels", SUBSETS, ids=lambda labels: "".join(labels) or "none")
def test_brute_force_on_every_subset(labels: tuple[str, ...], mode: str) -> None:
    instance, best = every_subset(labels, mode)
    agrees(instance, build(instance), best)


@settings(max_examples=of_all(40, few=16), deadline=None)
@given(seeds)
def test_cpsat_equals_brute_force(seed: int) -> None:
    instance = random_instance(Random(seed), operations=6)
    best, _ = brute_force(instance, check)
    agrees(instance, build(instance), best)
    agrees(instance, build(instance, {"cuts": ()}), best)


@settings(max_examples=of_all(40, few=16), deadline=None)
@given(seeds)
def test_decision_at_the_optimum_and_below(seed: int) -> None:
    """With windows or without: a solution of the optimum's value exists, none of a tick less."""
    instance = random_instance(Random(seed), operations=6)
    best, solution = brute_force(instance, check)
    if best is None or solution is None:
        return
    for target, exists in ((best, True), (best - 1, False)):
        within = station_windows(ring_problem(instance), target)
        for pairs in (None, within.pairs() if within is not None else None):
            model = build(instance, RingCpChoices(objective="feasible", upper=target, windows=pairs))
            outcome = solved(model)
            assert (outcome.termination.reason == "infeasible") is not exists
            if exists:
                assert outcome.value_of is not None
                certificate = check(instance, model.decode(outcome.value_of))
                assert certificate.feasible and certificate.objective == best
        assert within is not None or not exists


def test_the_first_link_decides() -> None:
    """Ten times slower links, an operation pinned before the first: the tensor over it takes longer than any chip."""
    pins = (Pin(operation="op0", chip=0), Pin(operation="op1", chip=1))
    instance = skip_network(chips=2, pins=pins, constraints=("C1", "C2"))
    instance = instance.replace(package=instance.package.replace(link_bytes_per_ns=0.1))
    best, mapping = brute_force(instance, check)
    assert best is not None and mapping is not None and check(instance, mapping).terms["T2"] == best
    agrees(instance, build(instance), best)


def test_ticks_beyond_32_bits() -> None:
    """Long operations: integers stay exact far above what floating point tells apart at 1e-6."""
    instance = skip_network(
        time_ns=tuple(float(time) for time in (10**12 + 7, 10**12 + 4, 10**12 + 9, 3, 10**12 + 8, 5))
    )
    best, _ = brute_force(instance, check)
    outcome = solved(build(instance))
    assert best is not None and best > 10**14
    assert outcome.objective == best and outcome.bound == best


def test_scope_of_choices() -> None:
    free = dict.fromkeys(range(6), (0, 2))
    assert RingCpChoices().scope is Scope.WHOLE
    assert RingCpChoices(windows=free).scope is Scope.SUBSET
    assert RingCpChoices(windows=free, upper=10).scope is Scope.WHOLE


def test_mappings_outside_the_domains_are_not_encoded() -> None:
    instance = skip_network()
    model = build(instance, RingCpChoices(windows={0: (0, 0)}))
    assert model.encode(RingSolution(chips=(1, 1, 1, 1, 1, 1))) is None
    assert model.encode(RingSolution(chips=(0, 1, 1))) is None
    assert model.encode(RingSolution(chips=(0, 1, 1, 1, 1, 1))) is not None


@settings(max_examples=of_all(25, few=12), deadline=None)
@given(seeds)
def test_labels_that_clash_do_clash(seed: int) -> None:
    """Under assumptions the model has the same solutions, and the labels named are infeasible by themselves."""
    instance = random_instance(Random(seed), operations=6)
    model = build(instance, RingCpChoices(objective="feasible", labels="assume"))
    best, _ = brute_force(instance, check)
    assert (solved(model).termination.reason == "infeasible") is (best is None)
    if best is not None:
        return
    named = {label[:2].upper() for label in infeasible_labels(model, SolveRequest(time_limit=60.0))}
    assert named <= {"C0", *instance.constraints}
    kept = instance.replace(constraints=[label for label in instance.constraints if label in named])
    certificates = [check(kept, solution) for solution in candidates(kept)]
    for certificate in certificates:
        assert any(violation.label in named for violation in certificate.violations)


@pytest.mark.parametrize(
    ("fields", "labels"),
    [
        ({"package": Package(chips=2, sram_bytes=45)}, {"c4_memory"}),
        ({"forbidden": (Forbidden(operation="op3", chips=(0, 1, 2)),)}, {"c0_domain"}),
        ({"pins": (Pin(operation="op4", chip=0), Pin(operation="op0", chip=1))}, {"c0_domain", "c1_flow"}),
        (
            {"pins": tuple(Pin(operation=f"op{v}", chip=1) for v in range(6)), "constraints": ("C1", "C2", "C3")},
            {"c0_domain", "c2_no_skipping"},
        ),
    ],
    ids=["memory", "forbidden", "pins against the flow", "pins that skip"],
)
def test_labels_of_known_clashes(fields: dict[str, Any], labels: set[str]) -> None:
    model = build(skip_network(**fields), RingCpChoices(objective="feasible", labels="assume"))
    assert set(infeasible_labels(model, SolveRequest(time_limit=60.0))) == labels


@pytest.mark.parametrize("labels", [("C1", "C2", "C3", "C4"), ("C2",), ("C1",)])
def test_least_sram(labels: tuple[str, ...]) -> None:
    instance = skip_network(constraints=labels)
    roomy: RingInstance = instance.replace(constraints=[label for label in labels if label != "C4"])
    wanted = min(
        int(loads(ring_problem(roomy), s.chips).memory_bytes.max())
        for s in candidates(roomy)
        if check(roomy, s).feasible
    )
    outcome = solved(cpsat_sram.build(instance))
    assert outcome.objective == wanted
