"""What a solve or an explanation in a child process and its parent tell each other, as JSON lines."""

from __future__ import annotations

from typing import Any

import msgspec

from chipmap.certificate import Certificate
from chipmap.explanation import Step
from chipmap.result import Bound, BoundKind, Evaluation, Infeasibility, Measurement, Note, Termination
from chipmap.run import Incumbent, SolveOptions


class Job(msgspec.Struct, frozen=True, tag=True):
    """What to solve. ``started`` is the parent's monotonic clock, which all processes of a machine share.

    ``path`` are the folders where the parent finds modules (``sys.path``): an oracle's name is looked up there, too.
    Unless ``ready``, the child ends where a function would have to be compiled (:class:`chipmap.kernels.Unready`).
    """

    family: str
    method: str
    options: SolveOptions
    started: float
    instance: msgspec.Raw
    path: tuple[str, ...] = ()
    ready: bool = True


class Question(msgspec.Struct, frozen=True, tag=True):
    """What to explain: as :func:`chipmap.explain.explain` takes it, missing solutions as null; ``started`` as above.
    ``bounds`` are known of the instance, ``ready`` is that of a :class:`Job`."""

    family: str
    options: SolveOptions
    started: float
    instance: msgspec.Raw
    solution: msgspec.Raw
    against: msgspec.Raw
    bounds: tuple[Bound, ...] = ()
    ready: bool = True


class Start(msgspec.Struct, frozen=True, tag=True):
    """The checked solution to start from (or null) with its source and ``certificate``, and the bounds that are known.

    ``before`` is a warm start to run first.
    """

    solution: msgspec.Raw
    source: str = ""
    bounds: tuple[Bound, ...] = ()
    before: str | None = None
    certificate: Certificate | None = None


class Halt(msgspec.Struct, frozen=True, tag=True):
    """The user interrupts: stop at the next checkpoint."""


class Found(msgspec.Struct, frozen=True, tag=True):
    """A solution that the child's checker accepts and that is better than all before. ``measured``: its cost."""

    solution: msgspec.Raw
    source: str
    claimed: int | float | None = None
    measured: float | None = None


class Bounded(msgspec.Struct, frozen=True, tag=True):
    """A better lower bound, in ticks."""

    value: int
    source: str
    kind: BoundKind


class Measured(msgspec.Struct, frozen=True, tag=True):
    """What the user's evaluator has just said."""

    measurement: Measurement


class Compiled(msgspec.Struct, frozen=True, tag=True):
    """How far compiling has come (:class:`chipmap.process.demand.Compiling`)."""

    family: str
    done: int
    left: int
    seconds: float


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The method has ended; ``bounds`` are all bounds, also those that improved nothing.

    ``timed`` says that a part of its work was told that its time is up, ``failure`` how the user's function failed.
    """

    termination: Termination
    best: Found | None
    bounds: tuple[Bound, ...]
    infeasibility: tuple[Infeasibility, ...]
    proved_infeasible: bool
    notes: tuple[Note, ...]
    timings: dict[str, float]
    versions: dict[str, str]
    oracle: dict[str, Any] | None = None
    timed: bool = False
    evaluation: Evaluation | None = None
    failure: str = ""


class Looking(msgspec.Struct, frozen=True, tag=True):
    """What an explanation does now."""

    step: Step


class Told(msgspec.Struct, frozen=True, tag=True):
    """An explanation as far as it has come; the ``last`` one is whole."""

    explanation: msgspec.Raw
    last: bool


class Failed(msgspec.Struct, frozen=True, tag=True):
    """An error that the user can act on (``kind`` is its class) or a defect (``kind`` empty)."""

    kind: str
    message: str
    what: str = ""
    where: str = ""
    remedy: str = ""


ToParent = Found | Bounded | Measured | Compiled | Ended | Looking | Told | Failed


def found_of(best: Incumbent) -> Found:
    """The message about an incumbent."""
    return Found(msgspec.Raw(msgspec.json.encode(best.solution)), best.source, best.claimed, best.measured)
