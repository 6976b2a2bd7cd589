"""One solve or explanation in a child process: ``python -m chipmap.process.worker``, JSON lines on standard input and
output.

The parent (:mod:`chipmap.process.supervisor`) sends a :class:`Job`, then a :class:`Start`, and may send a
:class:`Halt`; when its end of the pipe closes, the child ends. The child sends every improving solution
(:class:`Found`) and bound (:class:`Bounded`) as it comes, and at the end :class:`Ended` or :class:`Failed`. A
:class:`Question` (of :mod:`chipmap.explain`) is answered by what is being looked at (:class:`Looking`) and by
explanations (:class:`Told`). What solvers print goes to standard error.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from chipmap.process.memory import cap, collect_seldom
from chipmap.process.messages import (
    Bounded,
    Compiled,
    Ended,
    Failed,
    Job,
    Looking,
    Measured,
    Question,
    Start,
    Told,
    ToParent,
    found_of,
)
from chipmap.result import Termination, TraceEvent
from chipmap.run import Run

if TYPE_CHECKING:
    from chipmap.family import Family, Method
    from chipmap.records import Record

#: Standard error under a name: the parent keeps what is written there as ``solver.log``.
LOG = Path("/dev/fd/2")
#: Linux's number of the request for a signal at the parent's death.
_PR_SET_PDEATHSIG = 1


class Sender:
    """Writes messages as lines, one at a time (solvers call back from threads of their own)."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._lock = stream, threading.Lock()

    def __call__(self, message: ToParent) -> None:
        """Write a message."""
        with self._lock:
            self._stream.write(msgspec.json.encode(message) + b"\n")
            self._stream.flush()

    def improvement(self, event: TraceEvent, run: Run) -> None:
        """Pass on what the run has just logged."""
        if event.event == "solution" and run.best is not None:
            self(found_of(run.best))
        elif event.event == "bound" and run.lower is not None:
            self(Bounded(event.value, event.source, run.lower.kind))


def main() -> int:
    """Do the job on standard input; the exit code only says whether the protocol was kept."""
    end_with_parent()
    collect_seldom()
    send = Sender(own_stdout())
    lines = sys.stdin.buffer
    try:
        job: Job | Question = msgspec.json.decode(lines.readline(), type=Job | Question)
        cap(job.options.memory_limit)
        send(_solve(job, lines, send) if isinstance(job, Job) else _explain(job, lines, send))
    except BrokenPipeError:
        return 1
    except BaseException as error:
        send(_failed(error))
    return 0


def own_stdout() -> BinaryIO:
    """Standard output for the protocol alone; whatever else is written to it (C++ included) goes to standard error.

    Each line goes at once: this process ends without emptying buffers.
    """
    stream = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    return stream


def end_with_parent() -> None:
    """Have the system kill this process when its parent ends (on Linux), even if it is stopped or deaf by then.

    Elsewhere, and for a parent that has ended already, the closed pipe says so.
    """
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _solve(job: Job, lines: BinaryIO, send: Sender) -> Ended:
    """Import what the method needs while the parent makes the start, then run it."""
    from chipmap.evaluator import load_evaluator
    from chipmap.family import get_family, resolve
    from chipmap.oracle import load_oracle
    from chipmap.process.conduct import begin_with, checker, guarded, notes_of, patiently, plain, supplied, timed
    from chipmap.provenance import used_versions

    family = get_family(job.family)
    instance = resolve(family.instance).from_json(bytes(job.instance), "worker")
    chosen = family.method(job.method)
    _prepare(family, chosen, instance)
    sys.path += [folder for folder in job.path if folder not in sys.path]
    oracle = load_oracle(job.options.oracle, family)
    log_file = LOG if LOG.exists() else None
    run = Run(instance, job.options, checker(family, oracle), job.started, log_file=log_file, oracle=oracle)
    run.ready = job.ready
    if job.options.evaluator is not None:
        run.evaluator = load_evaluator(job.options.evaluator, job.options.evaluations)
        run.evaluator.hear = lambda measurement: send(Measured(measurement))
    start = msgspec.json.decode(lines.readline(), type=Start)
    threading.Thread(target=_heed, args=(lines, run), daemon=True).start()
    run.bounds.extend(start.bounds)

    if run.evaluator is None:
        _begin(run, family, start)
    run.listener = send.improvement

    def work() -> Termination:
        """The method that comes before, if there is one, then the chosen one."""
        if run.evaluator is not None:  # the first call; the parent hears what it says
            _begin(run, family, start)
            run.checkpoint()
        if start.before is not None:
            begin_with(run, start.before)
            run.checkpoint()
        return patiently(run, partial(timed, run, family, chosen))

    run.timings["child"] = round(run.seconds, 6)
    with plain(instance, family, run.ready), supplied(run, family, lambda now: send(Compiled(*now))):
        termination = guarded(run, work)
    return Ended(
        termination=termination,
        best=found_of(run.best) if run.best else None,
        bounds=tuple(run.bounds),
        infeasibility=tuple(run.infeasibility),
        proved_infeasible=run.proved_infeasible,
        notes=notes_of(run),
        timings=run.timings,
        versions=used_versions(),
        oracle=oracle.report() if oracle is not None else None,
        timed=run.timed,
        evaluation=run.evaluator.report(run.best.measured if run.best else None) if run.evaluator else None,
        failure=run.failure,
    )


