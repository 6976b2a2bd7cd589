"""Passes of measuring: every operation of every program by turns, a reference kernel between, medians.

In a pass a program runs once to warm up and then up to :data:`RUNS` times, for about :data:`PASS_NS`. Each operation
is timed where it stands in the run, so that its weights come from where they come from in use: the same call again and
again would find them in the nearest cache. Subnormal numbers count as 0: trained networks have none, but untrained
ones fade to them, which some processors multiply a hundred times more slowly. What reading the clock takes is
subtracted. The pass's time is the median of the runs, the time of an operation the median of its passes. The repeat
error is how far the medians of every second pass are from those of the passes between: |a - b| / ((a + b) / 2). One
thread counts the processor time of its own, and puts all times at one speed of the processor (:mod:`.pace`); several
count time by the clock. On a GPU an operation's time is that of its kernels (:class:`GpuClock`), and whole passes are
timed twice: by the clock, and as a graph that is replayed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any, TypeVar

from chipmap.deadline import Deadline, Stop
from chipmap.measuring.pace import UNKNOWN, Pace, at_common, at_pace, common
from chipmap.measuring.programs import Program
from chipmap.records import InputError

RUNS, PASS_NS = 15, 10**9
T = TypeVar("T")

#: What the GPU waits for before a call, so that its launch is over.
AHEAD_NS = 200_000

#: Rows of the square product that is timed between programs.
REFERENCE = 384
#: Numbers whose doubling PyTorch divides among its threads.
SHARED = 1 << 20


@dataclass
class Operation:
    """What was measured of an operation: ns and pace of each pass (:mod:`.pace`), and its FLOP and bytes (() in a
    table of before)."""

    module: str
    kind: str
    samples: list[float] = field(default_factory=list)
    work: tuple[int | str, ...] = ()
    paces: list[float] = field(default_factory=list)

    def at(self, pace: float) -> list[float]:
        """ns of each pass at a common pace."""
        return at_common(self.samples, self.paces, pace)

    def ns(self, pace: float) -> float:
        """The median of the passes."""
        return median(self.at(pace))

    def repeat(self, pace: float) -> float | None:
        """The relative difference of the passes' two halves; None for one pass."""
        return repeat_error(self.at(pace))


@dataclass
class Measured:
    """A program's operations by name, and whole passes; ``replayed``: ns of those as a graph of the GPU."""

    operations: dict[str, Operation] = field(default_factory=dict)
    whole: Operation = field(default_factory=lambda: Operation("", ""))
    replayed: list[float] = field(default_factory=list)


def pace_of(found: Mapping[str, Measured]) -> float:
    """The common pace of all graphs: each pass of each counts once."""
    return common(
        pace for measured in found.values() for pace in {p for one in measured.operations.values() for p in one.paces}
    )


def repeat_error(samples: list[float]) -> float | None:
    """|a - b| / ((a + b) / 2) of the medians of every second sample and of those between.

    >>> repeat_error([100.0, 110.0, 100.0]), repeat_error([5.0])
    (0.09523809523809523, None)
    """
    if len(samples) < 2:
        return None
    a, b = median(samples[::2]), median(samples[1::2])
    return abs(a - b) / ((a + b) / 2) if a + b else 0.0


class Clock:
    """Times calls on ``threads`` threads of the processor."""

    device, rows = "cpu", REFERENCE
    pace: Pace | None = None

    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        with _flushed():  # other threads keep what holds where the first work for all of them begins
            torch.ones(SHARED).mul(2.0)
        self.now = time.thread_time_ns if threads == 1 else time.perf_counter_ns
        self.own = 0
        self.own = round(median(self.timed(_nothing)[0] for _ in range(999)))
        pace = Pace(self.timed)
        if threads == 1 and pace.told():
            self.pace = pace

    def timed(self, call: Callable[[], T]) -> tuple[int, T]:
        """Nanoseconds of a call, and what it returns."""
        began = self.now()
        found = call()
        return max(0, self.now() - began - self.own), found

    def often(self, call: Callable[[], Any]) -> tuple[float, float]:
        """The median of some calls in ns, and their pace; a first one warms up."""
        first, _ = self.timed(call)
        times, paces = list[float](), list[float]()
        for _ in range(_runs(first)):
            if self.pace:
                self.pace.take()
            times.append(self.timed(call)[0])
            if self.pace:
                self.pace.take()
            paces.append(self.pace.of_run() if self.pace else 1.0)
        ns, pace = at_pace(times, paces)
        return ns, pace if self.pace else UNKNOWN

    def replayed(self, _call: Callable[[], Any]) -> list[float]:
        """The ns of a call that is recorded as a graph and replayed: a processor has none."""
        return []


