"""Doubt: before a proof is said that no certificate checks, the family's quick methods try to contradict it.

A solution is checked, but "there is none", or "none is better", is a solver's word. So when a method ends with a proof
of infeasibility, or with an optimum after it has asked a solver, :attr:`chipmap.family.Family.attempts` look for a
solution, each in a run of its own and all for a moment. One that the checker accepts contradicts the proof
(:class:`~chipmap.records.ContradictionError`): the solution stays, and the run is an error.

A bound that is too high, though no quick method finds better than the solver's own solution, can't be found out so.
"""

from __future__ import annotations

import time

from chipmap.deadline import Deadline, Stop
from chipmap.family import Family, Method, resolve
from chipmap.kernels import Unready
from chipmap.process.warming import is_warm
from chipmap.records import ChipmapError
from chipmap.run import Run

#: Seconds of the processor for all attempts at most, and the share of the time that a method took which they may take
#: to contradict an optimum, but at least so many seconds (loading a kernel takes some tenths).
MOST, SHARE, LEAST = 2.0, 0.1, 0.5
#: How much longer they may take by the clock, on a busy machine.
BUSY = 5.0


def doubted(run: Run, family: Family, chosen: Method) -> None:
    """Let the family's attempts contradict what a method has proved.

    Raises :class:`~chipmap.records.ContradictionError` if one does.
    """
    seconds = _seconds(run)
    starts_itself = chosen.name == family.default_method and not run.proved_infeasible
    if not seconds or starts_itself or run.cancelled or (not family.is_small(run.instance) and not is_warm(family)):
        return
    spent = time.thread_time() + seconds
    deadline = Deadline(
        time.monotonic() + min(BUSY * seconds, run.remaining), lambda: "time" if time.thread_time() > spent else None
    )
    for name in family.attempts:
        own = f"{family.name}/{name}" == chosen.name
        if not own and deadline.keep_going() and _agrees(run, family.method(name), deadline):
            return


def _seconds(run: Run) -> float:
    """How long the attempts may take; 0 where there is nothing to doubt."""
    if run.evaluator is not None:
        return 0.0
    if run.proved_infeasible:
        return MOST if run.best is None else 0.0
    return min(MOST, max(LEAST, SHARE * run.seconds)) if run.gap == 0.0 and "native" in run.used else 0.0


def _agrees(run: Run, method: Method, deadline: Deadline) -> bool:
    """Whether an attempt proves by itself that there is nothing better; what it finds is told."""
    options = run.options.replace(
        time_limit=deadline.seconds, warm_start=None, native={}, solver=None, memory_limit=None
    )
    tried = Run(run.instance, options, run.check, oracle=run.oracle, cancel=run.cancel, ready=run.ready, outer=deadline)
    try:
        resolve(method.function)(run.instance, tried)
    except (Stop, Unready, ChipmapError):
        pass
    except Exception as error:
        run.note(
            "left out", f"{method.name}, which was to contradict the proof, failed: {type(error).__name__}: {error}"
        )
    if tried.best is not None and (run.best is None or tried.best.objective < run.best.objective):
        run.solution(tried.best.solution, tried.best.source, tried.best.claimed)
    return tried.proved_infeasible if run.best is None else tried.gap == 0.0