def _prepare(family: Family, method: Method, instance: Record) -> None:
    """Import and build while the parent makes the start; a family's best method runs compiled functions."""
    from chipmap.family import resolve
    from chipmap.kernels import disabled

    resolve(method.function)
    with suppress(MemoryError):  # the method says so
        for made in family.prepare:
            resolve(made)(instance)
    if method.name == family.default_method and not family.is_small(instance) and not disabled():
        import_module("chipmap.kernels.compiled")


def _begin(run: Run, family: Family, start: Start) -> None:
    """Take over the parent's solution, with its certificate unless an oracle or an evaluator must judge it here."""
    from chipmap.family import resolve

    if bytes(start.solution) == b"null":
        return
    solution = resolve(family.solution).from_json(bytes(start.solution), "worker")
    if start.certificate is None or run.oracle is not None or run.evaluator is not None:
        run.solution(solution, start.source)
    else:
        run.checked(solution, start.certificate, start.source)


def _explain(job: Question, lines: BinaryIO, send: Sender) -> Told:
    """Explain within what is left of the time; a line whenever more is known."""
    from chipmap.family import get_family, resolve
    from chipmap.process.conduct import plain

    threading.Thread(target=_heed, args=(lines, None), daemon=True).start()
    family = get_family(job.family)
    instance = resolve(family.instance).from_json(bytes(job.instance), "worker")
    kind = resolve(family.solution)
    one, other = (
        None if bytes(raw) == b"null" else kind.from_json(bytes(raw), "worker") for raw in (job.solution, job.against)
    )
    explain, options = resolve(family.explain), job.options
    if options.time_limit is not None:
        left = max(1e-3, job.started + options.time_limit - time.monotonic())
        options = options.replace(time_limit=left)

    def told(explanation: Any, last: bool = False) -> Told:
        return Told(msgspec.Raw(msgspec.json.encode(explanation)), last)

    hear = (lambda step: send(Looking(step)), lambda so_far: send(told(so_far)))
    with plain(instance, family, job.ready):
        found = explain(instance, one, options, other, *hear, job.bounds)
    return told(found, last=True)


def _heed(lines: BinaryIO, run: Run | None) -> None:
    """Stop the run at the parent's word; end at once when the parent is gone, so that no child outlives it."""
    while lines.readline():
        if run is not None:
            run.interrupted = True
    os._exit(1)


def _failed(error: BaseException) -> Failed:
    """The error as a message; a defect's traceback goes to the log."""
    from chipmap.kernels import Unready
    from chipmap.records import ChipmapError, InputError

    if isinstance(error, Unready):
        return Failed("Unready", "a function has to be compiled")
    if isinstance(error, InputError):
        return Failed("InputError", str(error), error.what, error.where, error.remedy)
    if isinstance(error, ChipmapError):
        return Failed(type(error).__name__, str(error))
    if isinstance(error, MemoryError):
        return Failed("MemoryError", "out of memory")
    traceback.print_exception(error)
    return Failed("", f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    # no interpreter shutdown: it would wait for solvers' destructors and trip over the thread that reads
    os._exit(main())
