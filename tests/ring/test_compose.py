"""The tutorial's model of two rings on one package against brute force; blocks and prefixes side by side."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pyomo.environ as pyo
import pytest
from ortools.sat.python import cp_model

from chipmap.formulations.ring import cpsat, mip
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.instances.ring.loads import loads
from chipmap.instances.ring.problem import ring_problem
from chipmap.records import InputError
from chipmap.validation.ring.candidates import candidates
from chipmap.validation.ring.checker import check
from tests.docs.pages import ROOT, blocks
from tests.ring.random_instances import random_instance

PAGE = ROOT / "docs" / "tutorials" / "compose-two-rings.md"


def shared_period(pair: tuple[RingInstance, RingInstance], sram: int | None) -> int | None:
    """The least max(joint work of a chip, joint load of a link) with joint memory within ``sram``, by brute force."""
    each = [[loads(ring_problem(i), s.chips) for s in candidates(i) if check(i, s).feasible] for i in pair]
    best = None
    for one, other in product(*each):
        if sram is None or (one.memory_bytes + other.memory_bytes).max() <= sram:
            value = int(max((one.work + other.work).max(), (one.load + other.load).max()))
            best = value if best is None else min(best, value)
    return best


def test_tutorial_is_optimal_and_says_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(PAGE, "python")
    names: dict[str, Any] = {"__name__": "tutorial"}
    exec(compile(block.text, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out.strip()
    assert f"```\n{printed}\n```" in PAGE.read_text(encoding="utf-8")
    pair = (names["camera"], names["speech"])
    found = round(pyo.value(names["model"].period))
    assert found == shared_period(pair, names["package"].sram_bytes)
    assert found > (shared_period(pair, None) or 0), "the shared memory should matter in the example"


def test_a_used_block_is_refused() -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var()
    with pytest.raises(InputError, match="already has components"):
        mip.add_ring(model, random_instance(Random(1)))


@pytest.mark.parametrize("seed", range(12))
def test_two_rings_side_by_side_keep_their_own_optima(seed: int) -> None:
    """One model with two unrelated rings and the sum of their costs: the sum of the two optima, MIP and CP-SAT."""
    random = Random(seed)
    pair = [random_instance(random, operations=5, chips=3, side=False) for _ in range(2)]
    certificates = [[check(i, s) for s in candidates(i)] for i in pair]
    best = [min((c.objective or 0 for c in found if c.feasible), default=None) for found in certificates]
    wanted = None if None in best else sum(value or 0 for value in best)

    model = pyo.ConcreteModel()
    model.rings = pyo.Block([0, 1])
    for k, instance in enumerate(pair):
        mip.add_ring(model.rings[k], instance)
    model.objective = pyo.Objective(expr=model.rings[0].cost + model.rings[1].cost)
    solver = pyo.SolverFactory("appsi_highs")
    results = solver.solve(model, load_solutions=False, options={"mip_rel_gap": 0.0})
    if wanted is None:
        assert results.solver.termination_condition == pyo.TerminationCondition.infeasible
    else:
        assert results.problem.upper_bound == pytest.approx(wanted, rel=1e-6, abs=1e-6)

    native = cp_model.CpModel()
    rings = [cpsat.add_ring(native, instance, prefix=f"{k} ") for k, instance in enumerate(pair)]
    native.minimize(sum(ring.cost for ring in rings if ring.cost is not None))
    names = [variable.name for variable in native.proto.variables]
    assert len(set(names)) == len(names)
    cp = cp_model.CpSolver()
    cp.parameters.num_workers, cp.parameters.max_time_in_seconds = 1, 30
    status = cp.solve(native)
    if wanted is None:
        assert status == cp_model.INFEASIBLE
        return
    assert status == cp_model.OPTIMAL and round(cp.objective_value) == wanted
    for ring, instance, value in zip(rings, pair, best, strict=True):
        solution = RingSolution(chips=tuple(cp.value(chip) for chip in ring.chip))
        certificate = check(instance, solution)
        assert certificate.feasible and certificate.objective == value


def test_a_side_constraint_of_the_user_holds() -> None:
    """Linear expressions of ``add_ring`` in CP-SAT: an upper limit on the first chip's work moves operations away."""
    worse = 0
    for seed in range(20):
        instance = random_instance(Random(seed), operations=6, side=False, constraints=("C2",), cost_mode="period")
        certificates = {s.chips: check(instance, s) for s in candidates(instance)}
        costs = {chips: c.objective or 0 for chips, c in certificates.items() if c.feasible}
        work = {chips: int(loads(ring_problem(instance), chips).work[0]) for chips in costs}
        limit = min((work[chips] for chips in costs if costs[chips] == min(costs.values())), default=0) - 1
        wanted = min((costs[chips] for chips in costs if work[chips] <= limit), default=None)
        native = cp_model.CpModel()
        ring = cpsat.add_ring(native, instance)
        native.add(ring.terms["T1"][0] <= limit)
        assert ring.cost is not None
        native.minimize(ring.cost)
        cp = cp_model.CpSolver()
        cp.parameters.num_workers, cp.parameters.max_time_in_seconds = 1, 30
        status = cp.solve(native)
        if wanted is None:
            assert status == cp_model.INFEASIBLE
            continue
        assert status == cp_model.OPTIMAL and round(cp.objective_value) == wanted
        worse += wanted > min(costs.values())
    assert worse >= 3
