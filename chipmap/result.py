"""What a run returns: termination, bounds, trace, and the Result that ties them to a checked solution."""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Protocol, Self

import msgspec

from chipmap.certificate import Certificate
from chipmap.records import InputError, InTicks, Record, Unit, Units, html_row
from chipmap.records import natural as natural

Reason = Literal[
    "optimal", "infeasible", "feasible", "no_solution_found", "imprecise", "numerical_error", "other_error"
]
Limit = Literal["none", "time", "memory", "node", "iteration", "solution", "gap", "interrupted", "other"]
Status = Literal["optimal", "feasible", "infeasible", "unknown", "error"]
BoundKind = Literal["solver", "relaxation", "combinatorial", "published"]

#: start: a warm start was used, or why not (``unused start``); unused option: what was asked of a solver, though none
#: solved a model; oracle, evaluator: what the user's function said; refused: what the checker refused; size: how large
#: the problem is for a method; search: how much was tried; left out: what didn't apply or was given up; coarse: what
#: rounding up to whole ticks may add where that is much; learned: how far measured objectives lie apart; cache: what is
#: wrong with the compiled functions on disk;
#: solver: how a solver ended; no proof: why what it proves doesn't count; stopped: how a run was ended from outside;
#: older: a sentence of an archive from before notes had kinds.
NoteKind = Literal[
    "advice",
    "start",
    "unused start",
    "plan",
    "unused option",
    "oracle",
    "evaluator",
    "not reproducible",
    "refused",
    "size",
    "search",
    "left out",
    "coarse",
    "learned",
    "cache",
    "solver",
    "no proof",
    "stopped",
    "older",
    "compiled",
]

#: A bound may exceed a checked objective by this share before it counts as a contradiction.
BOUND_TOLERANCE = 1e-6


class Note(Record, frozen=True, kw_only=True):
    """What a run says beside its figures: its kind (:data:`NoteKind`), a sentence, and the numbers in it by name."""

    kind: NoteKind
    text: str
    data: dict[str, Any] = {}


class Termination(Record, frozen=True, kw_only=True):
    """Why a method or a solver stopped: the vocabulary of OR-Tools MathOpt."""

    reason: Reason
    limit: Limit = "none"
    detail: str = ""


class Bound(InTicks, frozen=True, kw_only=True):
    """A lower bound on the objective, in ticks, with the name of what proved it and when (seconds into the run)."""

    value: int
    source: str
    kind: BoundKind = "combinatorial"
    seconds: float = 0.0

    @property
    def amount(self) -> float:
        """The bound in :attr:`unit`."""
        return self.in_unit(self.value) or 0.0

    def __repr__(self) -> str:
        """One line: ``<Bound 9 us by path, combinatorial, after 0.1 s>``."""
        return f"<Bound {self.amount:.7g} {self.unit} by {self.source}, {self.kind}, after {self.seconds:.1f} s>"

    def _repr_html_(self) -> str:
        cells = {"bound": f"{self.amount:.7g} {self.unit}", "proved by": self.source, "kind": self.kind}
        return html_row({**cells, "seconds": f"{self.seconds:.2f}"})


class TraceEvent(InTicks, frozen=True, kw_only=True):
    """One line of a run's log: a new incumbent (``measured``: what the evaluator says of it) or a better bound."""

    seconds: float
    event: Literal["solution", "bound"]
    value: int
    source: str
    incumbent: int | None = None
    bound: int | None = None
    measured: float | None = None

    @property
    def amount(self) -> float:
        """The value in :attr:`unit`."""
        return self.in_unit(self.value) or 0.0


class Measurement(Record, frozen=True, kw_only=True):
    """One call of the user's evaluator: what it said (None: the mapping doesn't run), and the analytic ``objective`` in
    ticks, the source and the hash (its first 12 digits) of the mapping. ``seconds`` are those of the call."""

    call: int
    cost: float | None
    objective: int
    source: str
    seconds: float
    solution: str


class Evaluation(Record, frozen=True, kw_only=True):
    """What the user's evaluator said in a run: the ``cost`` of the solution (None: not measured), the calls made and
    allowed, those saved by the ``cached`` answers, those ``refused`` (no cost), and every measurement in its order."""

    evaluator: str
    version: str
    cost: float | None
    calls: int
    cached: int
    refused: int
    limit: int
    seconds: float
    measurements: tuple[Measurement, ...] = ()


class Infeasibility(Record, frozen=True, kw_only=True):
    """Why no solution exists, in the user's words: what is short, by how much, and which changes would help.

    ``label`` takes part in the contradiction. ``labels`` are proved to contradict each other within the domain (C0),
    with ``label`` among them; empty where it isn't known which others take part.
    """

    label: str
    resource: str
    demand: float
    limit: float
    unit: str
    message: str
    remedies: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        label: str,
        resource: str,
        short: tuple[float, float, str],
        message: str,
        *remedies: str,
        labels: tuple[str, ...] = (),
    ) -> Self:
        """A reason; ``short`` says the demand, the limit and their unit."""
        demand, limit, unit = short
        return cls(
            label=label, resource=resource, demand=demand, limit=limit, unit=unit, message=message, remedies=remedies,
            labels=labels,
        )  # fmt: skip


