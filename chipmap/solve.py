"""The way of a solve: read, warm start, method, check, Result; and the Python API's verbs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from chipmap.family import Family, Method, family_of, resolve
from chipmap.oracle import Oracle, OracleError, load_oracle
from chipmap.provenance import provenance, used_versions
from chipmap.reading import checked, read, read_solution
from chipmap.records import ContradictionError, InputError, Record
from chipmap.result import Limit, Result, Status, Termination, TraceEvent, gap, solution_json
from chipmap.run import Run, SolveOptions, Stop, contradict
from chipmap.validation.certificate import Certificate

#: Hears every improvement of a run: the event, and the run as it stands then.
Listener = Callable[[TraceEvent, Run], None]


def solve(
    instance: Record | str | Path,
    method: str | None = None,
    options: SolveOptions | None = None,
    isolate: bool = False,
    listener: Listener | None = None,
    started: float | None = None,
    log: BinaryIO | None = None,
    oracle: str | Callable[[Any, Any], Any] | None = None,
) -> Result:
    """Solve ``instance`` (a record, a file, a shipped name) by the named method, the family's best chain by default.

    With ``isolate`` the method runs in a child process with hard limits on time and memory (its log goes to ``log``);
    else in this process, where a solver that ignores its limit can't be stopped. The time limit counts from
    ``started`` (:func:`time.monotonic`), now by default. What was found before a limit, an interrupt or a crash is
    kept. ``oracle`` is the user's constraint C5 (:mod:`chipmap.oracle`): a function (instance, solution) -> bool or
    Verdict, or its name ``"module:function"`` (with ``isolate``: its name). Raises :class:`InputError` for bad input,
    :class:`SolverUnavailableError` for a missing solver.
    """
    started = time.monotonic() if started is None else started
    options = options or SolveOptions()
    if isinstance(oracle, str):
        options = options.replace(oracle=oracle)
    elif oracle is not None and isolate:
        raise InputError("is a function", "oracle", "With isolate=True give its name, 'module:function'.")
    options.check()
    asked = load_oracle(oracle or options.oracle)
    instance = checked(instance, type(instance).__name__) if isinstance(instance, Record) else read(instance)
    family = family_of(instance)
    chosen = family.method(method)
    run = Run(instance, options, checker(family, asked), started, listener, oracle=asked)
    run.timings["read"] = round(run.seconds, 6)
    if isolate:
        from chipmap.supervisor import supervise

        termination, versions = supervise(run, family, chosen, log)
    else:
        termination = guarded(run, lambda: _in_process(run, family, chosen))
        versions = used_versions()
    return result_of(run, family, chosen, termination, versions)


def checker(family: Family, oracle: Oracle | None) -> Callable[[Any, Any], Certificate]:
    """The family's independent checker, which asks ``oracle`` for C5 if there is one.

    Raises :class:`InputError` for an oracle where the family has no C5.
    """
    if oracle is not None and "C5" not in family.constraints:
        raise InputError(f"family {family.name!r} has no constraint C5", "oracle", "Leave the oracle out.")
    function: Callable[..., Certificate] = resolve(family.check)
    return function if oracle is None else partial(function, oracle=oracle)


def check(
    instance: Record | str | Path,
    solution: Record | str | Path,
    oracle: str | Callable[[Any, Any], Any] | None = None,
) -> Certificate:
    """The independent checker's certificate of anybody's solution; of C5 too, with an ``oracle`` (as in ``solve``)."""
    if not isinstance(instance, Record):
        instance = read(instance)
    family = family_of(instance)
    if not isinstance(solution, Record):
        solution = read_solution(solution, family, instance)
    return checker(family, load_oracle(oracle))(instance, solution)


def bound(
    instance: Record | str | Path,
    method: str | None = None,
    options: SolveOptions | None = None,
    isolate: bool = False,
    listener: Listener | None = None,
    started: float | None = None,
) -> Result:
    """Lower bounds on the objective: the Result of a solve without warm start, whose ``bound`` and ``bounds`` count.

    ``method`` is by default the family's method that gives only bounds (``ring/bounds``), else its best chain.
    Solutions that a method meets on its way are kept, so that the result shows how tight its bound is.
    """
    if not isinstance(instance, Record):
        instance = read(instance)
    family = family_of(instance)
    if method is None and f"{family.name}/bounds" in {known.name for known in family.methods}:
        method = f"{family.name}/bounds"
    cold = (options or SolveOptions()).replace(warm_start="none")
    return solve(instance, method, cold, isolate, listener, started)


def guarded(run: Run, work: Callable[[], Termination]) -> Termination:
    """What ``work`` ends with; a stop, an interrupt, lack of memory or a contradiction ends it but loses nothing."""
    try:
        return work()
    except Stop as stop:
        return run.terminate(stop.limit)
    except KeyboardInterrupt:
        run.interrupted = True
        return run.terminate("interrupted")
    except MemoryError as error:
        return ended(run, "memory", str(error) or "out of memory")
    except OracleError as error:
        return ended(run, "other", str(error))
    except ContradictionError as error:
        return Termination(reason="other_error", detail=str(error))


def ended(run: Run, limit: Limit, detail: str) -> Termination:
    """The termination of a run that something outside its method ended."""
    state = run.terminate()
    return Termination(reason=state.reason, limit=limit, detail=detail) if state.reason != "optimal" else state


def start_method(family: Family, chosen: Method, wanted: str | None) -> str | None:
    """The function of the warm start to run before ``chosen``: ``wanted``, or the family's light greedy start.

    None for ``none``, for a file, and when the method is that start itself.
    """
    name = "greedy" if wanted is None else wanted
    spec = family.warm_starts.get(name)
    return None if spec == chosen.function else spec


def start_from_file(run: Run, family: Family) -> None:
    """Have the solution file that ``--warm-start`` names judged; it starts the run only if the checker accepts it."""
    wanted = run.options.warm_start
    if wanted is None or wanted == "none" or wanted in family.warm_starts:
        return
    if not Path(wanted).exists():
        names = ", ".join([*family.warm_starts, "none"])
        raise InputError(f"no warm start and no file is called {wanted!r}", "--warm-start", f"Choose from: {names}.")
    certificate = run.solution(read_solution(wanted, family, run.instance), "warm start")
    if not certificate.feasible:
        run.notes.append(f"the warm start {Path(wanted).name} is not used: {_refusal(certificate)}")
        run.rejected.pop()


def notes_of(run: Run) -> tuple[str, ...]:
    """The run's notes, and a word about each source whose solutions the checker refused."""
    refused: dict[str, list[Certificate]] = {}
    for source, certificate in run.rejected:
        refused.setdefault(source, []).append(certificate)
    words = [f"{len(all_)} of {source} refused by the checker: {_refusal(all_[0])}" for source, all_ in refused.items()]
    if run.oracle is not None and not any(note.startswith("oracle ") for note in run.notes):
        words.insert(0, run.oracle.note())
    return (*run.notes, *words)


