"""Deadline: one moment and one reason for every loop; shares of it, and runs within runs, never outlive it."""

from __future__ import annotations

import threading
import time

import pytest

from chipmap.deadline import Deadline, Stop, look
from chipmap.methods.chain import Link, Turn, follow
from tests.test_run import Answer, new_run

NEVER = float("inf")


def test_work_goes_on_until_the_moment() -> None:
    assert Deadline().keep_going() and Deadline().seconds == NEVER
    assert Deadline.after(None) == Deadline()
    early, late = Deadline(time.monotonic() - 1.0), Deadline.after(100.0)
    assert late.keep_going() and 90.0 < late.seconds <= 100.0
    late.check()
    assert not early.keep_going() and early.seconds == 0.0
    with pytest.raises(Stop) as caught:
        early.check()
    assert caught.value.limit == "time"


def test_another_reason_ends_it_before() -> None:
    over: list[bool] = []
    deadline = Deadline(NEVER, lambda: "gap" if over else None)
    parts = (deadline, deadline.share(0.5), deadline.within(100.0))
    assert all(part.keep_going() for part in parts)
    over.append(True)
    for part in parts:
        assert not part.keep_going()
        with pytest.raises(Stop) as caught:
            part.check()
        assert caught.value.limit == "gap"


def test_a_share_is_a_part_of_what_is_left() -> None:
    deadline = Deadline.after(100.0)
    assert 20.0 < deadline.share(0.25).seconds <= 25.0
    assert deadline.share(1.0).seconds <= 100.0
    assert 5.0 < deadline.within(10.0).seconds <= 10.0
    assert deadline.within(1000.0).until == deadline.until, "no part outlives the whole"
    assert Deadline().share(0.5).seconds == NEVER


def test_a_runs_deadline_is_its_time_limit() -> None:
    assert new_run().deadline.seconds == NEVER
    run = new_run(time_limit=50.0)
    run.started -= 20.0
    assert 20.0 < run.deadline.seconds <= 30.0 and run.keep_going()
    run.started -= 40.0
    assert not run.keep_going() and not run.deadline.keep_going()


def test_an_inner_run_ends_with_the_run_around_it() -> None:
    run = new_run(time_limit=50.0)
    inner = run.inner(Answer(value=1), Deadline.after(1000.0), gap=0.5)
    assert inner.options.gap == 0.5 and inner.remaining <= 50.0
    assert 5.0 < run.inner(Answer(value=1), run.deadline.within(10.0)).remaining <= 10.0
    assert new_run().inner(Answer(value=1)).options.time_limit is None
    assert inner.keep_going()
    run.interrupted = True
    assert not inner.keep_going()
    with pytest.raises(Stop, match="interrupted"):
        inner.checkpoint()


def test_an_inner_run_ends_when_the_gap_of_the_run_around_it_is_closed() -> None:
    run = new_run()
    inner = run.inner(Answer(value=1))
    run.bound(7, "b")
    assert inner.keep_going()
    run.solution(Answer(value=7), "s")
    assert not inner.keep_going()
    assert inner.best is None and not inner.bounds, "what the inner run finds is its own"


def test_whoever_looks_asks_the_deadline_that_is_heeded_here() -> None:
    look()
    with Deadline.after(100.0).heeded():
        look()
        with Deadline.after(0.0).heeded(), pytest.raises(Stop):
            look()
        look()
    with Deadline.after(0.0).heeded():
        other = threading.Thread(target=look)
        other.start()
        other.join()
        with pytest.raises(Stop):
            look()
    look()


def test_a_run_heeds_its_own_deadline() -> None:
    run = new_run(time_limit=50.0)
    run.attempt(look)
    run.started -= 100.0
    assert run.attempt(look).limit == "time"


def test_whoever_hears_that_time_is_up_lets_the_run_know() -> None:
    """A deterministic run in which a part's share was used up isn't reproducible, though it ends in time itself."""
    run = new_run(time_limit=50.0)
    assert run.deadline.share(0.5).keep_going() and not run.timed
    part = run.deadline.within(0.0)
    assert not part.keep_going()
    assert run.timed and run.keep_going()


def test_a_run_within_a_run_lets_it_know() -> None:
    run = new_run(time_limit=50.0)
    inner = run.inner(Answer(value=1), Deadline.after(0.0))
    assert not run.timed
    assert not inner.keep_going()
    assert inner.timed and run.timed and run.keep_going()


def test_a_link_that_overruns_its_share_in_compiled_code_lets_the_run_know() -> None:
    """A compiled loop is given the moment and looks at the clock itself."""

    def overrun(_: object, turn: Turn) -> None:
        while time.monotonic() < turn.deadline.until:
            time.sleep(0.01)

    run = new_run(time_limit=50.0)
    follow([Link("quick", 0.5, lambda state, turn: None)], None, Turn(run, run.deadline))
    assert not run.timed
    follow([Link("slow", 0.001, overrun), Link("next", 1.0, lambda state, turn: None)], None, Turn(run, run.deadline))
    assert run.timed and run.keep_going()