def gap(objective: int | None, bound: int | None) -> float | None:
    """(objective - bound) / |objective|, or None ("n/a") when a side is missing or the objective is 0 above its bound.

    >>> gap(100, 90), gap(0, 0), gap(None, 3)
    (0.1, 0.0, None)
    """
    if objective is None or bound is None:
        return None
    if objective == bound:
        return 0.0
    return (objective - bound) / abs(objective) if objective else None


def integer_bound(value: float) -> int:
    """The integer lower bound that a solver's floating-point one implies: rounded up after a margin for its noise.

    A bound of 99.99999 on an integer objective proves 100; one of 99.2 proves 100 too; one of 100.00003 proves no more
    than 100. The margin (1e-4 and 1e-10 of the value) is far below one tick, so that a proof of optimality closes the
    gap; what a solver's own tolerances may add to a bound, :meth:`chipmap.run.Run.bound` clips.

    >>> integer_bound(99.99999), integer_bound(100.00003), integer_bound(230_000_000.0)
    (100, 100, 230000000)
    """
    return math.ceil(value - 1e-4 - 1e-10 * abs(value))


def claims_another(claimed: int | float, objective: int) -> bool:
    """Whether a method's claim is another value than the checker's: a whole number must be the same one, a solver's
    floating-point one may be half a tick off, or in its tenth digit, as beyond 2**53 a float can't tell ticks apart.

    >>> claims_another(7.4, 7), claims_another(2**60 + 1, 2**60), claims_another(float(2**60 + 9), 2**60 + 9)
    (False, True, False)
    """
    if isinstance(claimed, int):
        return claimed != objective
    return abs(claimed - objective) > max(0.5, 1e-10 * abs(objective))


def retold(ticks: int | None, unit: Unit, told: Unit) -> int | None:
    """``ticks`` of ``unit`` in those of ``told``, rounded up: older archives may count in other ticks.

    >>> retold(3_320_886, Unit(name="J·s", per_tick=1e-18), Unit(name="J·s", per_tick=1e-12))
    4
    """
    if ticks is None or unit == told:
        return ticks
    return math.ceil(ticks * Fraction(repr(unit.per_tick)) / Fraction(repr(told.per_tick)))


class Picture:
    """A picture as PNG; notebooks show it."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def _repr_png_(self) -> bytes:
        return self.data


class WithInstance(Protocol):
    """What :mod:`chipmap.inputs.results` does for a result whose instance is at hand."""

    def mapping(self) -> dict[str, Any]:
        """The mapping by the instance's own names."""

    def frame(self) -> Any:
        """The mapping as a pandas table."""

    def save(self, folder: str | Path) -> Path:
        """Write an archive; its folder."""

    def plot(self, file: str | Path | None) -> Path | Picture:
        """Draw the mapping into a file, or as a picture of a notebook."""

    def emit(self, name: str, model: str) -> dict[str, bytes]:
        """The plan's files in a format."""

    def plan_formats(self) -> list[dict[str, str | None]]:
        """The formats of plans, and why some don't suit."""


