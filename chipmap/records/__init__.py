"""The base record: frozen data with strict JSON in and out and a content hash, and the errors that input can cause.

Everything that crosses a file or a process boundary (instances, solutions, results, options) is a :class:`Record`.
A record is checked when it is decoded or made with :meth:`Record.make`; the plain constructor does not check.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from decimal import Decimal
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Annotated, Any, BinaryIO, ClassVar, Self, TypeVar

import msgspec

from chipmap.records.hashing import hashed
from chipmap.records.mismatch import mismatch
from chipmap.records.text import choices as choices
from chipmap.records.text import counted as counted
from chipmap.records.text import csv_text as csv_text
from chipmap.records.text import in_one_line as in_one_line
from chipmap.records.text import listed as listed
from chipmap.records.text import nearest as nearest
from chipmap.records.text import shortened as shortened
from chipmap.records.text import shown as shown
from chipmap.records.text import written_out as written_out

#: Digits of a whole number: far below the 308 at which it is no float any more, and quotients of two still are.
MOST_DIGITS = 100
#: Bytes that are read of what is no file, and may have no end.
MOST_STREAM = 512 * 2**20
_DIGITS = bytes.maketrans(b"123456789", b"000000000")


class ChipmapError(Exception):
    """An error that the user can act on: the message says what is wrong, where, and what to do.

    ``exit_code`` is what the command line exits with (see ``docs/dev/architecture.md``, "Commands").
    """

    exit_code = 1


class InputError(ChipmapError):
    """Bad input or usage. ``what`` is wrong at ``where`` (file, JSON path, option); ``remedy`` mends it."""

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        what, where, remedy = (shortened(text) for text in (what, where, remedy))
        self.what, self.where, self.remedy = what, where, remedy
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text}\n  {remedy}" if remedy else text)


class SolverUnavailableError(ChipmapError):
    """A requested solver is missing, has no licence, or is too small for the model."""

    exit_code = 5


class ContradictionError(ChipmapError):
    """A bound above a checked objective: one of the two is wrong, and both are kept."""

    exit_code = 4


def _no_endless_number(data: bytes | str, where: str) -> None:
    """Refuse JSON with a whole number of more than :data:`MOST_DIGITS` digits, which no float could hold.

    Every tenth character tells whether there may be one, so that large files are looked through fast; in long lists of
    numbers as wide as each other, that may be digits alone, and all characters tell.
    """
    text = data.encode(errors="replace") if isinstance(data, str) else data
    if b"0" * (MOST_DIGITS // 10) not in text[::10].translate(_DIGITS):
        return
    if b"0" * MOST_DIGITS not in text.translate(_DIGITS):
        return
    left: list[tuple[str, Any]] = [("", msgspec.json.decode(data))]
    while left:
        path, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{path}.{key}" if path else key, inner) for key, inner in value.items()]
        elif isinstance(value, list):
            left += [(f"{path}[{i}]", inner) for i, inner in enumerate(value)]
        elif isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
            place = ": ".join(part for part in (where, path) if part)
            raise InputError("is too large", place, f"Give a number of at most {MOST_DIGITS} digits.")


def refuse_nan(given: Any, where: str, endless: bool = False) -> None:
    """Refuse plain data with a number that is none (with ``endless``, or that is infinite): JSON would have null there,
    which is something else, such as a link without a rate. Records in it aren't looked through: these are checked."""
    left: list[tuple[str, Any]] = [("", given)]
    while left:
        path, value = left.pop()
        value = value.tolist() if hasattr(value, "tolist") else value
        if isinstance(value, float):
            if value != value or (endless and value in (float("inf"), float("-inf"))):
                place = ": ".join(part for part in (where, path) if part)
                raise InputError(f"is {value}", place, "Give a finite number; leave it out, or give null, for none.")
        elif isinstance(value, dict):
            left += [(f"{path}.{key}" if path else str(key), inner) for key, inner in value.items()]
        elif isinstance(value, list | tuple):
            left += [
                (f"{path}[{i}]", inner) for i, inner in enumerate(value) if not isinstance(inner, Record | int | str)
            ]


Owner = TypeVar("Owner")
T = TypeVar("T")


def kept(owner: Owner, key: str, make: Callable[[Owner], T]) -> T:
    """``make(owner)``, made once and kept with ``owner`` under ``key``: a record, or what is made of one. These never
    change, and their copies (``replace``) keep nothing."""
    known = owner.__dict__
    if key not in known:
        known[key] = make(owner)
    found: T = known[key]
    return found


