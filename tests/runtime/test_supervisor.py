"""A solve in a child process: nothing found is lost, whatever the child does."""

from __future__ import annotations

import io
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

import pytest

import chipmap
from chipmap.cli.common import exit_code
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.process import supervisor
from chipmap.records import InputError, SolverUnavailableError
from chipmap.result import Result, TraceEvent
from chipmap.run import Run, SolveOptions
from chipmap.validation.ring.checker import check

#: The period of the chain of conftest on k chips, in ticks.
MICROSECOND = 100_000


def isolated(instance: RingInstance, method: str, **options: Any) -> Result:
    options.setdefault("warm_start", "none")
    options.setdefault("time_limit", 30.0)
    return chipmap.solve(instance, method, SolveOptions.make(**options), isolate=True)


def certify(instance: RingInstance, result: Result) -> int:
    """The objective of the result's solution by the checker, which must accept it."""
    assert result.solution is not None
    certificate = check(instance, RingSolution.make(**result.solution))
    assert certificate.feasible
    assert certificate.objective == result.objective
    assert result.objective is not None
    return result.objective


def test_all_improvements_arrive(instance: RingInstance) -> None:
    result = isolated(instance, "improve")
    assert certify(instance, result) == 5 * MICROSECOND
    assert result.incumbent_source == "block 12"
    assert result.bound == 12
    assert len(result.bounds) == 12
    assert result.status == "feasible"
    assert result.termination.limit == "none"
    values = [event.value for event in result.trace if event.event == "solution"]
    assert values == sorted(values, reverse=True)
    assert values[-1] == 5 * MICROSECOND
    assert result.provenance["versions"]["msgspec"]


def test_in_process_and_isolated_agree(instance: RingInstance) -> None:
    options = SolveOptions(warm_start="none")
    here, there = (chipmap.solve(instance, "improve", options, isolate=isolate) for isolate in (False, True))
    for field in ("objective", "bound", "gap", "status", "solution", "certificate", "incumbent_source", "termination"):
        assert getattr(here, field) == getattr(there, field)


class Assassin(supervisor.Child):
    """A child that is killed at a seeded moment after its start."""

    delay = 0.0

    def __init__(self, module: str, *arguments: str, log: BinaryIO | None = None) -> None:
        super().__init__(module, *arguments, log=log)
        killer = threading.Timer(self.delay, self.process.send_signal, (signal.SIGKILL,))
        killer.daemon = True
        killer.start()


@pytest.mark.parametrize("seed", range(25))
def test_a_child_killed_at_any_moment_loses_nothing(
    instance: RingInstance, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "Child", Assassin)
    monkeypatch.setattr(Assassin, "delay", random.Random(seed).uniform(0.0, 0.5))
    heard: list[int] = []

    def listener(event: TraceEvent, run: Run) -> None:
        if event.event == "solution":
            heard.append(event.value)

    options = SolveOptions(time_limit=30.0)
    result = chipmap.solve(instance, "improve", options, isolate=True, listener=listener)
    assert heard, "the greedy start is made by the parent, so there is always a solution"
    assert certify(instance, result) == min(heard)
    assert result.status in ("feasible", "optimal")
    assert result.termination.limit in ("memory", "none")  # none: the method was done before
    assert bool(result.failure) == (result.termination.limit == "memory")


def test_a_hung_child_is_stopped_at_the_limit(instance: RingInstance) -> None:
    result = isolated(instance, "improve_then_hang", time_limit=1.5)
    assert certify(instance, result) == 20 * MICROSECOND
    assert result.bound == 1
    assert (result.status, result.termination.limit) == ("feasible", "time")


def test_a_one_second_limit_gives_the_greedy_solution(instance: RingInstance) -> None:
    result = isolated(instance, "improve_then_hang", time_limit=1.0, warm_start=None)
    certify(instance, result)
    assert any(event.source == "greedy" for event in result.trace)