def result_of(run: Run, family: Family, chosen: Method, termination: Termination, versions: dict[str, str]) -> Result:
    """The Result of a finished run: ``optimal`` by the checked objective and the bound alone."""
    status = status_of(run, termination)
    objective = run.upper
    bound = run.lower.value if run.lower and status != "error" else None
    if bound is not None and objective is not None:
        bound = min(bound, objective)
    notes = notes_of(run)
    out_of_time = run.options.deterministic and (termination.limit == "time" or run.remaining <= 0.0)
    if out_of_time:
        notes = (*notes, "not reproducible: the time limit fired")
    run.timings["total"] = round(run.seconds, 6)
    return Result(
        instance=str(getattr(run.instance, "name", "")),
        instance_hash=run.instance.content_hash,
        family=family.name,
        method=chosen.name,
        status=status,
        objective=objective,
        bound=bound,
        gap=gap(objective, bound),
        claimed_objective=run.best.claimed if run.best else None,
        incumbent_source=run.best.source if run.best else "",
        solution=solution_json(run.best.solution) if run.best else None,
        certificate=run.best.certificate if run.best else None,
        bounds=tuple(run.bounds),
        infeasibility=tuple(run.infeasibility),
        termination=_agreeing(termination, status),
        trace=tuple(run.trace),
        timings=dict(run.timings),
        notes=notes,
        provenance=provenance(run, versions, reproducible=run.options.deterministic and not out_of_time),
    )


def status_of(run: Run, termination: Termination) -> Status:
    """``optimal`` if the bound meets the checked objective; ``error`` if they contradict or a run failed empty."""
    if run.best is None:
        if run.proved_infeasible:
            return "infeasible"
        return "error" if termination.reason in ("imprecise", "numerical_error", "other_error") else "unknown"
    if run.infeasibility or (run.lower and contradict(run.best.objective, run.lower.value)):
        return "error"
    return "optimal" if run.gap == 0.0 else "feasible"


def _agreeing(termination: Termination, status: Status) -> Termination:
    """The termination with a reason that agrees with the status (a method may not know of the other's bound)."""
    if status in ("optimal", "infeasible"):
        return msgspec.structs.replace(termination, reason=status, limit="none")
    if status == "feasible" and termination.reason in ("optimal", "infeasible", "no_solution_found"):
        return msgspec.structs.replace(termination, reason="feasible")
    return termination


def _in_process(run: Run, family: Family, chosen: Method) -> Termination:
    start_from_file(run, family)
    before = start_method(family, chosen, run.options.warm_start)
    if before is not None:
        resolve(before)(run.instance, run)
    began = run.seconds
    run.timings["start"] = round(began - run.timings.get("read", 0.0), 6)
    run.checkpoint()
    termination: Termination = resolve(chosen.function)(run.instance, run)
    run.timings["method"] = round(run.seconds - began, 6)
    return termination


def _refusal(certificate: Certificate) -> str:
    if not certificate.violations:
        return "no objective"
    first, more = certificate.violations[0], len(certificate.violations) - 1
    return f"{first.label} {first.message}" + (f" (and {more} more)" if more else "")
