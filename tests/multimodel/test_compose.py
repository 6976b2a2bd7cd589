"""Models within a user's: two blocks that share an energy budget, against all pairs of schedules; exported LPs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyomo.environ as pyo
import pytest
from ortools.sat.python import cp_model

from chipmap.cli import main
from chipmap.formulations.multimodel import cpsat, mip
from chipmap.instances.multimodel import MultiInstance
from chipmap.records import InputError
from chipmap.validation.multimodel.checker import check
from tests.conformance.test_exports import by_highs
from tests.docs.pages import ROOT, blocks
from tests.multimodel.enumeration import Schedules, schedules
from tests.multimodel.random_instances import made

PAGE = ROOT / "docs" / "tutorials" / "compose-two-modules.md"
Pair = tuple[MultiInstance, MultiInstance]


def least_frame(pair: tuple[Schedules, Schedules], budget: int) -> int | None:
    """The least max of both latencies with energies of at most ``budget`` in sum, over all pairs."""
    one, other = pair
    within = one.energy[:, None] + other.energy[None, :] <= budget
    slower = np.maximum(one.time[:, None], other.time[None, :])
    return int(slower[within].min()) if within.any() else None


def test_the_tutorial_prints_what_it_says_and_is_optimal(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(PAGE, "python")
    names: dict[str, Any] = {"__name__": "tutorial"}
    exec(compile(block.text, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out.strip()
    text = PAGE.read_text(encoding="utf-8")
    assert f"```\n{printed}\n```" in text
    pair = schedules(names["camera"]), schedules(names["speech"])
    best, free = least_frame(pair, names["BUDGET"]), least_frame(pair, 10**18)
    assert best is not None and free is not None and best > free, "the battery should matter in the example"
    assert pyo.value(names["model"].frame) * 1e3 == pytest.approx(best, rel=1e-6)
    assert f"finds {free / 1e3:.1f} µs. So the limit makes a frame {best / free - 1:.0%} longer." in text


def two(seed: int) -> Pair:
    """Two instances on modules of their own."""
    one = made(seed, "latency", layers=(2, 1), columns=3)
    return one, made(seed + 100, "energy", layers=(3,), rows=2, columns=2, windows=1)


def budgets(pair: tuple[Schedules, Schedules]) -> list[int]:
    """Three budgets in pJ: a bit less than the fastest schedules take; halfway from there to the least; below that.

    Floating point doesn't see a single pJ.
    """
    least = sum(int(one.energy.min()) for one in pair)
    fastest = sum(int(one.energy[one.time == one.time.min()].min()) for one in pair)
    return [fastest - 1_000, (fastest + least) // 2, least - 1_000]


@pytest.mark.parametrize("seed", range(6))
def test_a_shared_energy_budget_binds_in_a_mip(seed: int) -> None:
    pair = two(seed)
    known = schedules(pair[0]), schedules(pair[1])
    for budget in budgets(known):
        model = pyo.ConcreteModel()
        model.modules = pyo.Block([0, 1])
        for k, instance in enumerate(pair):
            mip.add_multimodel(model.modules[k], instance)
        model.frame = pyo.Var()
        model.done = pyo.Constraint([0, 1], rule=lambda m, k: m.modules[k].terms["T1"] / 1e3 <= m.frame)
        drawn = sum(model.modules[k].terms["T2"] for k in (0, 1)) / 1e6
        model.battery = pyo.Constraint(expr=drawn <= budget / 1e6)
        model.objective = pyo.Objective(expr=model.frame)
        solver = pyo.SolverFactory("appsi_highs")
        found = solver.solve(model, load_solutions=False, options={"mip_rel_gap": 0.0})
        wanted = least_frame(known, budget)
        if wanted is None:
            assert found.solver.termination_condition == pyo.TerminationCondition.infeasible
            continue
        solver.load_vars()
        certificates = [
            check(instance, mip.decode(model.modules[k], instance, pyo.value)) for k, instance in enumerate(pair)
        ]
        assert all(certificate.feasible for certificate in certificates)
        assert max(certificate.terms["T1"] for certificate in certificates) == wanted
        assert sum(certificate.terms["T2"] for certificate in certificates) <= budget


@pytest.mark.parametrize("seed", range(6))
def test_a_shared_energy_budget_binds_in_cpsat(seed: int) -> None:
    pair = two(seed)
    known = schedules(pair[0]), schedules(pair[1])
    for budget in budgets(known):
        model = cp_model.CpModel()
        one, other = (cpsat.add_multimodel(model, instance, prefix=f"{k} ") for k, instance in enumerate(pair))
        names = [variable.name for variable in model.proto.variables]
        assert len(set(names)) == len(names)
        frame = model.new_int_var(0, 10**9, "frame")
        model.add(frame >= one.time)
        model.add(frame >= other.time)
        model.add(one.energy + other.energy <= budget)
        model.minimize(frame)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers, solver.parameters.max_time_in_seconds = 1, 60
        status, wanted = solver.solve(model), least_frame(known, budget)
        if wanted is None:
            assert status == cp_model.INFEASIBLE
            continue
        assert status == cp_model.OPTIMAL and round(solver.objective_value) == wanted
        drawn = 0
        for instance, variables in zip(pair, (one, other), strict=True):
            certificate = check(instance, variables.decode(solver.value))
            assert certificate.feasible
            assert certificate.terms == {"T1": solver.value(variables.time), "T2": solver.value(variables.energy)}
            drawn += certificate.terms["T2"]
        assert drawn <= budget


def test_budgets_matter() -> None:
    """In most pairs of the tests above the budget changes the optimum."""
    moved = 0
    for seed in range(6):
        pair = two(seed)
        known = schedules(pair[0]), schedules(pair[1])
        first, second, none = (least_frame(known, budget) for budget in budgets(known))
        free = least_frame(known, 10**18)
        assert none is None
        moved += first != free or second != first
    assert moved >= 4


def test_a_used_block_is_refused() -> None:
    model = pyo.ConcreteModel()
    model.x = pyo.Var()
    with pytest.raises(InputError, match="already has components"):
        mip.add_multimodel(model, made(1))


@pytest.mark.parametrize("objective", ["weighted", "edp"])
def test_an_exported_lp_of_a_weighted_sum_has_the_same_value(objective: str, tmp_path: Path) -> None:
    """By the command, solved afresh by HiGHS: the least weighted sum of all schedules; of EDP, at the MIP's rate."""
    for seed in range(3):
        instance = made(seed, objective, task={"watts": 1.5}, layers=(2, 2))
        path = tmp_path / f"{seed}.json"
        path.write_bytes(instance.to_json())
        for suffix in (".lp", ".mps"):
            target = tmp_path / f"{seed}{suffix}"
            assert main(["export", str(path), "--formulation", "multimodel/mip", "--to", str(target)]) == 0
            known, rate = schedules(instance), mip.rate_of(mip.multi_problem(instance), None)
            wanted = (rate / 1000 * known.time + known.energy).min()
            assert by_highs(target) == pytest.approx(wanted, rel=1e-6)


def test_models_near_the_limit_of_64_bits(tmp_path: Path) -> None:
    """The largest EDP that CP-SAT takes is stated without an overflow and solved; a larger one is refused in words."""
    base = made(3, "edp", layers=(2,), columns=2, batch=1)
    refused = solved = 0
    for power in range(10, 80, 2):
        layers = tuple(
            layer.replace(costs={kind: (ns, pj << power // 2) for kind, (ns, pj) in layer.costs.items()})
            for layer in base.models[0].layers
        )
        instance = base.replace(models=(base.models[0].replace(layers=layers),))
        try:
            model = cpsat.build(instance)
        except InputError as error:
            assert "too large for CP-SAT" in error.what and "multimodel/mip" in (error.remedy or "")
            refused += 1
            continue
        assert not model.native.validate()
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        assert solver.solve(model.native) == cp_model.OPTIMAL
        assert round(solver.objective_value) == schedules(instance).optimum
        assert not refused
        solved += 1
    assert refused and solved > 5
