"""Measured kernels, collectives and steps of a machine, from CSV files (``docs/families/dataflow-calibration.md``)."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

from chipmap.instances.dataflow.formats import BITS, Format
from chipmap.records import InputError, Source, choices
from chipmap.records.amounts import measured, quantity, whole

Kind = Literal["product", "attention", "cached", "element"]
Named = Literal["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]
KINDS, COLLECTIVES = get_args(Kind), get_args(Named)
#: Bytes of numbers whose format isn't named.
WORD = 2.0
#: Counts, FLOP and bytes at most; nanoseconds at least and at most.
MOST, LEAST_NS, MOST_NS = 10**18, 1e-3, 1e15


class KernelRow(NamedTuple):
    """One measured kernel: ``outer`` products of m × k weights by k × n activations, or any kernel's FLOP, bytes from
    and to DRAM, and the bytes of these that are read from a KV cache."""

    kind: Kind
    format: Format
    outer: int
    m: int
    n: int
    k: int
    flop: float
    bytes: float
    fetch: float
    ns: float

    @property
    def group(self) -> str:
        """What errors are told of together."""
        return f"{self.kind} {self.format}".strip()


class CollectiveRow(NamedTuple):
    """One measured collective of ``bytes`` over ``ranks`` chips of a network dimension (0: the first)."""

    collective: Named
    dimension: int
    ranks: int
    bytes: float
    ns: float


class StepRow(NamedTuple):
    """One measured step: how many kernels ran, nanoseconds of all of them alone, and of the step."""

    kernels: int
    busy_ns: float
    ns: float


class Rows(NamedTuple):
    """All rows of some files."""

    kernels: list[KernelRow]
    collectives: list[CollectiveRow]
    steps: list[StepRow]


def is_machine(path: str) -> bool:
    """Whether a CSV file has the columns of measured kernels, collectives or steps."""
    header = _header(path)
    return bool({"kernel", "collective", "busy_ns"} & set(header))


def read_rows(paths: Sequence[str]) -> Rows:
    """The rows of all files; each has rows of one kind, told by its columns.

    Raises :class:`InputError` that names file and line.
    """
    found = Rows([], [], [])
    for path in paths:
        header = set(_header(path))
        readers: list[tuple[str, list[Any], Callable[[_Line], Any]]] = [
            ("kernel", found.kernels, _kernel),
            ("collective", found.collectives, _collective),
            ("busy_ns", found.steps, _step),
        ]
        reader = next((one for one in readers if one[0] in header), None)
        if reader is None or "ns" not in header:
            what = f"has the columns {', '.join(sorted(header))[:100] or 'nothing'}"
            remedy = "Give ns, and kernel, collective or busy_ns: see docs/families/dataflow-calibration.md."
            raise InputError(what, f"{path}: line 1", remedy)
        before = len(reader[1])
        for line in _lines(path):
            reader[1].append(reader[2](line))
        if len(reader[1]) == before:
            raise InputError("has no rows", path, "Give a line for each measured time.")
    return found


class _Line(NamedTuple):
    """A line of a file: its cells by column."""

    cells: dict[str, str]
    where: str

    def text(self, name: str) -> str:
        return (self.cells.get(name) or "").strip()

    def count(self, name: str, otherwise: int | None = None) -> int:
        text = self.text(name)
        if not text and otherwise is not None:
            return otherwise
        found = whole(text, f"{self.where}: {name}") if text else 0
        if not 1 <= found <= MOST:
            raise InputError(f"{name} is {text or 'missing'}", self.where, f"Give a whole number from 1 to {MOST:.0e}.")
        return found

    def amount(self, name: str, otherwise: float) -> float:
        """Bytes, or FLOP; those of an empty cell follow from the others."""
        text = self.text(name)
        found = quantity(text, "number" if name == "flop" else "bytes", "" if name == "flop" else "B")
        if not text:
            return otherwise
        if found is None or not 0 <= found <= MOST:
            raise InputError(f"{name} is {text}", self.where, f"Give 0 to {MOST:.0e}, such as 2.5e9.")
        return float(found)

    def ns(self, name: str = "ns") -> float:
        text = self.text(name)
        found = 1e9 * float(measured(text, "seconds", "ns", f"{self.where}: {name}")) if text else 0.0
        if not LEAST_NS <= found <= MOST_NS:
            raise InputError(f"{name} is {text or 'missing'}", self.where, "Give a time above 0: 1500 or 1.5us.")
        return found

    def one_of(self, name: str, known: Sequence[str]) -> str:
        text = self.text(name)
        if text not in known:
            raise InputError(f"{name} is {text or 'missing'}", self.where, choices(text, known))
        return text


def _header(path: str) -> list[str]:
    return next(csv.reader(_plain(path)[:1]), [])


def _plain(path: str) -> list[str]:
    """The lines of a file but for comments, with the names of columns in small letters."""
    source = Source(path)
    try:
        lines = source.content().decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InputError("is no text in UTF-8", source.where, "Give a CSV file.") from None
    shown = [line for line in lines if line.strip() and not line.startswith("#")]
    return [",".join(one.strip().lower() for one in shown[0].split(",")), *shown[1:]] if shown else []


def _lines(path: str) -> list[_Line]:
    rows = csv.DictReader(io.StringIO("\n".join(_plain(path)), newline=""), restval="")
    try:
        return [_Line(row, f"{path}: row {i}") for i, row in enumerate(rows, 1)]
    except csv.Error as error:
        raise InputError(f"is no CSV: {error}", path, "Write it anew.") from None


def _kernel(line: _Line) -> KernelRow:
    kind = cast(Kind, line.one_of("kernel", KINDS))
    named = cast(Format, line.one_of("format", tuple(BITS)) if line.text("format") else "")
    outer = line.count("outer", 1)
    m, n, k = (line.count(name, None if kind == "product" else 1) for name in ("m", "n", "k"))
    word = BITS[named] / 8 if named else WORD
    product = kind == "product"
    flop = line.amount("flop", 2.0 * outer * m * n * k if product else 0.0)
    moved = line.amount("bytes", outer * (m * k + k * n + m * n) * word if product else 0.0)
    fetch = line.amount("fetch", moved) if kind == "cached" else 0.0
    if not (flop if kind == "attention" else moved):
        missing = "flop" if kind == "attention" else "bytes"
        raise InputError(f"{missing} is missing", line.where, f"Each {kind} needs its {missing}.")
    if fetch > moved:
        raise InputError("fetch is above bytes", line.where, "Give in bytes all that is moved, with fetch.")
    return KernelRow(kind, named, outer, m, n, k, flop, moved, fetch, line.ns())


def _collective(line: _Line) -> CollectiveRow:
    named = cast(Named, line.one_of("collective", COLLECTIVES))
    ranks, size = line.count("ranks"), line.amount("bytes", 0.0)
    if ranks < 2 or not size:
        raise InputError(f"has {ranks} ranks and {size:g} bytes", line.where, "Give two ranks or more, and bytes.")
    return CollectiveRow(named, line.count("dimension", 1) - 1, ranks, size, line.ns())


def _step(line: _Line) -> StepRow:
    return StepRow(line.count("kernels"), line.ns("busy_ns"), line.ns())