def _plain(value: Any) -> Any:
    """Numpy scalars and arrays as plain Python, so that no record ever holds them."""
    for name in ("item", "tolist"):
        if hasattr(value, name) and getattr(value, "ndim", None) in ((0,) if name == "item" else (1, 2)):
            return getattr(value, name)()
    raise NotImplementedError(f"a {type(value).__name__} can't be part of a record")


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """Base of all records that cross a file boundary (frozen; unknown keys and wrong types are refused).

    ``kw_only`` is not inherited: every subclass says ``frozen=True, kw_only=True`` again.
    """

    #: Fields newer than the format's first version: at their default they are left out of the hash (also of a record
    #: that holds this one, alone or in a tuple), so that the hashes of older files hold.
    LATER_FIELDS: ClassVar[tuple[str, ...]] = ()

    @property
    def remark(self) -> str:
        """What whoever reads it should know of how it came about."""
        return ""

    @classmethod
    def make(cls, **fields: Any) -> Self:
        """The record with these fields, converted and checked as if it had been read from JSON.

        Raises :class:`InputError` that names the field and what was expected.
        """
        refuse_nan(fields, cls.__name__)
        return cls._made(fields)

    @classmethod
    def _made(cls, fields: dict[str, Any]) -> Self:
        try:
            return cls.from_json(msgspec.json.encode(fields, enc_hook=_plain), where=cls.__name__)
        except NotImplementedError as error:
            raise InputError(str(error), cls.__name__) from None
        except UnicodeEncodeError as error:
            what = f"holds text that isn't UTF-8: {shown(error.object)}"
            raise InputError(what, cls.__name__, "Leave out half characters (surrogates).") from None

    @classmethod
    def from_json(cls, data: bytes | str, where: str = "") -> Self:
        """The record that ``data`` holds; ``where`` names its source in errors (:class:`InputError`)."""
        try:
            made = msgspec.json.decode(data, type=cls)
            _no_endless_number(data, where)
            return made
        except msgspec.ValidationError as error:
            raise _validation_error(cls, error, where) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"not valid JSON: {error}", where, "Mend the file at that position.") from None

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """The record in the file at ``path``."""
        return cls.from_json(read_bytes(path), where=str(path))

    def to_json(self, indent: int = 0) -> bytes:
        """The record as JSON (``indent`` spaces; 0 for one line), keys in declaration order."""
        data = msgspec.json.encode(self)
        return msgspec.json.format(data, indent=indent) + b"\n" if indent else data

    @property
    def content_hash(self) -> str:
        """SHA-256 of the canonical JSON (keys sorted), so that equal content has an equal hash."""
        return kept(self, "_hash", _sha256)

    def hashed_as(self) -> Self:
        """The record whose content is hashed: what an older version of the format could state keeps its hash."""
        return self

    def __repr__(self) -> str:
        """An instance in a line: ``<RingInstance ring/tiny-skip: 6 operations>``; any other record field by field."""
        name, schema = getattr(self, "name", ""), getattr(self, "schema", "")
        if not (name and schema and hasattr(self, "check")):
            return super().__repr__()
        return (
            f"<{type(self).__name__} {shortened(str(name), 100)}{''.join(f': {size}' for size in self._sizes()[:1])}>"
        )

    def _sizes(self) -> list[str]:
        """How much an instance holds, in words."""
        parts = [
            (getattr(getattr(self, "graph", None), "operations", ()), "operation"),
            (getattr(getattr(self, "workload", None), "kernels", ()), "kernel"),
            (getattr(self, "kernels", ()), "kernel"),
            (getattr(self, "models", ()), "model"),
        ]
        return [counted(len(one), noun) for one, noun in parts if one]

    def _repr_html_(self) -> str | None:
        """An instance as a row of a table, for notebooks; None for records without a name and a schema."""
        name, schema = getattr(self, "name", ""), getattr(self, "schema", "")
        if not (name and schema and hasattr(self, "check")):
            return None
        return html_row(
            {
                "instance": str(name),
                "schema": str(schema),
                "holds": ", ".join(self._sizes()),
                "hash": self.content_hash[:12],
            }
        )

    def replace(self, **changes: Any) -> Self:
        """A copy with ``changes``, checked again."""
        refuse_nan(changes, type(self).__name__)
        fields = msgspec.to_builtins(self)
        fields.update({key: msgspec.to_builtins(value, enc_hook=_plain) for key, value in changes.items()})
        return self._made(fields)


def html_row(cells: dict[str, str]) -> str:
    """A table of one row in HTML."""
    head = "".join(f"<th>{escape(name)}</th>" for name in cells)
    body = "".join(f"<td>{escape(text)}</td>" for text in cells.values())
    return f"<table><tr>{head}</tr><tr>{body}</tr></table>"


def natural(ticks: int | None, unit_per_tick: float) -> float | None:
    """``ticks · unit_per_tick`` as the nearest float to the exact decimal product (None stays None).

    >>> natural(9_000_000, 1e-6), natural(3, 1e-3)
    (9.0, 0.003)
    """
    return None if ticks is None else float(ticks * Decimal(repr(unit_per_tick)))


class Unit(Record, frozen=True, kw_only=True):
    """A unit for people: its ``name`` and what of it one tick is."""

    name: str
    per_tick: Annotated[float, msgspec.Meta(gt=0)]


class Units(Record, frozen=True, kw_only=True):
    """The unit of objective and bound, and those of the terms that have others."""

    objective: Unit
    terms: dict[str, Unit] = {}

    def of(self, term: str) -> Unit:
        """The unit of a term."""
        return self.terms.get(term, self.objective)


