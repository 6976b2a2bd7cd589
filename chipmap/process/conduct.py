"""How a run is conducted, in this process or in a child: its checker, its warm start, and how an end loses nothing."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from chipmap.certificate import Certificate
from chipmap.deadline import Deadline, Stop
from chipmap.evaluator import EvaluatorError
from chipmap.evaluator import note as evaluator_note
from chipmap.family import Family, Method, resolve
from chipmap.inputs.solutions import read_solution
from chipmap.kernels import TROUBLE, Unready, elsewhere, plainly, uncompiled
from chipmap.oracle import Oracle, OracleError
from chipmap.process.demand import Demand, Tell
from chipmap.process.doubt import doubted
from chipmap.process.warming import warm
from chipmap.records import (
    ChipmapError,
    ContradictionError,
    InputError,
    Record,
    SolverUnavailableError,
    choices,
    counted,
)
from chipmap.result import Limit, Note, Termination
from chipmap.run import Run, SolveOptions


def checker(family: Family, oracle: Oracle | None) -> Callable[[Any, Any], Certificate]:
    """The family's independent checker, which asks ``oracle`` if there is one."""
    function: Callable[..., Certificate] = resolve(family.check)
    return function if oracle is None else partial(function, oracle=oracle)


def by_default(options: SolveOptions, *functions: object) -> bool:
    """Whether a solve goes to a child unless the caller says: it has a limit that only a child is sure to keep, and the
    user's functions (oracle, evaluator), if there are any, have names that a child can import."""
    named = all(one is None or (isinstance(one, str) and not one.startswith("__main__:")) for one in functions)
    limited = options.time_limit is not None or options.memory_limit is not None
    return limited and named and bool(sys.executable)


#: The share of the time that is left which a warm start has.
START = 0.3
#: What is said (by C++, Python, the system's loader) when memory runs out.
SHORT_OF_MEMORY = (
    *("bad_alloc", "MemoryError", "out of memory"),
    *("Cannot allocate memory", "failed to map segment", "can't start new thread"),
)

#: A method's package that isn't installed with chipmap -> the extra that brings it.
EXTRAS = {"cvxpy": "relaxation"}


def guarded(run: Run, work: Callable[[], Termination]) -> Termination:
    """What ``work`` ends with; a stop, an interrupt, lack of memory or a contradiction ends it but loses nothing.

    Nor does a defect, where a solution is known: it is the run's failure. Without one it is raised, and so is what the
    user can act on, and what a listener raises.
    """
    try:
        return work()
    except Stop as stop:
        return run.terminate("none" if stop.limit == "ready" else stop.limit)
    except KeyboardInterrupt:
        run.interrupted = True
        return run.terminate("interrupted")
    except MemoryError as error:
        run.note("stopped", "out of memory")
        return ended(run, "memory", str(error) or "out of memory")
    except EvaluatorError as error:
        run.failure = str(error)
        return ended(run, "other", str(error))
    except OracleError as error:
        return ended(run, "other", str(error))
    except ContradictionError as error:
        return Termination(reason="other_error", detail=str(error))
    except ChipmapError:
        raise
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        raise lacks(error.name) from None
    except Exception as error:
        if run.best is None or error is run.foreign:
            raise
        said = f"{type(error).__name__}: {error}"
        if any(word in said for word in SHORT_OF_MEMORY):
            return ended(run, "memory", said)
        traceback.print_exception(error)
        run.failure = f"the method failed: {said}"
        return ended(run, "other", run.failure)
    finally:
        run.settle()


def lacks(package: str) -> SolverUnavailableError:
    """The error that names the extra which brings a package."""
    remedy = f'Install it: pip install "chipmap[{EXTRAS[package]}]"'
    return SolverUnavailableError(f"this method needs {package}, which is not installed\n  {remedy}")


def ended(run: Run, limit: Limit, detail: str) -> Termination:
    """The termination of a run that something outside its method ended."""
    state = run.terminate()
    return Termination(reason=state.reason, limit=limit, detail=detail) if state.reason != "optimal" else state


