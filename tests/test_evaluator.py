"""The evaluator itself: calls are counted, cached and limited; what is no cost is refused; the best by it wins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from chipmap.deadline import Stop
from chipmap.evaluator import Evaluator, EvaluatorError
from chipmap.result import Bound, Measurement
from chipmap.run import Run
from tests.test_run import Answer, new_run

INSTANCE = Answer(value=0)


def evaluator(limit: int = 100, answer: Any = None) -> Evaluator:
    """One that says 100 - value, or always ``answer``."""
    return Evaluator("f", "1", lambda _, solution: 100 - solution.value if answer is None else answer, limit)


def measuring(limit: int = 100, **options: Any) -> Run:
    """A run in which a large analytic objective is a small measured cost."""
    run = new_run(**options)
    run.evaluator = evaluator(limit)
    return run


def test_each_mapping_is_measured_once() -> None:
    asked = list[int]()
    heard = list[Measurement]()
    f = Evaluator("f", "1", lambda _, solution: asked.append(solution.value) or solution.value / 2, hear=heard.append)  # type: ignore[func-returns-value]
    for value in (2, 5, 5, 2):
        assert f.ask(INSTANCE, Answer(value=value), value, "here") == value / 2
    assert asked == [2, 5] and (len(f.measurements), f.cached) == (2, 2)
    assert [(one.call, one.cost, one.objective, one.source) for one in heard] == [
        (1, 1.0, 2, "here"),
        (2, 2.5, 5, "here"),
    ]
    assert f.cost(Answer(value=5)) == 2.5 and f.cost(Answer(value=6)) is None


def test_no_call_is_made_beyond_the_limit() -> None:
    f = evaluator(limit=2)
    assert [f.ask(INSTANCE, Answer(value=v), v, "x") for v in (1, 2, 3, 1)] == [99, 98, None, 99]
    assert f.used_up and len(f.measurements) == 2


@pytest.mark.parametrize("answer", [float("nan"), -1, -1e-9, "3", None, True, [3.0], 3 + 0j])
def test_what_is_no_cost_is_refused(answer: Any) -> None:
    f = Evaluator("f", "1", lambda _, __: answer)
    with pytest.raises(EvaluatorError, match="the evaluator f returned"):
        f.ask(INSTANCE, Answer(value=1), 1, "x")
    assert not f.measurements


@pytest.mark.parametrize("answer", [0, 3, 2.5, np.float32(2.5), np.int64(4), math.inf])
def test_any_number_is_a_cost(answer: Any) -> None:
    f = evaluator(answer=answer)
    assert f.ask(INSTANCE, Answer(value=1), 1, "x") == float(answer)
    assert f.measurements[0].cost == (None if answer == math.inf else float(answer))


def test_an_exception_is_told_in_words() -> None:
    f = Evaluator("f", "1", lambda _, __: 1 / 0)
    with pytest.raises(EvaluatorError, match="the evaluator f raised ZeroDivisionError: division by zero"):
        f.ask(INSTANCE, Answer(value=1), 1, "x")


def test_the_best_by_the_measured_cost_wins_whatever_the_bound() -> None:
    """An analytic bound that meets the incumbent ends nothing, and there is no gap."""
    run = measuring()
    for value in (70, 80, 75):
        run.solution(Answer(value=value), "x")
    run.bound(80, "analytic")
    assert run.best is not None and (run.upper, run.best.measured) == (80, 20)
    assert run.gap is None and not run.closed and run.keep_going()
    assert run.terminate().reason == "feasible"
    assert [(event.value, event.measured) for event in run.trace if event.event == "solution"] == [(70, 30), (80, 20)]


def test_a_run_ends_when_its_calls_are_used_up() -> None:
    run = measuring(limit=2)
    run.solution(Answer(value=1), "x")
    run.checkpoint()
    run.solution(Answer(value=2), "x")
    with pytest.raises(Stop) as caught:
        run.checkpoint()
    assert caught.value.limit == "iteration" and run.terminate("iteration").limit == "iteration"
    run.solution(Answer(value=3), "x")
    assert run.best is not None and run.best.measured == 98, "what isn't measured doesn't win"


def test_a_failing_evaluator_loses_no_solution() -> None:
    run = new_run()
    run.evaluator = evaluator(answer=-1)
    with pytest.raises(EvaluatorError):
        run.solution(Answer(value=1), "x")
    assert run.best is not None and run.best.measured is None


def test_what_does_not_run_is_no_better_than_what_does() -> None:
    run = new_run()
    run.evaluator = Evaluator("f", "1", lambda _, solution: math.inf if solution.value < 5 else 1.0)
    for value in (3, 7, 2):
        run.measure(Answer(value=value), "x")
    assert run.best is not None and (run.upper, run.best.measured) == (7, 1.0)
    report = run.evaluator.report(run.best.measured)
    assert (report.calls, report.refused, report.cost) == (3, 2, 1.0)


def test_a_refused_solution_takes_no_call() -> None:
    run = measuring()
    assert run.measure(Answer(value=1, valid=False), "x") is None
    assert run.evaluator is not None and not run.evaluator.measurements


def test_an_inner_run_measures_nothing() -> None:
    run = measuring(evaluator="a:b", evaluations=7)
    inner = run.inner(INSTANCE)
    assert inner.evaluator is None and (inner.options.evaluator, inner.options.evaluations) == (None, None)
    inner.solution(Answer(value=5), "x")
    inner.bounds.append(Bound(value=5, source="b"))
    assert inner.gap == 0.0
