"""The way of a solve: read, warm start, method, check, Result; and the Python API's verbs."""

from __future__ import annotations

import time
from collections.abc import Callable
from os import PathLike, fspath
from threading import Event
from typing import Any, BinaryIO, NamedTuple, Unpack

import msgspec

from chipmap.certificate import Certificate, with_prediction
from chipmap.evaluator import CALLS, Evaluator, load_evaluator
from chipmap.family import Family, Method, family_of, resolve
from chipmap.inputs.pinning import GivenPins, pinned
from chipmap.inputs.plain import Given, GivenSolution, instance_of, solution_of
from chipmap.inputs.results import attached
from chipmap.oracle import load_oracle
from chipmap.process import conduct
from chipmap.process.conduct import checker, guarded, in_process, notes_of
from chipmap.process.demand import Tell, nobody
from chipmap.process.signals import Interrupts
from chipmap.process.warming import is_warm, kept, warm
from chipmap.provenance import provenance, used_versions
from chipmap.records import InputError, Record, choices, counted
from chipmap.records.decimals import FEW_TICKS, SHARE
from chipmap.result import Note, Result, Status, Termination, TraceEvent, gap, retold, solution_json
from chipmap.run import OptionsByName, Run, SolveOptions, contradict

#: Hears every improvement of a run: the event, and the run as it stands then.
Listener = Callable[[TraceEvent, Run], None]


def solve(
    instance: Given,
    method: str | None = None,
    options: SolveOptions | None = None,
    isolate: bool | None = None,
    listener: Listener | None = None,
    started: float | None = None,
    log: BinaryIO | None = None,
    oracle: str | Callable[[Any, Any], Any] | None = None,
    cancel: Event | None = None,
    tell: Tell = nobody,
    evaluator: str | Callable[[Any, Any], Any] | None = None,
    pin: GivenPins | None = None,
    **changes: Unpack[OptionsByName],
) -> Result:
    """Solve ``instance`` (record, dict, file, shipped name) by the named method, the family's best chain by default.

    ``changes`` are options by name, beside or instead of ``options``: ``solve("ring/tiny-skip", time_limit=5)``.
    With ``isolate`` the method runs in a child process with hard limits on time and memory (its log goes to ``log``);
    else in this process, where every loop looks at the clock, but a solver that ignores its limit can't be stopped. By
    default, a solve with a limit on time or memory is isolated, unless its oracle or evaluator is a function, which
    can't be sent. The child imports nothing of the caller's program. The time limit counts from ``started``
    (:func:`time.monotonic`), now by default. What was found before a limit, an interrupt or a crash is kept.

    Functions that aren't compiled yet are compiled meanwhile by another process (:mod:`chipmap.process.demand`); a run
    without a limit waits for each. With the option ``compile="first"`` or ``deterministic``, that is done before
    (:mod:`chipmap.process.warming`), and its seconds don't count. ``tell`` hears how far it has come (functions done,
    functions to do, seconds of the processor), from any thread; ``tell=print`` prints it.

    ``listener`` hears every improvement, in this process. To end a run before its time, with what it has, set
    ``run.interrupted`` there, or the event ``cancel`` from another thread. ``oracle`` is a constraint of the user's own
    (:mod:`chipmap.oracle`): a function (instance, solution) -> bool or Verdict, or its name ``"module:function"``
    (with ``isolate``: its name). ``evaluator`` is a cost of the user's own (:mod:`chipmap.evaluator`): a function
    (instance, solution) -> number, or its name; the option ``evaluations`` says how many calls it may take. ``pin``
    is a file of pins, or the four fields as a dict (:mod:`chipmap.inputs.pinning`): the result is of the instance with
    them.
    Raises :class:`InputError` for bad input, :class:`SolverUnavailableError` for a missing solver.
    """
    started = time.monotonic() if started is None else started
    options = with_changes(options or SolveOptions(), dict(changes))
    options = _with_functions(options, {"oracle": oracle, "evaluator": evaluator}, isolate)
    kept_places = pinned(instance_of(instance), pin)
    instance = kept_places.instance
    family = family_of(instance)
    limited, small = options.time_limit is not None, family.is_small(instance)
    measure = evaluator or options.evaluator
    if options.evaluations is not None and measure is None:
        raise InputError("counts the calls of an evaluator", "--evaluations", "Name one with --evaluator.")
    chosen, asked = family.method(method, measure is not None), load_oracle(oracle or options.oracle, family)
    if isolate is None:
        isolate = conduct.by_default(options, oracle, evaluator)
    first = limited and options.compiles_first
    made = _compiled_first(family, tell, cancel) if first and not small else _First()
    run = Run(instance, options, checker(family, asked), started + made.wall, listener, oracle=asked, cancel=cancel)
    run.interrupted = made.interrupted
    if kept_places.note:
        run.note("plan", kept_places.note)
    if made.functions and not options.deterministic:  # the same archive, whether they had been compiled or not
        words = f"{counted(made.functions, 'function')} compiled first, in {made.seconds:.1f} CPU seconds"
        run.note("compiled", words, functions=made.functions, seconds=made.seconds, waited=[])
    run.ready, run.small = not (first and small) or is_warm(family), small
    run.timings["read"] = round(run.seconds, 6)
    run.evaluator = _evaluator(measure, options, isolate)
    termination, versions = _conducted(run, family, chosen, isolate, log, tell)
    return attached(result_of(run, family, chosen, termination, versions), instance)