class InTicks(Record, frozen=True, kw_only=True):
    """A record with amounts in ticks of the objective that may know its unit."""

    def told_in(self, units: Units | None) -> Self:
        """The record, whose amounts are told in these units from now on (no part of what is written)."""
        self.__dict__["_units"] = units
        return self

    @property
    def unit(self) -> str:
        """The unit in which amounts are told; "ticks" where it isn't known: a result and what it holds know it."""
        units: Units | None = self.__dict__.get("_units")
        return units.objective.name if units else "ticks"

    def in_unit(self, ticks: int | None) -> float | None:
        """So many ticks in :attr:`unit` (None stays None)."""
        units: Units | None = self.__dict__.get("_units")
        return natural(ticks, units.objective.per_tick if units else 1)


def _sha256(record: Record) -> str:
    canonical = msgspec.json.encode(hashed(record.hashed_as()), order="sorted")
    return hashlib.sha256(canonical).hexdigest()


def read_bytes(path: str | Path) -> bytes:
    """The content of the file at ``path``; :class:`InputError` when it can't be read."""
    try:
        if Path(path).is_file():
            return Path(path).read_bytes()
        with Path(path).open("rb") as stream:
            return read_stream(stream, str(path))
    except OSError as error:
        raise _unreadable(path, error) from None


def read_stream(stream: BinaryIO, where: str) -> bytes:
    """All that a pipe or a device gives; :class:`InputError` for one that doesn't end (``/dev/zero``)."""
    data = stream.read(MOST_STREAM + 1)
    if len(data) > MOST_STREAM:
        what = f"gives more than {MOST_STREAM // 2**20} MiB"
        raise InputError(what, where, "Write it to a file, and give that.")
    return data


class Source:
    """An input: a file, of which a reader may open only what it needs, or bytes from elsewhere.

    ``where`` is the file's path, or what errors call the bytes. ``path`` is None for bytes and for what can be read
    only once (a pipe), which is in memory then. ``beside``: a second input that belongs to it (a table of edges).
    Names of graphs come from ``where``, so bytes of a path that aren't UTF-8 are written out there.
    """

    def __init__(self, where: str | Path, data: bytes | None = None) -> None:
        self.where = str(where).encode(errors="backslashreplace").decode()
        if data is None and not Path(where).is_file():
            data = read_bytes(where)
        self._data = None if data is None else _unmarked(data, self.where)
        self.path = str(where) if data is None else None
        self.beside: Source | None = None

    @cached_property
    def head(self) -> bytes:
        """The first 64 bytes, without a byte order mark."""
        if self._data is not None:
            return self._data[:64]
        try:
            with self.open() as file:
                return _unmarked(file.read(64), self.where)
        except OSError as error:
            raise _unreadable(self.where, error) from None

    def open(self) -> BinaryIO:
        """The input as a binary file that can be sought in; it is the caller's to close."""
        if self.path is None:
            return io.BytesIO(self._data or b"")
        try:
            return Path(self.path).open("rb")
        except OSError as error:
            raise _unreadable(self.where, error) from None

    def content(self) -> bytes:
        """All of it, without a byte order mark."""
        if self._data is None:
            self._data = _unmarked(read_bytes(self.path or self.where), self.where)
        return self._data


_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: How text in UTF-16 begins: with its byte order mark, or as JSON does.
_UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"{\0", b"\0{", b"[\0", b"\0[")


def _unmarked(data: bytes, where: str) -> bytes:
    """The data without a byte order mark; :class:`InputError` for text in UTF-16, as some editors and shells write."""
    if data.startswith(_UTF_16):
        remedy = "Save it as UTF-8, for example by: iconv -f UTF-16 -t UTF-8 FILE > NEW"
        raise InputError("is text in UTF-16, and UTF-8 is read", where, remedy)
    return data.removeprefix(_BYTE_ORDER_MARK)


def _unreadable(path: str | Path, error: OSError) -> InputError:
    return InputError(f"can't be read: {error.strerror or error}", str(path), "Check the path.")


def unfit(error: Exception, kind: Any, where: str, remedy: str = "", value: str = "") -> InputError:
    """What to say where msgspec found that data don't fit the type ``kind``; ``value``: the data, where short."""
    found = mismatch(str(error), kind, value)
    if found.names:
        remedy = choices(found.name, found.names, "The fields are" if found.fields else "Choose from")
    joint = "" if found.path.startswith("[") or not (where and found.path) else ": "
    return InputError(found.what, f"{where}{joint}{found.path}", found.remedy or remedy)


def _validation_error(cls: type[Record], error: Exception, where: str) -> InputError:
    schema = (cls.__struct_defaults__ or ("",))[0]
    name = schema.partition("/")[0] if isinstance(schema, str) and "/" in schema else ""
    remedy = f"`chipmap info --schema {name}` prints the format." if name else f"It is part of a {cls.__name__}."
    return unfit(error, cls, where, remedy)
