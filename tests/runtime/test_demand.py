"""Functions that a chain needs are compiled beside it: it goes on with what needs none, and comes back."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import chipmap
from chipmap.deadline import Deadline, Stop
from chipmap.inputs.reading import generate
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.ring import RingInstance
from chipmap.kernels import Unready
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.lanes import side_by_side
from chipmap.methods.placement import chain as placement
from chipmap.process.demand import Compiling, Demand
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.checker import check


@dataclass
class Later:
    """A function that is compiled from some moment on."""

    done: bool = False

    def ready(self) -> bool:
        return self.done


@pytest.fixture
def run(instance: RingInstance) -> Run:
    return Run(instance, SolveOptions(time_limit=60.0), pytest.fail)


def needs(awaited: Later, said: list[str]) -> Callable[[object, Turn], None]:
    """A link that needs a function."""

    def work(state: object, turn: Turn) -> None:
        if not awaited.done:
            raise Unready(awaited)
        said.append("needs")

    return work


def test_a_link_is_passed_over_and_comes_back(run: Run) -> None:
    said, awaited = list[str](), Later()

    def beside(state: object, turn: Turn) -> None:
        said.append("beside")
        awaited.done = True

    links = [Link("needs", 1.0, needs(awaited, said)), Link("beside", 1.0, beside)]
    follow(links, None, Turn(run, run.deadline))
    assert said == ["beside", "needs", "beside"] and run.delayed == ["needs"]


def test_what_runs_meanwhile_ends_when_the_function_is_there(run: Run) -> None:
    said, awaited = list[str](), Later()

    def by_turn(state: object, turn: Turn) -> None:
        while "needs" not in said:
            awaited.done = True
            turn.deadline.check()

    def by_run(state: object, turn: Turn) -> None:
        while "needs" not in said:
            turn.run.checkpoint()

    links = [Link("needs", 1.0, needs(awaited, said)), Link("turn", 1.0, by_turn), Link("run", 1.0, by_run)]
    follow(links, None, Turn(run, run.deadline))
    assert said == ["needs"] and run.recall is None
    awaited.done = False
    said.clear()
    links = [
        Link("needs", 1.0, needs(awaited, said)),
        Link("sets", 1.0, lambda state, turn: setattr(awaited, "done", 1)),
    ]
    follow([*links, Link("run", 1.0, by_run)], None, Turn(run, run.deadline))
    assert said == ["needs"] and run.recall is None


def test_it_waits_where_nothing_else_is_to_do_and_no_longer_than_its_time(run: Run) -> None:
    said, awaited = list[str](), Later()
    with pytest.raises(Stop):
        follow([Link("needs", 1.0, needs(awaited, said))], None, Turn(run, Deadline.after(0.05)))
    assert not said and run.recall is None


def test_a_chain_within_a_link_waits_by_itself(run: Run) -> None:
    said, outer, inner = list[str](), Later(), Later()

    def nested(state: object, turn: Turn) -> None:
        follow([Link("inner", 1.0, needs(inner, said))], state, turn)

    def first(state: object, turn: Turn) -> None:
        outer.done = True  # while the inner one is still to come

    links = [Link("outer", 1.0, needs(outer, said)), Link("first", 1.0, first), Link("nested", 1.0, nested)]
    inner.done = True
    follow(links, None, Turn(run, run.deadline))
    assert said == ["needs", "needs"] and run.delayed == ["outer"]


def test_lanes_wait_by_themselves(run: Run) -> None:
    said, awaited = list[str](), Later()

    def other(state: object, turn: Turn) -> None:
        time.sleep(0.05)
        awaited.done = True

    side_by_side(run, None, [[Link("needs", 1.0, needs(awaited, said))], [Link("other", 1.0, other)]])
    assert said == ["needs"] and run.delayed == ["needs"] and run.recall is None


def test_a_function_comes_compiled_from_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    heard: list[Compiling] = []
    demand = Demand("", heard.append)
    command = """
import numpy as np, sys, time
from chipmap.heuristics.ring.programs.triangle_kernel import fewest_after
from chipmap.kernels import Unready, elsewhere
from chipmap.process.demand import Demand
asked, one = 0, np.zeros(1, np.int64)
with elsewhere(Demand()):
    while True:
        try:
            print(asked, fewest_after(0, one, one, one) is None)
            break
        except Unready as missing:
            asked += 1
            while not missing.awaited.ready():
                time.sleep(0.01)
"""
    done = subprocess.run([sys.executable, "-c", command], env=os.environ, capture_output=True, text=True, timeout=120)
    asked, value = done.stdout.split()
    assert (asked, value) == ("1", "True"), done.stderr
    assert {path.name.split("-")[0] for path in tmp_path.rglob("*.nbc")} == {"triangle_kernel.fewest_after"}
    # whoever asks for what can't be found there compiles it himself
    gone = demand("chipmap.kernels.annealing", "no_such_function", ())
    assert gone is not None
    while not gone.ready():
        time.sleep(0.01)
    assert demand("chipmap.kernels.annealing", "no_such_function", ()) is None
    assert demand("chipmap.kernels", "outer.<locals>.inner", ()) is None
    assert heard[0] == ("", 0, 1, 0.0) and heard[-1] == ("", 0, 0, heard[-1].seconds)
    demand.close()
    assert demand("chipmap.kernels.annealing", "uniform", ()) is None


def test_a_solve_begins_at_once_and_says_what_was_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    heard: list[Compiling] = []
    result = chipmap.solve("ring/bert-large-36", "slice", time_limit=600, isolate=True, tell=heard.append)
    note = next(note for note in result.notes if note.kind == "compiled")
    assert note.data["functions"] >= 3 and "compiled meanwhile" in note.text
    assert heard[0] == ("ring", 0, 1, 0.0) and heard[-1].done == note.data["functions"]
    count = len(heard)
    again = chipmap.solve("ring/bert-large-36", "slice", time_limit=600, isolate=True, tell=heard.append)
    assert len(heard) == count and not any(note.kind == "compiled" for note in again.notes)
    assert again.objective == result.objective


@pytest.mark.parametrize("seed", [4, 9, 10])
def test_a_small_placement_is_proved_while_its_search_is_compiled(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = generate("placement-random", operations=8, seed=seed)
    monkeypatch.setattr(placement, "search", needs(Later(), []))
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    assert isinstance(instance, PlacementInstance)
    placement.auto(instance, run)
    assert run.delayed == ["search"] and run.gap == 0
    assert run.trace[-1].source == "cpsat"