def _conducted(
    run: Run, family: Family, chosen: Method, isolate: bool, log: BinaryIO | None, tell: Tell
) -> tuple[Termination, dict[str, str]]:
    """How the method ended, in a child or in this process, and the versions of what it used."""
    if isolate:
        from chipmap.process.supervisor import supervise

        return supervise(run, family, chosen, log, tell)
    if run.options.memory_limit is not None:
        run.note("left out", "the memory limit holds in a process of its own alone, and this one is the caller's")
    return guarded(run, lambda: in_process(run, family, chosen, tell)), used_versions()


class _First(NamedTuple):
    """What was compiled before a run: seconds by the clock, functions, seconds of the processor; whether that was
    interrupted."""

    wall: float = 0.0
    functions: int = 0
    seconds: float = 0.0
    interrupted: bool = False


def _compiled_first(family: Family, tell: Tell, cancel: Event | None) -> _First:
    """Compile what a family needs, unless the user interrupts or cancels."""
    if is_warm(family):
        return _First()
    before = kept(family)
    with Interrupts(guest=True) as interrupts:

        def stopped() -> bool:
            return interrupts.signal is not None or (cancel is not None and cancel.is_set())

        wall = warm(family, tell, stopped)
        now, interrupted = kept(family), interrupts.signal is not None
    return _First(wall, now.functions - before.functions, round(now.seconds - before.seconds, 1), interrupted)


def _with_functions(options: SolveOptions, given: dict[str, Any], isolate: bool | None) -> SolveOptions:
    """The options, checked, with the names of the user's functions; a child needs their names."""
    for name, function in given.items():
        if isinstance(function, str):
            options = options.replace(**{name: function})
        elif function is not None and isolate:
            raise InputError("is a function", name, "With isolate=True give its name, 'module:function'.")
    options.check()
    return options


def _evaluator(given: str | Callable[..., Any] | None, options: SolveOptions, isolate: bool) -> Evaluator | None:
    """The evaluator of a run; the child's record of its calls, where a child makes them."""
    if given is None:
        return None
    if isolate:
        assert isinstance(given, str)
        return Evaluator(given, limit=options.evaluations or CALLS)
    return load_evaluator(given, options.evaluations)


def with_changes(options: SolveOptions, changes: dict[str, Any]) -> SolveOptions:
    """``options`` with some of them changed by name; :class:`InputError` with the nearest name for an unknown one."""
    known = SolveOptions.__struct_fields__
    for name in changes:
        if name not in known:
            raise InputError(f"no option is called {name!r}", "solve", choices(name, known, "There are"))
    start = changes.get("warm_start")
    if isinstance(start, PathLike):
        changes = {**changes, "warm_start": fspath(start)}
    elif start is not None and not isinstance(start, str):
        remedy = "Give a name or a file: the archive that result.save writes, or a solution as JSON."
        raise InputError(f"is a {type(start).__name__}", "warm_start", remedy)
    try:
        return options.replace(**changes) if changes else options
    except NotImplementedError as error:
        raise InputError(str(error), ", ".join(changes), "Give plain data: numbers and texts.") from None


