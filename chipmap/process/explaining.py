"""An explanation in a child process: stopped at the time limit, and what it had told by then is kept."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import msgspec

from chipmap.explanation import Explanation, Statement, Step
from chipmap.family import Family, resolve
from chipmap.kernels import Unready
from chipmap.process.child import Child
from chipmap.process.messages import Failed, Looking, Question, Told
from chipmap.process.signals import Interrupts
from chipmap.process.supervisor import GRACE, TICK
from chipmap.records import ChipmapError, InputError, Record
from chipmap.result import Bound, Limit, Note, Status, best_bound
from chipmap.run import SolveOptions

Progress = Callable[[Step], None]


def isolated(
    instance: Record,
    family: Family,
    solution: Record | None,
    against: Record | None,
    options: SolveOptions,
    progress: Progress,
    started: float,
    bounds: tuple[Bound, ...],
    ready: bool,
) -> Explanation:
    """The last explanation that a child tells before it ends, is interrupted or must be killed.

    Raises :class:`Unready` where a function would have to be compiled, unless ``ready``.
    """
    until = math.inf if options.time_limit is None else started + options.time_limit + GRACE
    raw = [msgspec.Raw(msgspec.json.encode(record)) for record in (instance, solution, against)]
    told = _nothing_yet(instance, family, solution, bounds)
    with Interrupts(guest=True) as interrupts:
        child = Child("chipmap.process.worker")
        try:
            child.send(Question(family.name, options, started, raw[0], raw[1], raw[2], bounds, ready))
            while True:
                late = time.monotonic() >= until
                messages, closed = child.received(0.0 if late else TICK)
                for message in messages:
                    if isinstance(message, Looking):
                        progress(message.step)
                    elif isinstance(message, Failed):
                        if message.kind == "Unready":
                            raise Unready
                        if message.kind == "InputError":
                            raise InputError(message.what, message.where, message.remedy)
                        raise ChipmapError(f"the explanation failed: {message.message}")
                    elif isinstance(message, Told):
                        told = msgspec.json.decode(message.explanation, type=Explanation)
                        if message.last:
                            return told
                if interrupts.signal is not None:
                    return _ended(told, "interrupted; more was to be tried", started, limit="interrupted")
                if closed:
                    return _ended(told, "the process that explains ended before its time", started, limit="other")
                if late:
                    words = f"stopped at the time limit of {options.time_limit:g} s; more was to be tried"
                    return _ended(told, words, started, limit="time")
        finally:
            child.kill()


def _nothing_yet(instance: Record, family: Family, solution: Record | None, bounds: tuple[Bound, ...]) -> Explanation:
    """What is known before the child has told anything."""
    more = "" if solution is None and not bounds else " more"
    words = f"Nothing{more} is known: the time was too short to solve the instance once."
    certificate = resolve(family.check)(instance, solution) if solution is not None else None
    objective = certificate.objective if certificate is not None and certificate.feasible else None
    lower = best_bound(bounds)
    bound = lower.value if lower is not None and (objective is None or lower.value <= objective) else None
    status: Status = "unknown" if objective is None else "optimal" if objective == bound else "feasible"
    return Explanation(
        instance=str(getattr(instance, "name", "")),
        instance_hash=instance.content_hash,
        family=family.name,
        status=status,
        objective=objective,
        bound=bound,
        terms=certificate.terms if certificate is not None and objective is not None else {},
        statements=(Statement(topic="verdict", message=words),),
    )


def _ended(told: Explanation, words: str, started: float, limit: Limit) -> Explanation:
    note = Note(kind="stopped", text=words, data={"limit": limit})
    return told.replace(notes=(*told.notes, note), seconds=round(time.monotonic() - started, 3))