def test_a_limit_too_short_for_the_child_gives_the_greedy_solution(instance: RingInstance) -> None:
    result = isolated(instance, "improve", time_limit=1e-3, warm_start=None)
    certify(instance, result)
    assert result.incumbent_source == "greedy"
    assert result.termination.limit == "time"


def test_no_child_outlives_its_solve(instance: RingInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[supervisor.Child] = []

    class Remembered(supervisor.Child):
        def __init__(self, module: str, *arguments: str, log: BinaryIO | None = None) -> None:
            super().__init__(module, *arguments, log=log)
            children.append(self)

    monkeypatch.setattr(supervisor, "Child", Remembered)
    for method in ("improve_then_hang", "vanish"):
        isolated(instance, method, time_limit=1.0)
    for child in children:
        assert child.process.returncode is not None
        with pytest.raises(ProcessLookupError):
            until = time.monotonic() + 5.0
            while time.monotonic() < until:  # the group's orphans are reaped by init
                os.killpg(child.process.pid, 0)
                time.sleep(0.01)


@pytest.mark.parametrize("method", ["crash", "vanish", "fail"])
def test_a_broken_child_keeps_its_solution(instance: RingInstance, method: str) -> None:
    result = isolated(instance, method)
    assert certify(instance, result) == 30 * MICROSECOND
    assert (result.status, result.termination.reason, result.termination.limit) == ("feasible", "feasible", "other")
    word = {"crash": "signal 11", "vanish": "status 0", "fail": "ZeroDivisionError"}[method]
    assert word in result.termination.detail
    assert word in result.failure
    assert exit_code(result) == 6


def test_noise_on_standard_output_goes_to_the_log(instance: RingInstance) -> None:
    log = io.BytesIO()
    result = chipmap.solve(instance, "noise", SolveOptions(warm_start="none"), isolate=True, log=log)
    assert certify(instance, result) == 20 * MICROSECOND
    assert result.termination.limit == "none"
    assert b"Coin0506I" in log.getvalue()
    assert b'{"type":"Ended"}' in log.getvalue()


def test_solver_logs_reach_the_log(instance: RingInstance) -> None:
    log = io.BytesIO()
    result = chipmap.solve(instance, "mip", SolveOptions(time_limit=60.0), isolate=True, log=log)
    assert result.status == "optimal"
    assert b"HiGHS" in log.getvalue()


def test_too_little_memory_for_the_solver_itself(instance: RingInstance) -> None:
    result = isolated(instance, "cpsat-cold", memory_limit=200 * 2**20, warm_start=None)
    certify(instance, result)
    assert result.termination.limit == "memory"


def test_memory_is_capped(instance: RingInstance) -> None:
    result = isolated(instance, "hog", memory_limit=2**30)
    assert certify(instance, result) == 30 * MICROSECOND
    assert (result.status, result.termination.limit) == ("feasible", "memory")


@pytest.mark.parametrize("isolate", [False, True])
def test_a_contradiction_is_an_error_and_both_are_kept(instance: RingInstance, isolate: bool) -> None:
    result = chipmap.solve(instance, "contradict", SolveOptions(warm_start="none"), isolate=isolate)
    assert certify(instance, result) == 20 * MICROSECOND
    assert result.status == "error"
    assert max(bound.value for bound in result.bounds) == 40 * MICROSECOND
    assert (result.bound, result.gap) == (None, None)
    assert "wrong" in result.termination.detail


def test_a_wrong_proof_of_infeasibility_is_an_error(instance: RingInstance) -> None:
    result = isolated(instance, "deny", warm_start=None)
    certify(instance, result)
    assert result.status == "error"
    assert result.infeasibility


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("method", ["deny_openly", "deny_without_reasons"])
def test_a_proof_of_infeasibility_against_a_solution_is_an_error(
    instance: RingInstance, method: str, isolate: bool
) -> None:
    result = chipmap.solve(instance, method, SolveOptions(warm_start="none", time_limit=30.0), isolate=isolate)
    certify(instance, result)
    assert (result.status, exit_code(result), result.failure) == ("error", 4, "")
    assert [reason.message for reason in result.infeasibility] == ["too much"] * (method == "deny_openly")
    assert "infeasibility" in result.termination.detail


def test_a_method_that_pretends_is_not_believed(instance: RingInstance) -> None:
    result = isolated(instance, "pretend")
    assert (result.status, result.solution, result.objective) == ("unknown", None, None)
    assert any("lie refused by the checker: C0" in note.text for note in result.notes)


def test_a_solution_that_only_the_child_accepts_is_refused(
    instance: RingInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strict(judged: Any, solution: Any) -> Any:
        return check(judged, RingSolution(chips=()))

    monkeypatch.setattr("chipmap.validation.ring.checker.check", strict)
    result = isolated(instance, "improve")
    assert result.solution is None
    assert any("refused by the checker" in note.text for note in result.notes)


def test_errors_of_the_child_are_raised_as_they_are(instance: RingInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = supervisor._Watch.__new__(supervisor._Watch)
    with pytest.raises(InputError, match="--solver: no such thing"):
        watch._failed(supervisor.Failed("InputError", "", "no such thing", "--solver", "Choose another."))
    with pytest.raises(SolverUnavailableError, match="no licence"):
        watch._failed(supervisor.Failed("SolverUnavailableError", "no licence"))


def test_warm_starts(instance: RingInstance, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(RingSolution(chips=tuple(v // 6 for v in range(60))).to_json())
    bad.write_bytes(RingSolution(chips=tuple(9 - v // 6 for v in range(60))).to_json())
    for isolate in (False, True):
        options = SolveOptions(warm_start=str(good), time_limit=1.0)
        result = chipmap.solve(instance, "wait", options, isolate=isolate)
        assert result.objective == 6 * MICROSECOND or result.incumbent_source == "greedy"
        assert any(event.source == "warm start" and event.value == 6 * MICROSECOND for event in result.trace)
        options = SolveOptions(warm_start=str(bad), time_limit=1.0)
        result = chipmap.solve(instance, "wait", options, isolate=isolate)
        assert not any(event.source == "warm start" for event in result.trace)
        assert any(note.text.startswith("the warm start bad.json is not used: C1") for note in result.notes)
    with pytest.raises(InputError, match="no warm start and no file is called 'nothing'"):
        chipmap.solve(instance, "wait", SolveOptions(warm_start="nothing"))


def test_a_deterministic_run_out_of_time_says_so(instance: RingInstance) -> None:
    result = isolated(instance, "wait", deterministic=True, time_limit=0.5)
    assert "not reproducible" in [note.kind for note in result.notes]
    assert result.provenance["reproducible"] is False
    assert isolated(instance, "improve", deterministic=True).provenance["reproducible"] is True
    for isolate in (True, False):
        options = SolveOptions(warm_start="none", time_limit=60.0, deterministic=True)
        result = chipmap.solve(instance, "share_used_up", options, isolate=isolate)
        assert result.provenance["reproducible"] is False


def test_a_deterministic_trace_has_all_improvements_in_their_order(instance: RingInstance) -> None:
    """However many of them the parent reads at once."""
    options = SolveOptions(warm_start="none", time_limit=60.0, deterministic=True)
    here, there = (chipmap.solve(instance, "at_one_blow", options, isolate=isolate) for isolate in (False, True))
    told, same = ([(one.source, one.value, one.incumbent, one.bound) for one in each.trace] for each in (here, there))
    assert told == same
    assert len(told) > 12


def test_provenance_names_no_place(instance: RingInstance, tmp_path: Path) -> None:
    start = tmp_path / "start.json"
    start.write_bytes(RingSolution(chips=(0,) * 60).to_json())
    result = isolated(instance, "improve", warm_start=str(start))
    text = result.to_json().decode()
    for private in (str(Path(__file__).parents[2]), os.uname().nodename, str(tmp_path)):
        assert private not in text