def check(
    instance: Given,
    solution: GivenSolution,
    oracle: str | Callable[[Any, Any], Any] | None = None,
) -> Certificate:
    """The independent checker's certificate of anybody's solution; ``oracle`` as in ``solve``.

    Both may be records, files or dicts as in JSON; a solution also a result, a mapping by name, or a list
    (:func:`chipmap.inputs.plain.solution_of`).
    """
    instance = instance if isinstance(instance, Record) else instance_of(instance)
    family = family_of(instance)
    solution = solution_of(solution, family, instance)
    found = checker(family, load_oracle(oracle, family))(instance, solution)
    return _foretold(found, family, instance, solution).told_in(family.units_of(instance))


def _foretold(certificate: Certificate, family: Family, instance: Record, solution: Record) -> Certificate:
    """A certificate with what a profile of the machine predicts, where the family has such."""
    if not family.predict:
        return certificate
    return with_prediction(certificate, instance, solution, resolve(family.predict), resolve(family.check))


def disagreements(result: Result, instance: Record, certificate: Certificate | None) -> list[str]:
    """Where a result that is said to be of ``instance`` contradicts the checker's word on its solution, or itself.

    ``certificate`` is of the result's solution, None where there is none.
    """
    found = []
    if result.instance_hash != instance.content_hash:
        ours, its = instance.content_hash[:12], result.instance_hash[:12]
        found.append(f"it is of another instance: its hash begins with {its}, this instance's with {ours}")
    judged, unit = None, family_of(instance).units_of(instance).objective
    if certificate is not None and certificate.feasible:
        judged = retold(certificate.objective, unit, result.units.objective if result.units else unit)
    if result.objective != judged:
        found.append(f"it claims an objective of {result.objective} ticks, the checker says {judged}")
    if result.certificate is not None and certificate is not None and result.certificate.terms != certificate.terms:
        found.append(f"it claims the terms {result.certificate.terms}, the checker says {certificate.terms}")
    if result.gap != (gap(result.objective, result.bound) if result.evaluation is None else None):
        found.append(f"it claims a gap of {result.gap}, from objective and bound follows another one")
    if (result.status == "optimal") != (result.gap == 0.0) and result.status != "error":
        found.append(f"it claims to be {result.status} with a gap of {result.gap}")
    known = max((one.value for one in result.bounds), default=None)
    if result.bound is not None and (known is None or result.bound > known):
        found.append(f"it claims the bound {result.bound}, the best of those that it lists is {known}")
    return found


def bound(
    instance: Given,
    method: str | None = None,
    options: SolveOptions | None = None,
    isolate: bool | None = None,
    listener: Listener | None = None,
    started: float | None = None,
    cancel: Event | None = None,
    pin: GivenPins | None = None,
    **changes: Unpack[OptionsByName],
) -> Result:
    """Lower bounds on the objective: the Result of a solve without warm start, whose ``bound`` and ``bounds`` count.

    ``method`` is by default the family's method that gives only bounds (``ring/bounds``), else its best chain.
    Solutions that a method meets on its way are kept, so that the result shows how tight its bound is. ``pin`` as in
    ``solve``.
    """
    instance = instance if isinstance(instance, Record) else instance_of(instance)
    family = family_of(instance)
    if method is None and f"{family.name}/bounds" in {known.name for known in family.methods}:
        method = f"{family.name}/bounds"
    cold = with_changes(options or SolveOptions(), dict(changes)).replace(warm_start="none")
    return solve(instance, method, cold, isolate, listener, started, cancel=cancel, pin=pin)


