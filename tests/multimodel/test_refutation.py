"""Deadlines and limits that one model alone can't meet, and limits of EDP instances in the MIP."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.bounds import least_latency
from chipmap.heuristics.multimodel.windows.any_windows import Line
from chipmap.inputs.reading import read
from chipmap.instances.multimodel.problem import multi_problem
from chipmap.methods.chain import Turn
from chipmap.methods.multimodel.chain import ALONE
from chipmap.methods.multimodel.refutation import SingleModels, above_limits, limited
from chipmap.run import Run, SolveOptions
from chipmap.solve import solve
from chipmap.validation.multimodel.checker import check
from tests.multimodel.random_instances import made

#: Links that need no compiled code.
QUICK = ALONE[:2]


def scenario(**changes: Any) -> Any:
    """Scenario 8 sample by sample: D2Go alone takes more than its closed form says, by a linear program."""
    instance: Any = read("multimodel/scar-8-pipelined")
    deadline, task = changes.pop("deadline_ns", None), instance.task.replace(**changes)
    first = instance.models[0].replace(deadline_ns=deadline)
    return instance.replace(task=task, models=(first, *instance.models[1:]))


@pytest.mark.parametrize("field", ["deadline_ns", "latency_limit_ns"])
def test_a_model_alone_refutes_its_deadline_and_the_limit_on_all(field: str) -> None:
    """A limit above the closed form, below the linear program over any number of windows: 479,341,558 ns."""
    problem = multi_problem(scenario())
    limit = 479_200_000
    assert least_latency(problem, problem.models[0]) < limit
    instance = scenario(**{field: limit})
    run = Run(instance, SolveOptions(threads=1), check)
    assert limited(instance) and not limited(scenario())
    (reason,) = SingleModels(multi_problem(instance)).refute(Turn(run, Deadline()), QUICK)
    assert (reason.label, reason.limit, reason.demand) == ("C4", limit, 479_341_558)
    assert reason.message.startswith("'d2go' alone takes 479,341,558 ns at least")
    assert SingleModels(multi_problem(scenario(**{field: 10**12}))).refute(Turn(run, Deadline()), QUICK) == []


def test_energies_of_models_alone_add_up() -> None:
    """A limit one pJ below what the models need alone, and the same one."""
    instance = scenario()
    run = Run(instance, SolveOptions(threads=1), check)
    (reason,) = SingleModels(multi_problem(scenario(energy_limit_pj=1))).refute(Turn(run, Deadline()), QUICK)
    least = int(reason.demand)
    for limit, count in ((least - 1, 1), (least, 0)):
        found = SingleModels(multi_problem(scenario(energy_limit_pj=limit))).refute(Turn(run, Deadline()), QUICK)
        assert len(found) == count


def test_a_line_above_both_limits_refutes_them() -> None:
    """2 T1 + T2 >= 1,000 with T1 <= 300 needs T2 >= 400."""
    lines = [Line(2.0, 1000.0)]
    for energy, count in ((399, 1), (400, 0)):
        task = {"latency_limit_ns": 300, "energy_limit_pj": energy}
        reasons = above_limits(multi_problem(made(1, "edp", task=task)), lines)
        assert [reason.label for reason in reasons] == ["C4"] * count
    assert above_limits(multi_problem(made(1, "edp")), lines) == []


def test_the_mip_of_an_edp_instance_says_infeasible() -> None:
    """Limits below the fastest schedule and above its closed form; one unit more has a solution."""
    free = made(4, "latency", task={})
    least = solve(free, "multimodel/cpsat", threads=1, isolate=False).objective
    assert least is not None
    for limit, status in ((least - 1, {"infeasible"}), (least, {"optimal", "feasible"})):
        instance = free.replace(task=free.task.replace(objective="edp", latency_limit_ns=limit))
        result = solve(instance, "multimodel/mip", threads=1, isolate=False)
        assert result.status in status, (limit, result.termination)
        assert all("C4" in reason.labels for reason in result.infeasibility)
