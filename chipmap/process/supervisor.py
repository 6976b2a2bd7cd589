"""The parent's side of a solve in a child process (:mod:`chipmap.process.worker`): hard limits, and nothing found is
lost.

The child starts while the parent makes the first mapping itself, so that there is a result however short the limit.
Every solution that the child reports is checked again here. The child is killed, with its process group, at the time
limit plus a grace; what it had reported stands.
"""

from __future__ import annotations

import math
import signal
import sys
import time
from functools import partial
from typing import BinaryIO

import msgspec

from chipmap.family import Family, Method, resolve
from chipmap.kernels import Unready
from chipmap.process.child import Child
from chipmap.process.conduct import (
    SHORT_OF_MEMORY,
    at_once,
    ended,
    first,
    guarded,
    note_compiled,
    plain,
    start_from_file,
    start_method,
)
from chipmap.process.demand import Compiling, Tell
from chipmap.process.memory import room
from chipmap.process.messages import Bounded, Compiled, Ended, Failed, Found, Halt, Job, Measured, Start, ToParent
from chipmap.process.signals import Interrupts
from chipmap.process.warming import warm
from chipmap.provenance import used_versions
from chipmap.records import InputError, SolverUnavailableError, counted
from chipmap.result import Termination
from chipmap.run import Run

#: Seconds past its limit that a child has to report and end before it is killed, and after Ctrl-C.
GRACE = 0.7
#: Seconds between looks at the clock.
TICK = 0.05


def supervise(
    run: Run, family: Family, chosen: Method, log: BinaryIO | None, tell: Tell
) -> tuple[Termination, dict[str, str]]:
    """Run ``chosen`` in a child; returns the termination and the versions of what the child used.

    Where a function must be compiled first, that is told and done, its seconds don't count, and a new child goes on
    from what is known. Raises :class:`InputError` and :class:`SolverUnavailableError` as the child reports them.
    """
    with Interrupts(guest=True) as interrupts:

        def stopped() -> bool:
            return interrupts.signal is not None or run.cancelled

        while True:
            child = Child("chipmap.process.worker", log=log)
            watch = _Watch(run, family, child, interrupts, tell)
            try:
                with plain(run.instance, family, run.ready):
                    return guarded(run, partial(watch.all, chosen)), watch.versions
            except Unready:
                child.kill()
                run.started += warm(family, tell, stopped)
                run.ready = True
            finally:
                child.kill()


