"""Why an instance's objective is what it is, and what would change it: the Python side of ``chipmap explain``."""

from __future__ import annotations

import math
import queue
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from chipmap.explanation import Explanation, Statement
from chipmap.family import Family, family_of, resolve
from chipmap.reading import checked, read, read_solution
from chipmap.records import ChipmapError, InputError, Record
from chipmap.run import SolveOptions

Progress = Callable[[str], None]


def explain(
    instance: Record | str | Path,
    solution: Record | str | Path | None = None,
    against: Record | str | Path | None = None,
    options: SolveOptions | None = None,
    progress: Progress | None = None,
    isolate: bool = False,
) -> Explanation:
    """Why ``instance`` has no solution, or what holds its objective up, with changes that were solved and checked.

    With ``solution`` (anybody's, valid or not) it says how far that is from the best one known; with ``against`` as
    well, what differs between the two. ``progress`` hears what is being looked at. With ``isolate`` it runs in a child
    process that is stopped at the time limit, and what it had told by then is returned, with a note; else in this
    process, where the limit is kept between steps. Raises :class:`InputError` for bad input, or for a family that has
    no explanation.
    """
    started = time.monotonic()
    instance = checked(instance, type(instance).__name__) if isinstance(instance, Record) else read(instance)
    family = family_of(instance)
    if not family.explain:
        raise InputError(
            f"family {family.name!r} has no explanation", "explain", "`chipmap bound` says what is proved."
        )
    if against is not None and solution is None:
        raise InputError("needs a solution to compare with", "--against", "Give SOLUTION as well.")
    one, other = (
        given if given is None or isinstance(given, Record) else read_solution(given, family, instance)
        for given in (solution, against)
    )
    options = options or SolveOptions()
    options.check()
    if isolate:
        return _isolated(instance, family, one, other, options, progress or (lambda _: None), started)
    found: Explanation = resolve(family.explain)(instance, one, options, other, progress)
    return found


def _isolated(
    instance: Record,
    family: Family,
    solution: Record | None,
    against: Record | None,
    options: SolveOptions,
    progress: Progress,
    started: float,
) -> Explanation:
    """The last explanation that a child tells before it ends or must be killed."""
    from chipmap.supervisor import GRACE, TICK, Child
    from chipmap.worker import Failed, Looking, Question, Told, ToParent

    until = math.inf if options.time_limit is None else started + options.time_limit + GRACE
    raw = [msgspec.Raw(msgspec.json.encode(record)) for record in (instance, solution, against)]
    told = _nothing_yet(instance, family)
    child = Child(None)
    try:
        child.send(Question(family.name, options, started, *raw))
        while True:
            late = time.monotonic() >= until
            try:
                line = child.lines.get_nowait() if late else child.lines.get(timeout=TICK)
            except queue.Empty:
                if late:
                    words = f"stopped at the time limit of {options.time_limit:g} s; more was to be tried"
                    return _ended(told, words, started)
                continue
            if line is None:
                return _ended(told, "the process that explains ended before its time", started)
            message = msgspec.json.decode(line, type=ToParent)
            if isinstance(message, Looking):
                progress(message.what)
            elif isinstance(message, Failed):
                if message.kind == "InputError":
                    raise InputError(message.what, message.where, message.remedy)
                raise ChipmapError(f"the explanation failed: {message.message}")
            elif isinstance(message, Told):
                told = msgspec.json.decode(message.explanation, type=Explanation)
                if message.last:
                    return told
    finally:
        child.kill()


def _nothing_yet(instance: Record, family: Family) -> Explanation:
    """What is known before the child has told anything."""
    words = "Nothing is known: the time was too short to solve the instance once."
    return Explanation(
        instance=str(getattr(instance, "name", "")),
        instance_hash=instance.content_hash,
        family=family.name,
        status="unknown",
        statements=(Statement(topic="verdict", message=words),),
    )


def _ended(told: Explanation, note: str, started: float) -> Explanation:
    return told.replace(notes=(*told.notes, note), seconds=round(time.monotonic() - started, 3))
