"""Chains and lanes: links in order, shares of the time, and one incumbent whoever finds it."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any

import pytest

from chipmap.deadline import Stop
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.lanes import side_by_side
from chipmap.run import Run
from tests.test_run import Answer, new_run


def turn_of(run: Run) -> Turn:
    return Turn(run, run.deadline)


def test_links_work_in_order_on_one_state() -> None:
    seen: list[str] = []
    links = [Link(name, 1.0, partial(lambda name, state, _: state.append(name), name)) for name in ("a", "b", "c")]
    follow(links, seen, turn_of(new_run()))
    assert seen == ["a", "b", "c"]


def test_a_used_share_is_the_next_links_turn() -> None:
    def endless(state: list[str], turn: Turn) -> None:
        state.append(f"{turn.deadline.seconds < 0.2}")
        while True:
            turn.deadline.check()

    seen: list[str] = []
    links = [Link("endless", 0.001, endless), Link("next", 1.0, lambda state, _: state.append("next"))]
    follow(links, seen, turn_of(new_run(time_limit=60.0)))
    assert seen == ["True", "next"]


def test_a_closed_gap_ends_the_chain() -> None:
    run = new_run()

    def close(_: Any, turn: Turn) -> None:
        turn.solution(Answer(value=5), "s")
        turn.bound(5, "b")

    seen: list[str] = []
    with pytest.raises(Stop, match="gap"):
        follow([Link("close", 1.0, close), Link("never", 1.0, lambda s, _: s.append("never"))], seen, turn_of(run))
    assert run.upper == 5 and not seen


def test_a_stop_for_the_whole_run_is_not_taken_for_a_used_share() -> None:
    run = new_run(time_limit=60.0)
    run.started -= 100.0
    seen: list[str] = []
    with pytest.raises(Stop, match="time"):
        follow([Link("late", 1.0, lambda seen, _: seen.append("late"))], seen, turn_of(run))
    assert not seen


def test_lanes_hand_over_to_the_runs_own_thread() -> None:
    run, threads = new_run(), set[int]()
    checked = run.check
    run.check = lambda i, s: threads.add(threading.get_ident()) or checked(i, s)  # type: ignore[func-returns-value]
    lanes = [
        [Link("s", 1.0, lambda _, turn: turn.solution(Answer(value=9), "one"))],
        [Link("b", 1.0, lambda _, turn: turn.bound(4, "two")), Link("t", 1.0, lambda _, turn: turn.bound(6, "two"))],
    ]
    side_by_side(run, None, lanes)
    assert run.upper == 9 and run.lower is not None and run.lower.value == 6
    assert threads == {threading.get_ident()}


def test_a_failure_in_a_lane_is_raised_and_stops_the_other() -> None:
    ended = threading.Event()

    def fail(_: Any, turn: Turn) -> None:
        turn.solution(Answer(value=3), "before")
        raise ZeroDivisionError

    def wait(_: Any, turn: Turn) -> None:
        while turn.deadline.keep_going():
            time.sleep(0.001)
        ended.set()

    run = new_run()
    with pytest.raises(ZeroDivisionError):
        side_by_side(run, None, [[Link("fail", 1.0, fail)], [Link("wait", 1.0, wait)]])
    assert run.upper == 3 and ended.wait(5.0)


def test_an_interrupt_reaches_every_lane() -> None:
    run, ended = new_run(), list[str]()

    def wait(_: Any, turn: Turn) -> None:
        run.interrupted = True
        while True:
            turn.deadline.check()
            time.sleep(0.001)

    links = [Link("wait", 1.0, wait), Link("never", 1.0, lambda _, __: ended.append("never"))]
    with pytest.raises(Stop, match="interrupted"):
        side_by_side(run, None, [links, links])
    assert not ended


def test_what_a_stopped_lane_still_hands_over_is_kept() -> None:
    def until_told(_: Any, turn: Turn) -> None:
        while turn.deadline.keep_going():
            time.sleep(0.001)
        turn.bound(4, "last find")

    def close(_: Any, turn: Turn) -> None:
        turn.bound(5, "b")
        turn.solution(Answer(value=5), "s")

    run = new_run()
    with pytest.raises(Stop, match="gap"):
        side_by_side(run, None, [[Link("until told", 1.0, until_told)], [Link("close", 1.0, close)]])
    assert "last find" in {bound.source for bound in run.bounds}
