"""``chipmap.solve`` as a user's program calls it: its limits hold, and what the program does stays its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chipmap
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.process import supervisor
from chipmap.process.memory import room
from chipmap.records import InputError
from chipmap.result import TraceEvent
from chipmap.run import Run

ROOT = Path(__file__).parents[2]


def anything(instance: Any, solution: Any) -> bool:
    """An oracle that accepts all mappings."""
    return True


def ends(pid: int) -> bool:
    """Whether a process is gone (or a zombie), at once or within a while."""
    until = time.monotonic() + 20.0
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def child_of(pid: int) -> int:
    """The one child of a process, as soon as there is one."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found:
            return int(found[0])
        time.sleep(0.01)
    raise AssertionError("no child")


def test_a_limit_holds_against_a_method_that_is_deaf(instance: RingInstance) -> None:
    result = chipmap.solve(instance, "improve_then_hang", time_limit=1.5)
    assert (result.status, result.termination.limit) == ("feasible", "time")
    result = chipmap.bound(instance, "improve_then_hang", time_limit=1.5)
    assert (result.bound, result.termination.limit) == (1, "time")


def test_a_crash_is_survived(instance: RingInstance) -> None:
    result = chipmap.solve(instance, "crash", time_limit=30)
    assert (result.status, result.termination.limit) == ("feasible", "other")
    assert "signal 11" in result.failure


def test_memory_is_limited(instance: RingInstance) -> None:
    result = chipmap.solve(instance, "hog", memory_limit=2**30)
    assert (result.status, result.termination.limit) == ("feasible", "memory")


def no_child(*arguments: Any, **options: Any) -> None:
    raise AssertionError("a child was started")


@pytest.mark.parametrize(
    "how",
    [
        {"oracle": anything, "time_limit": 20},
        {"oracle": anything, "memory_limit": 2**32},
        {"isolate": False, "time_limit": 20},
        {},
    ],
    ids=["function", "memory", "asked for", "no limit"],
)
def test_what_cannot_be_sent_stays_in_this_process(
    instance: RingInstance, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "Child", no_child)
    result = chipmap.solve(instance, "improve", **how)
    assert result.solution is not None
    said = any("the memory limit holds in a process of its own alone" in note.text for note in result.notes)
    assert said == ("memory_limit" in how)


def test_options_are_data(instance: RingInstance) -> None:
    with pytest.raises(InputError, match="native: a function can't be part of a record"):
        chipmap.solve(instance, native={"callback": anything})
    with pytest.raises(InputError, match="native: holds what is no data"):
        chipmap.solve(instance, options=chipmap.SolveOptions(native={"callback": anything}))


def test_a_function_in_this_process_stops_at_the_limit(instance: RingInstance) -> None:
    result = chipmap.solve(instance, "wait", oracle=anything, time_limit=0.3)
    assert (result.status, result.termination.limit) == ("feasible", "time")


SCRIPT = """
import sys
import chipmap
print("begins")
result = chipmap.solve("ring/tiny-skip", time_limit=60, {more})
assert "chipmap.methods.ring.chain" not in sys.modules, "it was solved here"
print(result.status, result.value)
"""


@pytest.mark.parametrize("way", ["file", "standard input", "text"])
def test_a_script_without_a_main_guard_runs_once(way: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(more=""))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = {"file": ["script.py"], "standard input": ["-"], "text": ["-c", SCRIPT.format(more="")]}[way]
    stdin = SCRIPT.format(more="") if way == "standard input" else None
    command = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=env, input=stdin, capture_output=True, text=True, timeout=300)
    assert done.stdout.split() == ["begins", "optimal", "9.0"], done.stderr


