"""Chains and lanes: links get their share of the time, lanes hand over what they find, and stop when the run does."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from chipmap.certificate import Certificate
from chipmap.deadline import Stop
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.lanes import side_by_side
from chipmap.records import Record
from chipmap.run import Run, SolveOptions


class Answer(Record, frozen=True, kw_only=True):
    """A solution that the checker below accepts at ``value``."""

    value: int


def check(instance: Any, answer: Answer) -> Certificate:
    return Certificate(instance_hash="i", solution_hash="s", feasible=True, objective=answer.value)


def new_run(**options: Any) -> Run:
    return Run(Answer(value=0), SolveOptions.make(**options), check)


def finds(value: int) -> Link[list[str]]:
    """A link that finds a solution of that value."""

    def work(state: list[str], turn: Turn) -> None:
        state.append(f"solution {value}")
        turn.solution(Answer(value=value), f"solution {value}")

    return Link(f"solution {value}", 1.0, work)


def proves(value: int) -> Link[list[str]]:
    """A link that proves a bound."""

    def work(state: list[str], turn: Turn) -> None:
        state.append(f"bound {value}")
        turn.bound(value, f"bound {value}")

    return Link(f"bound {value}", 1.0, work)


def test_a_chain_does_its_links_in_order() -> None:
    run, state = new_run(), list[str]()
    follow([finds(9), proves(3), finds(8)], state, Turn(run, run.deadline))
    assert state == ["solution 9", "bound 3", "solution 8"]
    assert run.upper == 8 and run.lower is not None and run.lower.value == 3


def test_a_link_gets_its_share_of_what_is_left() -> None:
    run, seen = new_run(time_limit=100.0), list[float]()

    def look(state: list[float], turn: Turn) -> None:
        state.append(turn.deadline.seconds)

    follow([Link("look", share, look) for share in (0.1, 0.5, 1.0)], seen, Turn(run, run.deadline))
    for seconds, most in zip(seen, (10.0, 50.0, 100.0), strict=True):
        assert 0.8 * most < seconds <= most


def test_a_link_whose_share_is_used_up_makes_way_for_the_next() -> None:
    run, state = new_run(time_limit=100.0), list[str]()

    def works_too_long(state: list[str], turn: Turn) -> None:
        state.append("began")
        raise Stop("time")

    follow([Link("long", 0.01, works_too_long), finds(5)], state, Turn(run, run.deadline))
    assert state == ["began", "solution 5"]


def test_a_chain_ends_when_the_gap_is_closed() -> None:
    run, state = new_run(), list[str]()
    with pytest.raises(Stop) as caught:
        follow([finds(5), proves(5), finds(4)], state, Turn(run, run.deadline))
    assert caught.value.limit == "gap" and state == ["solution 5", "bound 5"]


def test_lanes_hand_over_all_that_they_find() -> None:
    run = new_run()
    side_by_side(run, list[str](), [[finds(9), finds(7)], [proves(2), proves(4)], []])
    assert run.upper == 7 and [bound.value for bound in run.bounds] == [2, 4]


def test_lanes_stop_when_the_run_does_and_their_last_finds_are_kept() -> None:
    """One lane works until it is told to stop, and hands over what it has then; the other closes the gap."""
    run, ended = new_run(), threading.Event()

    def until_told(state: list[str], turn: Turn) -> None:
        give_up = time.monotonic() + 30.0
        while turn.deadline.keep_going() and time.monotonic() < give_up:
            time.sleep(0.01)
        if time.monotonic() < give_up:
            ended.set()
        turn.bound(4, "last find")

    with pytest.raises(Stop) as caught:
        side_by_side(run, list[str](), [[Link("until told", 1.0, until_told), finds(1)], [finds(5), proves(5)]])
    assert caught.value.limit == "gap" and ended.is_set()
    assert "last find" in {bound.source for bound in run.bounds}
    assert run.upper == 5, "a stopped lane begins no further link"


def test_what_a_link_raises_is_raised_and_stops_the_others() -> None:
    run, ended = new_run(), threading.Event()

    def fails(state: list[str], turn: Turn) -> None:
        raise ArithmeticError("a defect")

    def until_told(state: list[str], turn: Turn) -> None:
        give_up = time.monotonic() + 30.0
        while turn.deadline.keep_going() and time.monotonic() < give_up:
            time.sleep(0.01)
        if time.monotonic() < give_up:
            ended.set()

    with pytest.raises(ArithmeticError, match="a defect"):
        side_by_side(run, list[str](), [[Link("fails", 1.0, fails)], [Link("until told", 1.0, until_told)]])
    assert ended.is_set()