class Result(Record, frozen=True, kw_only=True):
    """The outcome of one solve. Objective, bound and terms are in ticks; :mod:`chipmap.report` shows ``units``.
    ``changes``: what of the named instance was changed on the way (``constraints=C1,C2``).

    ``solution`` is the family's own solution record as plain JSON; ``certificate`` the checker's word on it.
    ``claimed_objective`` is what the method or solver believed: exact programs a whole number, solvers a float.
    ``failure`` says how the method or its process broke off, if it did: what was found before stands, and the command
    line exits with 6. With an ``evaluation``, the solution is the one of least measured cost: objective, bound and
    certificate are of the analytic cost all the same, there is no gap, and nothing is called optimal. Older archives
    have no ``units``: theirs are the family's.
    """

    schema: Literal["result/1"] = "result/1"
    instance: str
    instance_hash: str
    family: str
    units: Units | None = None
    method: str
    status: Status
    objective: int | None = None
    bound: int | None = None
    gap: float | None = None
    claimed_objective: int | float | None = None
    incumbent_source: str = ""
    solution: dict[str, Any] | None = None
    certificate: Certificate | None = None
    evaluation: Evaluation | None = None
    bounds: tuple[Bound, ...] = ()
    infeasibility: tuple[Infeasibility, ...] = ()
    termination: Termination
    failure: str = ""
    trace: tuple[TraceEvent, ...] = ()
    timings: dict[str, float] = {}
    notes: tuple[Note, ...] = ()
    changes: tuple[str, ...] = ()
    provenance: dict[str, Any] = {}

    @classmethod
    def from_json(cls, data: bytes | str, where: str = "") -> Self:
        """The result in ``data``, also of an archive from before notes had kinds, when they were sentences."""
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            plain = msgspec.json.decode(data, type=dict[str, Any])
            notes = plain.get("notes")
            if isinstance(notes, list) and any(isinstance(note, str) for note in notes):
                plain["notes"] = [{"kind": "older", "text": note} if isinstance(note, str) else note for note in notes]
                data = msgspec.json.encode(plain)
        return super().from_json(data, where)

    def __post_init__(self) -> None:
        """Bounds, trace and certificate know the units."""
        for one in (*self.bounds, *self.trace, *((self.certificate,) if self.certificate else ())):
            one.told_in(self.units)

    @property
    def unit(self) -> str:
        """The unit of :attr:`value`; empty in archives from before results had units."""
        return self.units.objective.name if self.units else ""

    @property
    def value(self) -> float | None:
        """The objective in :attr:`unit` (ticks, where that is empty); None without a solution."""
        return self._natural(self.objective)

    @property
    def lower(self) -> float | None:
        """The bound in :attr:`unit` (ticks, where that is empty); None without one."""
        return self._natural(self.bound)

    def _natural(self, ticks: int | None) -> float | None:
        return natural(ticks, self.units.objective.per_tick if self.units else 1)

    @property
    def mapping(self) -> dict[str, Any]:
        """Where everything runs, by the names of the instance: operation -> chip (``ring``) or device (``placement``);
        kernel -> scheme and partition (``dataflow``), or place and execution arguments (``wafer``); model -> its
        segments (``multimodel``)."""
        return self._deeds().mapping()

    def to_frame(self) -> Any:
        """The table beside the solution of an archive (``mapping.csv``, ``schedule.csv``) as a ``pandas.DataFrame``; of
        ``wafer`` :attr:`mapping`, a line per kernel. Needs the extra ``pandas``."""
        return self._deeds().frame()

    def save(self, folder: str | Path) -> Path:
        """Write the archive that ``chipmap solve --out FOLDER`` writes; an older archive there is replaced."""
        return self._deeds().save(folder)

    def plot(self, file: str | Path | None = None) -> Path | Picture:
        """Draw the solution to ``file`` (.png, .svg, .pdf), or return a picture that a notebook shows."""
        return self._deeds().plot(file)

    def emit(self, name: str, model: str | Path = "") -> dict[str, bytes]:
        """The mapping as a plan for a runtime, in format ``name`` (``"device-map"``): file name -> content, as
        ``chipmap emit`` writes them. ``model``: the model's file, for formats that carry the program."""
        return self._deeds().emit(name, str(model))

    def plan_formats(self) -> list[dict[str, str | None]]:
        """The formats of :meth:`emit`: ``format``, ``title``, and ``why_not`` where one doesn't suit."""
        return self._deeds().plan_formats()

    def attach(self, deeds: WithInstance) -> None:
        """Let the result do what needs its instance; no part of what is written or compared."""
        self.__dict__["_with_instance"] = deeds

    def _deeds(self) -> WithInstance:
        found: WithInstance | None = self.__dict__.get("_with_instance")
        if found is None:
            remedy = "Take what chipmap.solve returned, or chipmap.load(FOLDER).result of an archive."
            raise InputError("comes without its instance", f"result of {self.instance}", remedy)
        return found

    def __repr__(self) -> str:
        """One line: ``<Result ring/tiny-skip: optimal, 9.0 us, gap 0.00%, ring/auto, 1.2 s>``."""
        share = "no gap" if self.gap is None else f"gap {self.gap:.2%}"
        value = "no solution" if self.value is None else f"{self.value:.7g} {self.unit}".rstrip()
        words = [self.status, *(["failed"] if self.failure else []), value, share, self.method, f"{self.seconds:.1f} s"]
        return f"<Result {self.instance}: {', '.join(words)}>"

    def _repr_html_(self) -> str:
        """The same as a table row, for notebooks."""
        cells = {
            "instance": self.instance,
            "method": self.method,
            "status": f"{self.status}, failed" if self.failure else self.status,
            "objective": "" if self.value is None else f"{self.value:.7g} {self.unit}",
            "bound": "" if self.lower is None else f"{self.lower:.7g} {self.unit}",
            "gap": "" if self.gap is None else f"{self.gap:.2%}",
            "seconds": f"{self.seconds:.2f}",
        }
        return html_row(cells)

    @property
    def seconds(self) -> float:
        """Wall-clock seconds of the whole solve, reading and checking included."""
        return self.timings.get("total", 0.0)


def best_bound(bounds: tuple[Bound, ...] | list[Bound]) -> Bound | None:
    """The highest (tightest) of the bounds; the earliest of equals."""
    return max(bounds, key=lambda bound: (bound.value, -bound.seconds), default=None)


def solution_json(solution: Record) -> dict[str, Any]:
    """A solution record as the plain JSON object that a :class:`Result` holds."""
    plain: dict[str, Any] = msgspec.json.decode(solution.to_json())
    return plain