def plain(instance: Record, family: Family, ready: bool) -> AbstractContextManager[None]:
    """Within it, kernels run as plain Python if the instance is small; :class:`Unready` where that takes long, unless
    ``ready``."""
    return plainly(family.is_small(instance), ready)


def at_once(run: Run, family: Family) -> None:
    """What the family knows of an instance at next to no cost. Raises :class:`Stop` where that is the end.

    A passed time limit isn't: a first mapping is made however short it is.
    """
    if family.at_once:
        with uncompiled():
            resolve(family.at_once)(run.instance, run)
        if run.closed or run.cancelled:
            run.checkpoint()


def first(run: Run, family: Family, chosen: Method) -> None:
    """Have the family's first mappings made, by plain code: what is returned whatever becomes of ``chosen``.

    Not where one is known, where the user wants none, and for baselines, whose figures are to be their own.
    """
    named = run.options.warm_start in family.warm_starts  # a baseline from a start that the user names
    unwanted = run.options.warm_start == "none" or (chosen.alone and not named)
    if not family.first or unwanted or run.best is not None or family.first == chosen.function:
        return
    with uncompiled(), suppress(Stop):
        resolve(family.first)(run.instance, run)


def start_method(family: Family, chosen: Method, wanted: str | None) -> str | None:
    """The function of the warm start to run before ``chosen``: ``wanted``, or the family's greedy start.

    None for ``none``, for a file, and when the method is that start itself, or :func:`first` makes it.
    """
    name = "greedy" if wanted is None else wanted
    spec = family.warm_starts.get(name)
    return None if spec in (chosen.function, family.first) else spec


def start_from_file(run: Run, family: Family) -> None:
    """Have the solution file that ``--warm-start`` names judged; it starts the run only if the checker accepts it."""
    wanted = run.options.warm_start
    if wanted is None or wanted == "none" or wanted in family.warm_starts:
        return
    if not Path(wanted).exists():
        what = f"no warm start and no file is called {wanted!r}"
        raise InputError(what, "--warm-start", choices(wanted, [*family.warm_starts, "none"]))
    hint = resolve("chipmap.inputs.pinning:hinted")(wanted, run.instance)
    if hint is not None:
        _start_from_hint(run, family, Path(wanted).name, hint)
        return
    start = read_solution(wanted, family, run.instance)
    if start.remark:
        run.note("plan", f"the warm start {Path(wanted).name} is {start.remark}")
    certificate = run.solution(start, "warm start")
    if not certificate.feasible:
        run.note("unused start", f"the warm start {Path(wanted).name} is not used: {_refusal(certificate)}")
        run.rejected.pop()


def _start_from_hint(run: Run, family: Family, name: str, hint: Any) -> None:
    """Complete a start that a file says in part, by the plain code of first mappings, which is told."""
    said = f"the warm start {name} says {hint.covered}"
    inner = run.inner(hint.pinned)
    if family.first:
        with uncompiled(), suppress(Stop):
            resolve(family.first)(hint.pinned, inner)
    if inner.best is None:
        run.note("unused start", f"{said}: it is not used, as plain code finds no mapping that keeps to it")
        return
    found = inner.best.solution
    run.solution(found if hint.finish is None else hint.finish(found), "warm start")
    run.note("plan", f"{said}: the cheapest way completed it, and nothing of it binds (--pin binds)")


def notes_of(run: Run) -> tuple[Note, ...]:
    """The run's notes, and a word about each source whose solutions the checker refused."""
    refused: dict[str, list[Certificate]] = {}
    for source, certificate in run.rejected:
        refused.setdefault(source, []).append(certificate)
    if run.oracle is not None and not any(note.kind == "oracle" for note in run.notes):
        run.note("oracle", run.oracle.note(), **run.oracle.report())
    if run.evaluation is not None and not any(note.kind == "evaluator" for note in run.notes):
        run.note("evaluator", evaluator_note(run.evaluation))
    for trouble in TROUBLE:
        run.note("cache", f"compiled functions: {trouble}")
    for source, all_ in refused.items():
        words = f"{len(all_)} of {source} refused by the checker: {_refusal(all_[0])}"
        run.note("refused", words, source=source, count=len(all_))
    return tuple(run.notes)