class _Watch:
    """One supervised run: sends the job, listens until the child ends or must be killed, says how it ended."""

    def __init__(self, run: Run, family: Family, child: Child, interrupts: Interrupts, tell: Tell) -> None:
        self.run, self.family, self.child, self.interrupts, self.tell = run, family, child, interrupts, tell
        self.solution_type = resolve(family.solution)
        self.versions: dict[str, str] = {}
        self.halted, self.adopted = False, b""
        self.compiled: Compiled | None = None
        limit = run.options.time_limit
        self.kill_at = math.inf if limit is None else run.started + limit + GRACE

    def all(self, chosen: Method) -> Termination:
        """Start, watch, and conclude."""
        run = self.run
        options = msgspec.structs.replace(run.options, warm_start=None)
        instance = msgspec.Raw(msgspec.json.encode(run.instance))
        how = tuple(sys.path), run.ready
        self.child.send(Job(self.family.name, chosen.name, options, run.started, instance, *how))
        start_from_file(run, self.family)
        try:
            with room(run.options.memory_limit):
                at_once(run, self.family)
                first(run, self.family, chosen)
        except MemoryError:
            run.note("left out", "no start was made: the memory limit leaves too little for it")
        start = self._start(chosen)
        run.timings["start"] = round(run.seconds - run.timings.get("read", 0.0), 6)
        if run.closed:
            self.versions = used_versions()
            return run.terminate("gap")
        self.child.send(start)
        end = self._listen()
        return self._died() if end is None else self._conclude(end)

    def _start(self, chosen: Method) -> Start:
        """What the child starts from; a warm start that may take long is left to it."""
        run, best = self.run, self.run.best
        return Start(
            solution=msgspec.Raw(msgspec.json.encode(best.solution if best else None)),
            source=best.source if best else "",
            bounds=tuple(run.bounds),
            before=start_method(self.family, chosen, run.options.warm_start),
            certificate=best.certificate if best else None,
        )

    def _listen(self) -> Ended | Failed | None:
        """Take in what the child reports until its last word; None if it dies or must be killed without one."""
        while time.monotonic() < self.kill_at:
            if (self.interrupts.signal is not None or self.run.cancelled) and not self.halted:
                self.halted = self.run.interrupted = True
                self.child.send(Halt())
                self.kill_at = min(self.kill_at, time.monotonic() + GRACE)
            messages, closed = self.child.received(TICK)
            last = self._take(messages)
            if last is not None:
                return last
            if self.run.closed:
                self.kill_at = min(self.kill_at, time.monotonic() + GRACE)
            # the pipe may stay open when the child has ended: something that it started holds it
            if closed or self.child.process.poll() is not None:
                self.child.wait(0.3)
                break
        self.child.kill()
        messages, _ = self.child.received(0.0)
        return self._take(messages)

    def _take(self, messages: list[ToParent]) -> Ended | Failed | None:
        """Adopt solutions and bounds. Of several solutions at once the last valid one is enough: each improves on those
        before. But the trace of a deterministic run mustn't tell when they were read: there all count, in their order.
        """
        for message in messages:
            if isinstance(message, Measured) and self.run.evaluator is not None:
                self.run.evaluator.take(message.measurement)
            if isinstance(message, Compiled):
                self.compiled = message
                self.tell(Compiling(message.family, message.done, message.left, message.seconds))
        if not self.run.options.deterministic:
            for found in reversed([message for message in messages if isinstance(message, Found)]):
                if self._adopt(found):
                    break
        for message in messages:
            if isinstance(message, Bounded):
                self.run.bound(message.value, message.source, message.kind)
            elif isinstance(message, Found) and self.run.options.deterministic:
                self._adopt(message)
        return next((message for message in messages if isinstance(message, Ended | Failed)), None)

    def _adopt(self, found: Found) -> bool:
        if bytes(found.solution) == self.adopted:  # its last word repeats the best
            return True
        solution = self.solution_type.from_json(bytes(found.solution), "the child's solution")
        feasible = self.run.solution(solution, found.source, found.claimed, found.measured).feasible
        self.adopted = bytes(found.solution) if feasible else self.adopted
        return feasible

    def _conclude(self, end: Ended | Failed) -> Termination:
        """What the child says of its end, with all its bounds, notes and times; raises its usage errors."""
        run = self.run
        if isinstance(end, Failed):
            return self._failed(end)
        self.versions = end.versions
        run.oracle_report, run.evaluation, run.failure = end.oracle, end.evaluation, end.failure or run.failure
        run.timed = run.timed or end.timed
        run.notes.extend(end.notes)
        run.timings.update(end.timings)
        known = {(bound.value, bound.source) for bound in run.bounds}
        for bound in end.bounds:
            if (bound.value, bound.source) not in known:
                run.bound(bound.value, bound.source, bound.kind)
        if end.best is not None:
            self._adopt(end.best)
        if end.proved_infeasible:
            run.infeasible(*end.infeasibility)
        return end.termination

    def _failed(self, failed: Failed) -> Termination:
        if failed.kind == "InputError":
            raise InputError(failed.what, failed.where, failed.remedy)
        if failed.kind == "SolverUnavailableError":
            raise SolverUnavailableError(failed.message)
        if failed.kind == "Unready":
            raise Unready
        if failed.kind == "MemoryError" or any(word in failed.message for word in SHORT_OF_MEMORY):
            *_, last = failed.message.strip().splitlines() or ["out of memory"]  # libraries put advice before it
            return ended(self.run, "memory", last)
        return self._broken(f"the method failed: {failed.message}")

    def _died(self) -> Termination:
        """The child gave no last word: it was stopped by us, by the system, or crashed."""
        run = self.run
        if self.compiled is not None:
            note_compiled(run, self.compiled.done, self.compiled.seconds)
        if run.closed:
            return run.terminate("gap")
        if self.halted:
            return run.terminate("interrupted")
        if time.monotonic() >= self.kill_at:
            return run.terminate("time", "the child was stopped at the limit")
        status = self.child.process.returncode
        how = f"was killed by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        tail = self.child.tail.decode(errors="replace")
        short = run.options.memory_limit is not None or any(word in tail for word in SHORT_OF_MEMORY)
        if short or status == -signal.SIGKILL:
            run.failure = f"the child {how}, as happens when memory runs out"
            return ended(run, "memory", run.failure)
        if run.evaluator is not None:
            how += f", after {counted(len(run.evaluator.measurements), 'call')} of the evaluator {run.evaluator.name}"
        return self._broken(f"the child {how}")

    def _broken(self, detail: str) -> Termination:
        """A defect in the child: the status is an error only if nothing was found before."""
        self.run.failure = detail
        state = ended(self.run, "other", detail)
        return msgspec.structs.replace(state, reason="other_error") if self.run.best is None else state
