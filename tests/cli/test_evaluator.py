"""``--evaluator``: by name, limited, killed, crashing; what is said of it; methods and families that take none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import chipmap as api
from chipmap.family import FAMILY_NAMES, get_family
from tests.cli.conftest import Command

MODULE = """
import os
import time

VERSION = "4"
calls = 0


def cost(instance, solution):
    with open(__file__ + ".calls", "a") as file:
        file.write("x")
    work = [0.0] * instance.package.chips
    for operation, chip in zip(instance.graph.operations, solution.chips):
        work[chip] += operation.flop / 1e6 * (3 if operation.name == "d" else 1)
    return max(work)


def licence(instance, solution):
    raise RuntimeError("no licence")


def nothing(instance, solution):
    return float("nan")


def crash(instance, solution):
    global calls
    calls += 1
    if calls == 3:
        os.abort()
    return cost(instance, solution)


def hang(instance, solution):
    global calls
    calls += 1
    if calls == 3:
        time.sleep(600)
    return cost(instance, solution)
"""
INSTANCE = "ring/tiny-diamond"
#: Families by an instance; none but ring has methods that take an evaluator.
OTHERS = {
    "dataflow": "dataflow/tiny-chain",
    "wafer": "wafer/tiny-adapters",
    "multimodel": "multimodel/tiny-two",
    "placement": "placement/tiny-pair",
}


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of the user's in the current folder."""
    path = tmp_path / "my_simulator.py"
    path.write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return path


def test_solve_counts_every_call(chipmap: Command, module: Path, tmp_path: Path) -> None:
    """Calls in the result are those that were made: the parent makes none beside the child's."""
    out = tmp_path / "run"
    arguments = ("--evaluator", "my_simulator:cost", "--evaluations", 5, "--out", out, "--format", "json")
    done = chipmap("solve", INSTANCE, *arguments, "--time-limit", 300)
    assert done.code == 0 and done.json["status"] == "feasible" and done.json["gap"] is None
    told = api.load(out).result.evaluation
    assert told is not None and (told.evaluator, told.version) == ("my_simulator:cost", "4")
    assert told.calls == len(Path(f"{module}.calls").read_text()) == 5
    assert done.json["measured"] == told.cost == min(one.cost for one in told.measurements if one.cost is not None)
    assert "the bound holds for the analytic cost alone" in done.err
    assert done.json["figures"]["limit"] == "iteration" and done.json["best_known"] is None
    shown = chipmap("solve", INSTANCE, *arguments[:4], "--quiet")
    assert "measured" in shown.out and f"{told.cost:g}" in shown.out


def test_what_is_no_cost_ends_the_run_in_words(chipmap: Command, module: Path) -> None:
    for name, words in (("licence", "raised RuntimeError: no licence"), ("nothing", "returned nan")):
        done = chipmap("solve", INSTANCE, "--evaluator", f"my_simulator:{name}", "--quiet", "--format", "json")
        assert done.code == 6 and words in done.err and "Traceback" not in done.err
        assert done.json["feasible"] and done.json["measured"] is None and words in done.json["failure"]


def test_a_crash_keeps_what_was_measured(module: Path) -> None:
    result = api.solve(INSTANCE, evaluator="my_simulator:crash", time_limit=300)
    assert "signal 6, after 2 calls of the evaluator my_simulator:crash" in result.failure
    told = result.evaluation
    assert told is not None and told.calls == 2 and result.status == "feasible"
    assert told.cost == min(one.cost for one in told.measurements if one.cost is not None)


def test_a_call_that_hangs_is_cut_off(module: Path) -> None:
    """The limit ends it, however long; what was measured before stands. Compiled functions don't count."""
    result = api.solve(INSTANCE, evaluator="my_simulator:hang", time_limit=8)
    told = result.evaluation
    assert told is not None and told.calls == 2 == len(Path(f"{module}.calls").read_text())
    assert (result.status, result.termination.limit, result.failure) == ("feasible", "time", "")
    assert told.cost == min(one.cost for one in told.measurements if one.cost is not None)


def test_bad_names(chipmap: Command, module: Path) -> None:
    for name in ("nothing", "no_such_module:f", "my_simulator:nobody", "my_simulator:VERSION"):
        done = chipmap("solve", INSTANCE, "--evaluator", name, "--quiet")
        assert done.code == 1 and "--evaluator" in done.err and "Traceback" not in done.err
    done = chipmap("solve", INSTANCE, "--evaluator", "my_simulator:cost", "--evaluations", 0)
    assert done.code == 1 and "--evaluations" in done.err


def anything(instance: object, solution: object) -> float:
    """All mappings cost the same."""
    return 1.0


def test_only_ring_takes_one() -> None:
    taking = {name for name in FAMILY_NAMES if any(method.measured for method in get_family(name).methods)}
    assert taking == {"ring"} and set(OTHERS) == set(FAMILY_NAMES) - taking


@pytest.mark.parametrize("name", OTHERS)
def test_a_family_without_such_a_method_refuses_it(chipmap: Command, name: str) -> None:
    done = chipmap("solve", OTHERS[name], "--evaluator", "tests.cli.test_evaluator:anything")
    assert done.code == 1 and f"no method of family '{name}' takes an evaluator" in done.err


def test_who_does_not_use_one_refuses_it(chipmap: Command) -> None:
    done = chipmap("solve", INSTANCE, "--method", "ring/auto", "--evaluator", "tests.cli.test_evaluator:anything")
    assert done.code == 1 and "'ring/auto' takes no evaluator" in done.err
    assert "ring/guided, ring/random, ring/annealing" in done.err
    done = chipmap("solve", INSTANCE, "--evaluations", 3)
    assert done.code == 1 and "--evaluations" in done.err and "--evaluator" in done.err
    options = api.SolveOptions(evaluator="tests.cli.test_evaluator:anything")
    with pytest.raises(api.InputError, match="'ring/bounds' takes no evaluator"):
        api.bound(INSTANCE, options=options)
    with pytest.raises(api.InputError, match="an explanation asks no evaluator"):
        api.explain(INSTANCE, options=options)
    with pytest.raises(api.InputError, match="evaluator: is a function"):
        api.solve(INSTANCE, evaluator=anything, isolate=True)


def test_a_function_stays_in_this_process() -> None:
    seen: list[Any] = []
    result = api.solve(INSTANCE, evaluator=lambda i, s: seen.append(os.getpid()) or 1.0, evaluations=3, time_limit=60)  # type: ignore[func-returns-value]
    assert set(seen) == {os.getpid()} and result.evaluation is not None and result.evaluation.calls == len(seen) <= 3
