"""Solvers that lie: no wrong word, no lost solution, and a word that something failed.

The full counts are those of ``python -m benchmarks.lying_solver``.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from benchmarks.lying_solver import ASKING, applicable, asking_cases, worst
from chipmap.cli.common import exit_code
from chipmap.family import FAMILY_NAMES, get_family
from chipmap.solve import solve
from chipmap.solvers import repeated
from tests.conformance.cases import cases
from tests.lanes import of_all
from tests.lying import Lie, asked, lies, start_file, wrong_words

#: Runs of a family.
SAMPLE = of_all(6, few=3)
HOOKS, ROOT = Path(__file__).parents[1] / "lying_hooks", Path(__file__).parents[2]


def lie_called(name: str) -> Lie:
    """The lie of that name."""
    return next(lie for lie in lies() if lie.name == name)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_sample_of_lies(family: str, tmp_path: Path) -> None:
    random, wrong = Random(35), list[str]()
    for number in range(SAMPLE):
        method = random.choice(ASKING[family])
        case = random.choice(asking_cases(family, method, 2))
        lie = random.choice(applicable(method))
        start = start_file(tmp_path, worst(case)) if number % 3 == 0 and case.best[1] is not None else "none"
        answer = asked(case.instance, method, lie, warm_start=start)
        words = wrong_words(answer, lie, case.best[0], case.family, case.instance)
        wrong += [f"{method} on {case}, {lie.name}: {word}" for word in words]
    assert not wrong


FAILURES = (
    *("highs kSolveError, nothing heard", "highs kUnknown, nothing heard", "gurobi 12, nothing heard"),
    *("highs kModelError, nothing heard", "optimal without a solution"),
)


@pytest.mark.parametrize("lie", [*FAILURES, "cpsat MODEL_INVALID, nothing heard", "cpsat UNKNOWN, nothing heard"])
def test_no_failure_of_a_solver_proves_that_dataflow_has_no_mapping(lie: str) -> None:
    told = lie_called(lie)
    for method in ("mip", "cpsat"):
        for case in cases(get_family("dataflow"))[:8:2] if method in told.kinds else ():
            answer = asked(case.instance, method, told)
            assert answer.result is not None and answer.told.times
            assert answer.result.status in ("unknown", "feasible"), f"{case}: {answer.result}"
            assert not answer.result.infeasibility
            assert bool(answer.result.failure) != lie.startswith("cpsat UNKNOWN")
            assert exit_code(answer.result) == (3 if lie.startswith("cpsat UNKNOWN") else 6)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_a_wrong_infeasible_is_contradicted(family: str) -> None:
    """From no start: the family's quick methods find a solution, which stays."""
    method, case = f"{family}/cpsat", cases(get_family(family))[0]
    lie = lie_called("cpsat INFEASIBLE, nothing heard")
    answer = asked(case.instance, method, lie)
    assert answer.result is not None and answer.told.times
    assert (answer.result.status, exit_code(answer.result)) == ("error", 4)
    assert answer.result.solution is not None and answer.result.certificate is not None
    assert "a defect of chipmap or of a solver" in answer.result.termination.detail


@pytest.mark.parametrize("lie", ["cpsat MODEL_INVALID, nothing heard", "an exception after the truth"])
def test_lies_in_a_child(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHIPMAP_LIE", lie)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HOOKS), str(ROOT)]))
    result = solve("dataflow/tiny-chain", "cpsat", time_limit=60.0, threads=1, isolate=True)
    assert result.failure and exit_code(result) == 6 and result.status != "infeasible"
    assert result.solution is not None and result.certificate is not None  # the first mapping, or what was found


def test_an_error_of_a_repeated_program_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS's bound after an error may be anything: 0, where it has found none."""
    program = repeated.Repeated([1.0, 1.0], [True, True], [({0: 1.0, 1: 1.0}, 1.0, 2.0)])
    honest = program.minimise(repeated.np.array([-1.0, -2.0]), 60.0, 0.0)
    assert honest.bound == -3.0
    monkeypatch.setattr(repeated, "HONEST", ())
    assert program.minimise(repeated.np.array([-1.0, -2.0]), 60.0, 0.0).bound == -float("inf")
