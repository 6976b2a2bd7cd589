"""Why an instance's objective is what it is, and what would change it: the Python side of ``chipmap explain``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from chipmap.deadline import Unready
from chipmap.explanation import Explanation, Step
from chipmap.family import family_of, resolve
from chipmap.inputs.pinning import GivenPins, pinned
from chipmap.inputs.plain import solution_of
from chipmap.inputs.reading import checked, read
from chipmap.inputs.solutions import bounds_of, of_another
from chipmap.oracle import load_oracle
from chipmap.process.conduct import plain
from chipmap.process.explaining import isolated
from chipmap.process.signals import Interrupts
from chipmap.process.warming import is_warm, warm
from chipmap.records import InputError, Record, Units
from chipmap.result import Bound, Note, Result
from chipmap.run import SolveOptions

Progress = Callable[[Step], None]


def explain(
    instance: Record | str | Path,
    solution: Record | str | Path | None = None,
    against: Record | str | Path | None = None,
    options: SolveOptions | None = None,
    progress: Progress | None = None,
    isolate: bool = False,
    bounds: Sequence[Bound] = (),
    pin: GivenPins | None = None,
    notes: Sequence[Note] = (),
) -> Explanation:
    """Why ``instance`` has no solution, or what holds its objective up, with changes that were solved and checked.

    With ``solution`` (anybody's, valid or not) it says how far that is from the best one known; with ``against`` as
    well, what differs between the two. What a run has proved counts where its archive or its result is given;
    ``bounds`` are other lower bounds that are known to hold. ``progress`` hears every step. With ``isolate`` it runs in
    a child process that is stopped at the time limit, and what it had told by then is returned, with a note; else in
    this process, where the limit is kept between steps. ``pin`` as of :func:`chipmap.solve`. ``notes`` stand before
    those of the explanation; a solution of another instance gets one. Raises :class:`InputError` for bad input, or for
    a family that has no explanation.
    """
    started = time.monotonic()
    instance = checked(instance, type(instance).__name__) if isinstance(instance, Record) else read(instance)
    instance = pinned(instance, pin).instance
    family = family_of(instance)
    if not family.explain:
        what = f"family {family.name!r} has no explanation"
        raise InputError(what, "explain", "`chipmap bound` says what is proved.")
    if against is not None and solution is None:
        raise InputError("needs a solution to compare with", "--against", "Give SOLUTION as well.")
    known, remarks = [*bounds], [*notes]
    for run in (solution, against):
        if isinstance(run, str | Path | Result):
            known += bounds_of(run, family, instance)
            remarks += strangers((run,), instance)
    one, other = (given if given is None else solution_of(given, family, instance) for given in (solution, against))
    options = options or SolveOptions()
    options.check()
    if load_oracle(options.oracle, family) is not None:
        raise InputError("an explanation asks no oracle", "--oracle", "Leave the oracle out.")
    if options.evaluator is not None:
        raise InputError("an explanation asks no evaluator", "--evaluator", "Leave the evaluator out.")
    tell, small = progress or (lambda _: None), family.is_small(instance)

    def asked(ready: bool) -> Explanation:
        """The explanation; :class:`Unready` where a function would have to be compiled, unless ``ready``."""
        if isolate:
            return isolated(instance, family, one, other, options, tell, started, tuple(known), ready)
        with plain(instance, family, ready):
            found: Explanation = resolve(family.explain)(instance, one, options, other, tell, None, known)
        return found

    limited = options.time_limit is not None
    if limited and not small:
        started += warm(family)
    try:
        told = asked(ready=not (limited and small) or is_warm(family))
    except Unready:  # it takes long as plain Python; what was tried so far doesn't count
        tell(Step(kind="change", what=f"compiling what family {family.name} needs, once"))
        with Interrupts(eager=not isolate, guest=True) as interrupts:
            warm(family, stopped=lambda: interrupts.signal is not None)
            started = time.monotonic()
            told = asked(ready=True)
    return _printable(told.replace(notes=(*remarks, *told.notes)), family.units_of(instance))


def strangers(runs: Iterable[str | Path | Result], instance: Record) -> list[Note]:
    """A note for each of ``runs`` whose solution was made for another instance than ``instance``."""
    said = [of_another(run, instance) for run in runs]
    return [Note(kind="advice", text=text) for text in said if text]


def _printable(found: Explanation, units: Units) -> Explanation:
    """The explanation in its units, with the command's text."""
    found.attach(lambda one: str(resolve("chipmap.report.explained:text")(one, units, one.instance)).rstrip("\n"))
    return found.told_in(units)