class GpuClock(Clock):
    """Times calls on a GPU, between two events of its stream.

    Before the first event the GPU waits for :data:`AHEAD_NS`, so that the processor has launched the call by the time
    that the GPU comes to it: what launching takes isn't counted, where it takes less than that. What two events without
    a call are apart is subtracted.
    """

    device, rows = "cuda", 16 * REFERENCE

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise InputError("sees no GPU: torch.cuda.is_available() is false", "--device cuda", "Measure on the cpu.")
        self.own = 0
        self._cycles = round(AHEAD_NS * 1e-6 * getattr(torch.cuda.get_device_properties(0), "clock_rate", 2_000_000))
        self.own = round(median(self.timed(_nothing)[0] for _ in range(99)))

    def timed(self, call: Callable[[], T]) -> tuple[int, T]:
        """Nanoseconds of a call on the GPU, and what it returns."""
        import torch

        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(self._cycles)
        began.record()
        found = call()
        ended.record()
        ended.synchronize()
        return max(0, round(1e6 * began.elapsed_time(ended)) - self.own), found

    def often(self, call: Callable[[], Any]) -> tuple[float, float]:
        """The median of some calls in ns by the clock, each waited for, launches included; they have no pace."""
        import torch

        times = []
        for _ in range(RUNS):
            torch.cuda.synchronize()
            began = time.perf_counter_ns()
            call()
            torch.cuda.synchronize()
            times.append(time.perf_counter_ns() - began)
        return float(median(times[1:])), UNKNOWN

    def replayed(self, call: Callable[[], Any]) -> list[float]:
        """The median of some replays in ns; nothing where a call can't be recorded, as one that waits for the GPU."""
        import torch

        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                call()
        except RuntimeError:
            return []
        return [float(median(self.timed(graph.replay)[0] for _ in range(RUNS)))]


def clock_of(device: str, threads: int) -> Clock:
    """The clock of a processor's threads (``cpu``), or of a GPU (``cuda``)."""
    return Clock(threads) if device == "cpu" else GpuClock()


def class_of(device: str) -> str:
    """The class of devices that times are of where none is named: "" for a processor, ``h100-80gb-hbm3`` for a GPU."""
    import torch

    if device == "cpu":
        return ""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else device
    return re.sub(r"[^a-z0-9]+", "-", name.lower().removeprefix("nvidia ")).strip("-")


def _nothing() -> None:
    """A call whose time is the clock's."""


def _runs(ns: int) -> int:
    """How many runs of so many nanoseconds a pass has."""
    return max(1, min(RUNS, PASS_NS // max(1, ns)))


def one_pass(
    programs: list[Program], found: dict[str, Measured], number: int, clock: Clock, until: Deadline
) -> Iterator[tuple[Program, float]]:
    """Time each operation once more that has ``number`` samples or fewer, program by program, until the time is over.

    Yields each program as it is done, with the ns of the reference kernel before it; a program without such operations
    is passed over. Of a pass that the time ends stays what was timed.
    """
    import torch

    square = torch.randn(clock.rows, clock.rows, device=clock.device)
    for program in programs:
        measured = found.setdefault(program.graph, Measured())
        known = measured.operations
        done = all(name in known and len(known[name].samples) > number for name in program.operations)
        if done or not until.keep_going():
            continue
        reference, _ = clock.often(partial(torch.mm, square, square))
        with torch.no_grad(), _flushed():
            for name, (ns, pace) in _pass_of(program, clock, until).items():
                operation = known.setdefault(name, Operation(*program.operations[name]))
                operation.work = program.works[name]
                if len(operation.samples) <= number:
                    operation.samples.append(ns)
                    operation.paces.append(pace)
            if until.keep_going():
                _whole(program, clock, measured)
        yield program, reference


@contextmanager
def _flushed() -> Iterator[None]:
    """Subnormal numbers are 0 on the processor, where it can do that; afterwards as by default.

    It holds for this thread, and for threads of PyTorch's that begin meanwhile."""
    import torch

    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _whole(program: Program, clock: Clock, measured: Measured) -> None:
    """Time whole passes. A program that changes its own state may fail when it runs again and again; that is noted."""
    try:
        call = program.whole()
        ns, pace = clock.often(call)
        measured.whole.samples.append(ns)
        measured.whole.paces.append(pace)
        measured.replayed += clock.replayed(call)
    except Exception as error:  # what the program's operators raise
        program.notes.append(f"whole passes aren't timed, as one fails: {type(error).__name__}")


def _pass_of(program: Program, clock: Clock, until: Deadline) -> dict[str, tuple[float, float]]:
    """The time and pace of each operation in one pass. If the time ends it: of those timed after the warm-up."""
    timed: dict[str, list[int]] = {name: [] for name in program.operations}
    paces = list[float]()

    def timer(name: str, call: Callable[[], T]) -> T:
        until.check()
        ns, value = clock.timed(call)
        timed[name].append(ns)
        if clock.pace:
            clock.pace.passed(ns)
        return value

    def run() -> None:
        try:
            program.run(timer)
        finally:
            paces.append(clock.pace.of_run() if clock.pace else 1.0)

    try:
        run()
        first = sum(lasted[0] for lasted in timed.values() if lasted)
        for _ in range(_runs(first)):
            run()
    except Stop:
        pass
    found = {name: at_pace(lasted[1:], paces[1 : len(lasted)]) for name, lasted in timed.items() if len(lasted) > 1}
    return found if clock.pace else {name: (ns, UNKNOWN) for name, (ns, _) in found.items()}