def test_an_oracle_is_found_where_the_program_finds_it(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "program", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (folder / "mine.py").write_text("def few(instance, solution):\n    return max(solution.chips) < 1\n")
    (folder / "script.py").write_text(SCRIPT.format(more="oracle='mine:few'"))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(folder / "script.py")]
    done = subprocess.run(command, cwd=elsewhere, env=env, capture_output=True, text=True, timeout=300)
    all_on_one_chip = chipmap.check("ring/tiny-skip", RingSolution(chips=(0,) * 5)).objective
    assert all_on_one_chip is not None
    assert done.stdout.split() == ["begins", "optimal", str(all_on_one_chip / 1e5)], done.stderr


def test_threads_solve_side_by_side(instance: RingInstance) -> None:
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(chipmap.solve, instance, "improve", time_limit=60, memory_limit=2**32) for _ in range(3)]
        found = [one.result() for one in asked]
    assert [result.objective for result in found] == [500_000] * 3


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("way", ["listener", "event"])
def test_cancelling_keeps_what_was_found(instance: RingInstance, isolate: bool, way: str) -> None:
    cancel = threading.Event()

    def listener(event: TraceEvent, run: Run) -> None:
        if event.source == "block 2":
            if way == "listener":
                run.interrupted = True
            else:
                threading.Timer(0.1, cancel.set).start()

    options = chipmap.SolveOptions(time_limit=120, warm_start="none")
    result = chipmap.solve(instance, "wait", options, isolate=isolate, listener=listener, cancel=cancel)
    assert (result.status, result.objective, result.termination.limit) == ("feasible", 3_000_000, "interrupted")


WAITING = """
import signal, sys
# under nohup or in a shell's background, as these tests may run, they are ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path[:0] = {paths!r}
import misbehaving
misbehaving.install()
import chipmap
from chipmap.inputs.reading import read
{handler}
print("ready", flush=True)
result = chipmap.solve({instance!r}, "wait", time_limit=300)
print(result.termination.limit, flush=True)
"""


def waiting(instance_file: Path, handler: str = "") -> subprocess.Popen[str]:
    """A program in a solve that takes minutes."""
    paths = [str(Path(__file__).parent / "hooks"), str(ROOT)]
    text = WAITING.format(paths=paths, handler=handler, instance=str(instance_file))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen([sys.executable, "-c", text], env=env, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_end_ends_the_program_and_its_child(instance_file: Path, number: signal.Signals) -> None:
    process = waiting(instance_file)
    child = child_of(process.pid)
    process.send_signal(number)
    assert process.wait(60) == -number
    assert ends(child)


def test_the_programs_own_handlers_stay(instance_file: Path) -> None:
    handler = "signal.signal(signal.SIGINT, lambda number, frame: sys.exit(77))"
    process = waiting(instance_file, handler)
    child = child_of(process.pid)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 77
    assert ends(child)


def test_ctrl_c_keeps_what_was_found(instance_file: Path) -> None:
    process = waiting(instance_file)
    child_of(process.pid)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, "interrupted\n")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a stopped child wakes first")
def test_a_stopped_child_ends_with_its_parent(instance_file: Path) -> None:
    process = waiting(instance_file)
    child = child_of(process.pid)
    time.sleep(2.0)  # it has said by then that it wants to end with its parent
    os.kill(child, signal.SIGSTOP)
    process.kill()
    process.wait(60)
    assert ends(child)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is on address space")
def test_room_is_limited_and_given_back() -> None:
    with room(2**28), pytest.raises(MemoryError):
        np.ones(2**30, np.int8)
    with room(2**32), room(1):  # the first one counts
        assert np.ones(2**29, np.int8).all()
    assert np.ones(2**30, np.int8).all()


def test_a_start_without_memory_is_said(instance: RingInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(judged: Any, run: Run) -> None:
        np.ones(2**33, np.int8)

    monkeypatch.setattr("chipmap.methods.ring.first.greedy", greedy)
    result = chipmap.solve(instance, "improve", memory_limit=2**32)
    assert any("no start was made" in note.text for note in result.notes)
    assert result.objective == 500_000
