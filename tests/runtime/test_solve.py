"""What a Result says: chipmap's own rule for ``optimal``, and how a run may end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import chipmap
from chipmap.cli.common import exit_code
from chipmap.deadline import Stop
from chipmap.family import get_family
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.records import InputError
from chipmap.result import Infeasibility, Limit, Reason, Result, Termination
from chipmap.run import Run, SolveOptions
from chipmap.solve import guarded, result_of
from chipmap.validation.ring.checker import check

#: The objective of one_chip: 60 operations of 1 us, in ticks.
WORST = 6_000_000


def concluded(instance: RingInstance, work: Callable[[Run], Any], **options: Any) -> Result:
    """The result of a run in which ``work`` happened."""
    family = get_family("ring")
    run = Run(instance, SolveOptions.make(**options), check)

    def method() -> Termination:
        answer = work(run)
        return answer if isinstance(answer, Termination) else run.terminate()

    return result_of(run, family, family.method(None), guarded(run, method), {})


def one_chip(run: Run) -> None:
    run.solution(RingSolution(chips=(0,) * 60), "one chip")


def test_optimal_is_decided_by_the_checked_objective_and_the_bound(instance: RingInstance) -> None:
    def closed(run: Run) -> Termination:
        one_chip(run)
        run.bound(WORST, "proof")
        return Termination(reason="feasible", limit="time")

    result = concluded(instance, closed)
    assert (result.status, result.gap, result.termination.reason) == ("optimal", 0.0, "optimal")
    assert result.termination.limit == "none"


def test_a_claim_of_optimality_is_not_copied(instance: RingInstance) -> None:
    def claim(run: Run) -> Termination:
        one_chip(run)
        run.bound(WORST - 1, "proof")
        return Termination(reason="optimal")

    result = concluded(instance, claim)
    assert (result.status, result.termination.reason) == ("feasible", "feasible")
    assert result.gap == pytest.approx(1 / WORST)


@pytest.mark.parametrize("first", ["bound", "solution"])
def test_a_bound_within_the_tolerance_is_clipped(instance: RingInstance, first: str) -> None:
    def near(run: Run) -> None:
        if first == "solution":
            one_chip(run)
        run.bound(WORST + 3, "solver", "solver")
        one_chip(run)

    result = concluded(instance, near)
    assert (result.status, result.objective, result.bound, result.gap) == ("optimal", WORST, WORST, 0.0)


@pytest.mark.parametrize("first", ["bound", "solution"])
def test_a_bound_beyond_the_tolerance_is_an_error_that_keeps_both(instance: RingInstance, first: str) -> None:
    def far(run: Run) -> None:
        if first == "solution":
            one_chip(run)
        run.bound(WORST + 100, "solver", "solver")
        one_chip(run)

    result = concluded(instance, far)
    assert (result.status, result.objective, result.bound, result.gap) == ("error", WORST, None, None)
    assert [bound.value for bound in result.bounds] == [WORST + 100]
    assert str(WORST + 100) in result.termination.detail
    assert result.solution is not None


ENDS: list[tuple[BaseException, Reason, Limit]] = [
    (Stop("time"), "feasible", "time"),
    (Stop("gap"), "feasible", "gap"),
    (KeyboardInterrupt(), "feasible", "interrupted"),
    (MemoryError(), "feasible", "memory"),
]


@pytest.mark.parametrize(("end", "reason", "limit"), ENDS, ids=[limit for *_, limit in ENDS])
def test_what_was_found_is_kept(instance: RingInstance, end: BaseException, reason: Reason, limit: Limit) -> None:
    def cut(run: Run) -> None:
        one_chip(run)
        raise end

    result = concluded(instance, cut)
    assert (result.status, result.objective) == ("feasible", WORST)
    assert (result.termination.reason, result.termination.limit) == (reason, limit)


@pytest.mark.parametrize(("end", "limit"), [(end, limit) for end, _, limit in ENDS], ids=[limit for *_, limit in ENDS])
def test_nothing_found_is_unknown(instance: RingInstance, end: BaseException, limit: Limit) -> None:
    def cut(run: Run) -> None:
        raise end

    result = concluded(instance, cut)
    assert (result.status, result.objective, result.gap) == ("unknown", None, None)
    assert (result.termination.reason, result.termination.limit) == ("no_solution_found", limit)


def test_infeasible(instance: RingInstance) -> None:
    short = Infeasibility(label="C4", resource="SRAM", demand=3, limit=2, unit="bytes", message="1 byte is missing")
    result = concluded(instance, lambda run: run.infeasible(short))
    assert (result.status, result.termination.reason) == ("infeasible", "infeasible")
    assert result.infeasibility == (short,)


def test_a_result_reads_back_as_it_was_written(instance: RingInstance) -> None:
    result = concluded(instance, one_chip)
    assert Result.from_json(result.to_json()) == result


def test_a_defect_is_raised_in_this_process_where_nothing_was_found(instance: RingInstance) -> None:
    with pytest.raises(ZeroDivisionError):
        chipmap.solve(instance, "fail_at_once", warm_start="none")


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize(("method", "word"), [("fail", "ZeroDivisionError: a defect"), ("endless_bounds", "inf")])
def test_a_defect_loses_no_solution(instance: RingInstance, method: str, word: str, isolate: bool) -> None:
    """Here as in a child: the solution stays, what failed is said, and the command exits with 6."""
    options = SolveOptions(warm_start="none", time_limit=60.0)
    result = chipmap.solve(instance, method, options, isolate=isolate)
    assert (result.status, result.objective) == ("feasible", 30 * 100_000)
    assert word in result.failure and exit_code(result) == 6


def test_what_a_listener_raises_is_the_callers_own(instance: RingInstance) -> None:
    def listener(event: Any, run: Run) -> None:
        raise KeyError("of the caller")

    with pytest.raises(KeyError, match="of the caller"):
        chipmap.solve(instance, "improve", warm_start="none", listener=listener)


def test_the_default_start_is_greedy(instance: RingInstance) -> None:
    options = SolveOptions(time_limit=0.3)
    for isolate in (False, True):
        result = chipmap.solve(instance, "wait", options, isolate=isolate)
        assert result.trace[0].source == "greedy"
    # in this process: a child may take longer than the limit to start on a busy machine
    cold = chipmap.solve(instance, "wait", options.replace(warm_start="none"), isolate=False)
    assert cold.trace[0].source == "block 2"


@pytest.mark.parametrize("isolate", [False, True])
def test_a_named_start_runs_before_the_method(isolate: bool) -> None:
    options = SolveOptions(warm_start="slice")
    result = chipmap.solve("ring/random-12", "bounds", options, isolate=isolate)
    assert result.incumbent_source == "slicing"
    assert result.solution is not None


def test_bound_needs_no_solution(instance: RingInstance) -> None:
    result = chipmap.bound(instance)
    assert result.method == "ring/bounds"
    assert result.solution is None
    assert result.bound == 5 * 100_000


def test_instances_are_checked_however_they_come(instance: RingInstance) -> None:
    unchecked = RingInstance(name="x", graph=instance.graph, time_ns=(1.0,))
    with pytest.raises(InputError, match="time_ns: has 1 entry for 60 operations"):
        chipmap.solve(unchecked)
    with pytest.raises(InputError, match="--gap: is 2"):
        chipmap.solve(instance, options=SolveOptions(gap=2.0))
