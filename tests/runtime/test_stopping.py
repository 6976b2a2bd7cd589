"""Whoever is stopped while functions are compiled ends at once; what is compiled is kept, and compiled once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

import chipmap
from chipmap import kernels
from chipmap.deadline import Deadline, Stop, Unready
from chipmap.family import get_family
from chipmap.instances.ring import RingInstance
from chipmap.kernels.once import LEDGER, LOCKS, Locks
from chipmap.process import supervisor
from chipmap.process.demand import Compiling, Demand
from chipmap.process.messages import Compiled
from chipmap.process.signals import Interrupts
from chipmap.run import Run, SolveOptions


class Later:
    """A function that is compiled when it has been asked about some times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def ready(self) -> bool:
        self.times -= 1
        return self.times <= 0


def kernel(awaited: Later) -> kernels.Kernel:
    """A kernel whose compiled twin isn't there until then."""

    def compiled(x: int) -> int:
        if awaited.times > 0:
            raise Unready(awaited)
        return x + 1

    made: kernels.Kernel = kernels.njit(lambda x: x + 1)
    made._compiled = compiled
    return made


def test_a_call_waits_for_its_function_where_there_is_no_hurry() -> None:
    with kernels.elsewhere(Demand(patient=True)):
        assert kernel(Later(3))(41) == 42
    with kernels.elsewhere(Demand()), pytest.raises(Unready):
        kernel(Later(3))(41)


def test_who_waits_ends_with_the_work_around_it() -> None:
    ended = Deadline(ended=lambda: "interrupted")
    with kernels.elsewhere(Demand(patient=True)), ended.heeded(), pytest.raises(Stop, match="interrupted"):
        kernel(Later(10**9))(41)


def test_a_solve_without_a_limit_hears_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the caller's process, from another thread: the function at hand isn't waited for."""
    code = """
import chipmap
from threading import Event
cancel, heard = Event(), []
def tell(now):
    heard.append(now)
    cancel.set()
result = chipmap.solve("ring/bert-large-36", "slice", isolate=False, cancel=cancel, tell=tell)
print(result.termination.limit, result.objective is not None, *heard[0], len(heard))
"""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted True ring 0 1 0.0 1\n", done.stderr


def test_a_broken_listener_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[Compiling] = []

    def broken(now: Compiling) -> None:
        heard.append(now)
        raise RuntimeError("of the listener")

    demand = Demand("ring", broken)
    gone = demand("chipmap.kernels.annealing", "no_such_function", ())
    assert gone is not None
    while not gone.ready():
        time.sleep(0.01)
    demand.close()
    assert len(heard) == 1 and "of the listener" in capsys.readouterr().err


def ledger(folder: Path) -> list[str]:
    """The names of the functions that were compiled there, one for each time."""
    lines = [line for path in folder.rglob(LEDGER) for line in path.read_text().splitlines()]
    return sorted(line.split("\t")[1] for line in lines)


def test_of_two_processes_one_compiles(tmp_path: Path) -> None:
    code = "import numpy, sys\nfrom chipmap.heuristics.ring.programs.triangle_kernel import fewest_after\n"
    code += "sys.stdin.read()\none = numpy.zeros(1, numpy.int64)\nprint(fewest_after(0, one, one, one) is None)"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command, pipe = [sys.executable, "-c", code], subprocess.PIPE
    both = [subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe) for _ in range(2)]
    for one in both:
        assert one.stdin is not None
        one.stdin.close()
        one.stdin = None
    values = {one.communicate(timeout=120)[0] for one in both}
    assert values == {"True\n"} and ledger(tmp_path) == ["fewest_after"]
    assert not list(tmp_path.rglob("*.lock"))


def test_who_waits_for_another_process_can_be_stopped(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    one, other = Locks(), Locks()
    one.hold(path)
    one.hold(path)
    with Deadline(ended=lambda: "interrupted").heeded(), pytest.raises(Stop):
        other.hold(path)
    one.release(path)
    other.hold(path)
    assert len(one) == 0 and len(other) == 1
    other.release(path)


def test_what_could_not_be_compiled_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.py").write_text(
        "from chipmap.kernels import njit\n@njit(cache=True)\ndef f(x):\n    return x.y\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import wrong  # type: ignore[import-not-found]

    with pytest.raises(Exception, match="y"):
        wrong.f(1)
    assert len(LOCKS) == 0


def test_a_stopped_compiler_keeps_the_function_at_hand(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    command = [sys.executable, "-m", "chipmap.process.compiling", "600", "ring/tiny-skip", "exact", str(marker)]
    child = subprocess.Popen(command, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)})
    while not ((held := [path.name for path in tmp_path.rglob("*.lock")]) and ledger(tmp_path)):  # not the first one
        assert child.poll() is None
        time.sleep(0.002)
    child.send_signal(signal.SIGTERM)
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=120) == 1 and not marker.exists()
    kept = ledger(tmp_path)
    assert kept and any(f".{kept[-1]}-" in name for name in [*held, *(p.name for p in tmp_path.rglob("*.nbi"))])


def test_a_cancelled_solve_compiles_nothing_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cancel, asked = Event(), list[Callable[[], bool]]()
    cancel.set()

    def warm(family: object, tell: object, stopped: Callable[[], bool]) -> float:
        asked.append(stopped)
        return 0.0

    monkeypatch.setattr(sys.modules["chipmap.solve"], "is_warm", lambda family: False)
    monkeypatch.setattr(sys.modules["chipmap.solve"], "warm", warm)
    result = chipmap.solve("ring/bert-large-36", "slice", time_limit=60, compile="first", cancel=cancel)
    assert asked and asked[0]() and result.termination.limit == "interrupted"


def test_what_was_compiled_is_said_though_the_child_was_stopped(instance: RingInstance) -> None:
    heard: list[Compiling] = []
    run, family = Run(instance, SolveOptions(time_limit=60.0), pytest.fail), get_family("ring")
    watch = supervisor._Watch(run, family, None, Interrupts(), heard.append)  # type: ignore[arg-type]
    watch.halted = True
    watch._take([Compiled("ring", 2, 2, 1.5), Compiled("ring", 3, 1, 2.0)])
    assert heard[-1] == ("ring", 3, 1, 2.0) and watch._died().limit == "interrupted"
    (note,) = (note for note in run.notes if note.kind == "compiled")
    assert note.data == {"functions": 3, "seconds": 2.0, "waited": []} and "3 functions" in note.text