def result_of(run: Run, family: Family, chosen: Method, termination: Termination, versions: dict[str, str]) -> Result:
    """The Result of a finished run: ``optimal`` by the checked objective and the bound alone."""
    status = status_of(run, termination)
    objective = run.upper
    if run.evaluator is not None:
        said = run.evaluation or run.evaluator.report(None)
        run.evaluation = msgspec.structs.replace(said, cost=run.best.measured if run.best else None)
    bound = run.lower.value if run.lower and status not in ("error", "infeasible") else None
    if bound is not None and objective is not None:
        bound = min(bound, objective)
    if family.advice:
        resolve(family.advice)(run.instance, run)
    notes = notes_of(run)
    out_of_time = run.options.deterministic and (termination.limit == "time" or run.remaining <= 0.0 or run.timed)
    if out_of_time:
        notes = (
            *notes,
            Note(kind="not reproducible", text="not reproducible: the time limit, or a part of it, was used up"),
        )
    if run.best is not None and (coarse := coarse_note(run.best.certificate, family, run.instance)) is not None:
        notes = (*notes, coarse)
    if run.best is not None and (spread := spread_note(run.best.certificate, family, run.instance)) is not None:
        notes = (*notes, spread)
    best = run.best
    certificate = None if best is None else _foretold(best.certificate, family, run.instance, best.solution)
    run.timings["total"] = round(run.seconds, 6)
    return Result(
        instance=str(getattr(run.instance, "name", "")),
        instance_hash=run.instance.content_hash,
        family=family.name,
        units=family.units_of(run.instance),
        method=chosen.name,
        status=status,
        objective=objective,
        bound=bound,
        gap=gap(objective, bound) if run.evaluation is None else None,
        evaluation=run.evaluation,
        claimed_objective=run.best.claimed if run.best else None,
        incumbent_source=run.best.source if run.best else "",
        solution=solution_json(run.best.solution) if run.best else None,
        certificate=certificate,
        bounds=tuple(run.bounds),
        infeasibility=tuple(run.infeasibility),
        termination=_agreeing(termination, status),
        failure=run.failure,
        trace=tuple(run.trace),
        timings=dict(run.timings),
        notes=notes,
        provenance=provenance(run, versions, reproducible=run.options.deterministic and not out_of_time),
    )


def coarse_note(certificate: Certificate, family: Family, instance: Record) -> Note | None:
    """What rounding costs up to whole ticks adds to the objective at most, where that is a thousandth of it or more, or
    where the ticks are few: "optimal" holds for the rounded costs."""
    objective = certificate.objective or 0
    if not family.rounding or objective <= 0:
        return None
    added = min(float(resolve(family.rounding)(instance, objective, certificate.terms)), float(objective))
    if added == 0 or (objective >= FEW_TICKS and added * SHARE < objective):
        return None
    unit = family.units_of(instance).objective
    text = f"the objective is {objective:,} ticks of {unit.per_tick:g} {unit.name}: rounding costs up to whole ticks "
    text += f"adds at most {added:.3g} ({added / objective:.2g} of it), and what is proved holds for the rounded costs"
    return Note(kind="coarse", text=text, data={"ticks": objective, "added": added})


def spread_note(certificate: Certificate, family: Family, instance: Record) -> Note | None:
    """Within which objectives nine of ten plans by learned times are measured; what links take is no more uncertain
    than what operations do, so that both ends are the objective's times the instance's ``time_spread``."""
    spread, objective = getattr(instance, "time_spread", ()), certificate.objective or 0
    if not spread or objective <= 0:
        return None
    unit = family.units_of(instance).objective
    low, high = (objective * unit.per_tick * factor for factor in spread)
    text = f"its times are learned: nine of ten such plans are measured at {low:.4g} to {high:.4g} {unit.name}"
    return Note(kind="learned", text=text, data={"low": low, "high": high})


def status_of(run: Run, termination: Termination) -> Status:
    """``optimal`` if the bound meets the checked objective; ``error`` if they contradict or a run failed empty."""
    if run.best is None:
        if run.proved_infeasible:
            return "infeasible"
        return "error" if termination.reason in ("imprecise", "numerical_error", "other_error") else "unknown"
    if run.proved_infeasible or (run.lower and contradict(run.best.objective, run.lower.value)):
        return "error"
    return "optimal" if run.gap == 0.0 else "feasible"


def _agreeing(termination: Termination, status: Status) -> Termination:
    """The termination with a reason that agrees with the status (a method may not know of the other's bound)."""
    if status in ("optimal", "infeasible"):
        return msgspec.structs.replace(termination, reason=status, limit="none")
    if status == "feasible" and termination.reason in ("optimal", "infeasible", "no_solution_found"):
        return msgspec.structs.replace(termination, reason="feasible")
    return termination