def unused_options(run: Run) -> None:
    """Say of options for solvers that they changed nothing, as no solver took them."""
    options = run.options
    for name, value in (("solver", options.solver), ("native", ", ".join(options.native))):
        if value and name not in run.used:
            run.note("unused option", f"the option {name} ({value}) was not used: no model was solved with it")


def _refusal(certificate: Certificate) -> str:
    if not certificate.violations:
        return "no objective"
    first, more = certificate.violations[0], len(certificate.violations) - 1
    return f"{first.label} {first.message}" + (f" (and {more} more)" if more else "")


@contextmanager
def supplied(run: Run, family: Family, tell: Tell) -> Iterator[None]:
    """Within it, functions that aren't compiled yet are compiled by another process, of which ``tell`` hears; the run
    says what was. Where they are compiled first, or there is no hurry, a call waits for its function."""
    demand = Demand(family.name, tell, patient=run.options.compiles_first or run.options.time_limit is None)
    try:
        with elsewhere(demand), run.deadline.heeded():
            yield
    finally:
        demand.close()
        note_compiled(run, demand.functions, demand.seconds)


def note_compiled(run: Run, functions: int, seconds: float) -> None:
    """Say what was compiled during a run, and which links waited for it."""
    if (functions or run.delayed) and not run.options.deterministic:
        words = f"{counted(functions, 'function')} compiled meanwhile, in {seconds:.1f} CPU seconds"
        waited = f"; what waited for them: {', '.join(run.delayed)}" if run.delayed else ""
        run.note("compiled", words + waited, functions=functions, seconds=round(seconds, 3), waited=run.delayed)


def in_process(run: Run, family: Family, chosen: Method, tell: Tell) -> Termination:
    """A start from a file, what is known at once, the warm start, then the method, in this process."""
    try:
        with plain(run.instance, family, run.ready), supplied(run, family, tell):
            return _in_process(run, family, chosen)
    except Unready:  # what is compiled first doesn't count
        run.started += warm(family, tell, lambda: run.cancelled)
        run.ready = True
        return in_process(run, family, chosen, tell)


def _in_process(run: Run, family: Family, chosen: Method) -> Termination:
    with Deadline().heeded():  # what is returned in any case, however short the time
        start_from_file(run, family)
        at_once(run, family)
        first(run, family, chosen)
    before = start_method(family, chosen, run.options.warm_start)
    if before is not None:
        begin_with(run, before)
    run.timings["start"] = round(run.seconds - run.timings.get("read", 0.0), 6)
    run.checkpoint()
    return patiently(run, partial(timed, run, family, chosen))


def begin_with(run: Run, start: str) -> None:
    """Make the warm start whose function this is, within :data:`START` of the time that is left if the clock counts."""
    outer = run.outer
    if run.clocked:
        run.outer = replace(outer, until=min(outer.until, run.deadline.share(START).until))
    try:
        with suppress(Stop):  # the run's own end is told to what follows
            patiently(run, partial(resolve(start), run.instance, run))
    finally:
        run.outer = outer


def patiently(run: Run, work: Callable[[], Termination]) -> Termination:
    """What ``work`` ends with; where it needs a function that another process compiles, it begins anew with that."""
    while True:
        try:
            return work()
        except Unready as missing:
            if missing.awaited is None:
                raise
            run.deadline.wait(missing.awaited)


def timed(run: Run, family: Family, chosen: Method) -> Termination:
    """What the method ends with, once its proof has stood up to :func:`~chipmap.process.doubt.doubted`; its seconds go
    to the timings."""
    began = run.seconds
    try:
        return resolve(chosen.function)(run.instance, run)
    finally:
        run.timings["method"] = round(run.seconds - began, 6)
        unused_options(run)
        doubted(run, family, chosen)
