"""From a name, a file or standard input to an instance or a solution: decoded strictly, changed, checked."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import msgspec

from chipmap.family import FAMILY_NAMES, Family, FileFormat, Generator, family_of, get_family, resolve
from chipmap.inputs import settings as changes
from chipmap.records import InputError, Record, Source, choices, fields, nearest, read_stream, unfit
from chipmap.records.repeats import refuse_repeats

if TYPE_CHECKING:
    from chipmap.instances.dataflow.instance import DataflowInstance
    from chipmap.instances.multimodel.instance import MultiInstance
    from chipmap.instances.placement.instance import PlacementInstance
    from chipmap.instances.ring.instance import RingInstance
    from chipmap.instances.wafer.instance import WaferInstance

_FORMATS = "An instance is a JSON file with a `schema`; `chipmap convert` makes one from a published graph format."


ORDER = "The order is: chipmap check INSTANCE SOLUTION"


class _Head(msgspec.Struct):
    """The part of a file that says what it is."""

    schema: str | None = None


@dataclass(frozen=True)
class Conversion:
    """How a published graph is converted: ``dims`` (``batch=1``, ``tokens=1x128``) for what it leaves open, what its
    ``unknown`` operators count (None: the reader's default), and who is told what it comes to, line by line.

    ``branch`` (``true``, ``false``, ``heavier``) is read where a program's inputs decide between two.
    ``equipment``: the ``system`` and the files of ``costs`` that an instance gets, for families that take them.
    """

    dims: Sequence[str] = ()
    unknown: str | None = None
    tell: Callable[[str], None] | None = None
    equipment: Mapping[str, Any] = field(default_factory=dict)
    branch: str | None = None


@overload
def read(
    source: str | Path, settings: Iterable[str] = (), *, family: Literal["ring"], conversion: Conversion = ...
) -> RingInstance: ...
@overload
def read(
    source: str | Path, settings: Iterable[str] = (), *, family: Literal["dataflow"], conversion: Conversion = ...
) -> DataflowInstance: ...
@overload
def read(
    source: str | Path, settings: Iterable[str] = (), *, family: Literal["wafer"], conversion: Conversion = ...
) -> WaferInstance: ...
@overload
def read(
    source: str | Path, settings: Iterable[str] = (), *, family: Literal["multimodel"], conversion: Conversion = ...
) -> MultiInstance: ...
@overload
def read(
    source: str | Path, settings: Iterable[str] = (), *, family: Literal["placement"], conversion: Conversion = ...
) -> PlacementInstance: ...
@overload
def read(
    source: str | Path, settings: Iterable[str] = (), family: str | None = None, conversion: Conversion = ...
) -> Record: ...
def read(
    source: str | Path,
    settings: Iterable[str] = (),
    family: str | None = None,
    conversion: Conversion = Conversion(),
) -> Record:
    """The instance that ``source`` names: a file, an archive, a shipped instance (``ring/bert-large-36``), or ``-``.

    A text that names a shipped instance stands for it, whatever lies there: ``./ring/bert-large-36`` is a path.
    ``settings`` are changes (``dotted.path=VALUE``, :mod:`chipmap.inputs.settings`), applied before the
    check. With ``family``, a published graph format is converted on the way, an instance of another family is refused,
    and type checkers know the record. Raises
    :class:`InputError` with file, path and remedy.
    """
    name, settings = str(source), list(settings)
    found = None if isinstance(source, Path) and source.exists() else shipped_entry(name)
    if found is not None and family not in (None, name.partition("/")[0]):
        raise InputError(f"is an instance of family {name.partition('/')[0]!r}", name, f"Leave out --family {family}.")
    if found is not None:
        return _equipped(found(), name, conversion, settings)
    if name != "-" and not os.path.exists(name):
        _missing(name)
    if Path(name).is_dir():
        name = str(in_archive(Path(name), "instance.json"))
    return _decoded(source_of(name), settings, family, conversion)


def read_graphs(
    sources: Sequence[str | Path],
    settings: Iterable[str] = (),
    family: str | None = None,
    conversion: Conversion = Conversion(),
) -> Record:
    """The one instance of several published graphs, for families that take them; arguments as of :func:`read`."""
    from chipmap.networks.importers.reading import paired

    where = ", ".join(map(str, sources))
    if family is None:
        raise InputError("several graphs make one instance of a family", where, "Name it with --family.")
    graphs = paired([source_of(str(source)) for source in sources])
    if len(graphs) > 1 and not get_family(family).from_graphs:
        raise InputError(f"family {family!r} takes one graph at a time", where, "Convert each by itself.")
    return changed(convert(graphs, get_family(family), conversion), where, list(settings))


def load(name: str) -> bytes:
    """The bytes of a file, or of standard input for ``-``, without a byte order mark."""
    return source_of(name).content()


def source_of(name: str) -> Source:
    """A file, which isn't read yet, or standard input for ``-``, which is."""
    if name != "-":
        return Source(name)
    if sys.stdin is None:
        raise InputError("is closed", "standard input", "Give a file, or send something to standard input.")
    return Source("standard input", read_stream(sys.stdin.buffer, "standard input"))


def decode(
    data: bytes,
    where: str,
    settings: Iterable[str] = (),
    family: str | None = None,
    conversion: Conversion = Conversion(),
) -> Record:
    """The instance in ``data``; ``where`` names its source in errors."""
    return _decoded(Source(where, data), settings, family, conversion)


def _decoded(source: Source, settings: Iterable[str], family: str | None, conversion: Conversion) -> Record:
    """The instance in ``source``; a graph in a binary format, which may be large, is not read whole."""
    settings, where = list(settings), source.where
    is_json = source.head.lstrip()[:1] == b"{"
    if not is_json:
        from chipmap.networks.importers.reading import is_binary, is_text
    if not is_json and is_binary(source):
        if family is None:
            remedy = "`chipmap convert` makes one of it, of the family that you name with --family."
            raise InputError("is a network, not an instance", where, remedy)
        return changed(convert([source], get_family(family), conversion), where, settings)
    data = source.content()
    if is_json:
        refuse_repeats(data, where)
    if family is None and not is_json and is_text(source):
        raise InputError("is a graph, not an instance", where, "Name the family that it is for: --family ring.")
    native = file_format(data, where, "instance")
    if native is None and file_format(data, where, "solution") is not None:
        raise InputError("is a solution, not an instance", where, ORDER)
    schema = None if native is not None else schema_of(data, where, graph=family is not None)
    if native is None and schema is None:
        if family is None:
            raise InputError("has no `schema`, so it is no instance", where, f"{_FORMATS} A graph needs --family.")
        return changed(convert([source], get_family(family), conversion), where, settings)
    if conversion.dims:
        raise InputError("an instance has no dimensions to give values to", where, "Leave out --dim.")
    if conversion.unknown is not None:
        raise InputError("an instance has no operators to count", where, "Leave out --unknown.")
    if conversion.branch is not None:
        raise InputError("an instance has no branches to choose from", where, "Leave out --branch.")
    found = native[0] if native is not None else _family_of_schema(schema or "", where)
    if family is not None and family != found.name:
        raise InputError(f"is an instance of family {found.name!r}", where, f"Leave out --family {family}.")
    if native is not None:
        return _equipped(checked(resolve(native[1].read)(data, where), where), where, conversion, settings)
    record: type[Record] = resolve(found.instance)
    if conversion.equipment:
        return _equipped(checked(fields.from_json(record, data, where), where), where, conversion, settings)
    if settings:
        plain = plain_of(data, where)
        changes.apply(plain, record, settings)
        data, where = msgspec.json.encode(plain), f"{where} with --set"
    return checked(fields.from_json(record, data, where), where)


def file_format(data: bytes, name: str, holds: str) -> tuple[Family, FileFormat] | None:
    """The family and the format of its own that a file of that name and content is in; None for JSON and graphs."""
    for family in map(get_family, FAMILY_NAMES):
        for one in family.formats:
            if one.holds == holds and one.fits(data, name):
                return family, one
    return None


def convert(graphs: Sequence[Source], family: Family, conversion: Conversion) -> Record:
    """The instance of ``family`` with its default package made of graphs in published formats."""
    from chipmap.networks.importers.reading import import_graphs, summary

    everywhere = ", ".join(graph.where for graph in graphs)
    if not family.from_graph and not family.from_graphs:
        raise InputError(f"family {family.name!r} takes no graphs", everywhere, "Give an instance.")
    named = [(graph, "stdin" if graph.where == "standard input" else Path(graph.where).stem) for graph in graphs]
    imported = import_graphs(named, dimensions(conversion.dims), conversion.unknown, conversion.branch)
    if conversion.tell is not None:
        for graph, name in imported:
            for line in summary(graph):
                conversion.tell(f"{name}: {line}" if len(imported) > 1 else line)
    _no_equipment(family, conversion)
    alone = len(imported) == 1 and family.from_graph
    made: Record = (
        resolve(family.from_graph)(*imported[0])
        if alone
        else resolve(family.from_graphs)(imported, **conversion.equipment)
    )
    if alone and conversion.equipment and family.equip_graph:
        made = resolve(family.equip_graph)(made, imported[0][0], **conversion.equipment)
    elif alone and conversion.equipment:
        made = resolve(family.equip)(made, **conversion.equipment)
    return checked(made, everywhere)


def _equipped(instance: Record, where: str, conversion: Conversion, settings: list[str]) -> Record:
    """The instance with another system and other costs, where any are asked for, and with the settings."""
    if conversion.equipment:
        family = family_of(instance)
        _no_equipment(family, conversion)
        instance = resolve(family.equip)(instance, **conversion.equipment)
        if not settings:
            return checked(instance, where)
    return changed(instance, f"{where} with --set", settings)


def _no_equipment(family: Family, conversion: Conversion) -> None:
    """Refuse equipment for a family that takes none."""
    if "word_bytes" in conversion.equipment and not family.from_graphs:
        what = f"family {family.name!r} takes the bytes of numbers as the graph has them"
        raise InputError(what, "--word-bytes", "Leave it out.")
    if conversion.equipment and not family.equip:
        option = f"--{next(iter(conversion.equipment))}"
        raise InputError(f"family {family.name!r} takes none", option, "Change the instance with --set.")


def dimensions(dims: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Values of symbolic dimensions and shapes of tensors from ``batch=1`` and ``tokens=1x128``."""
    given = {}
    for text in dims:
        name, _, value = text.rpartition("=")
        sizes = value.split("x")
        if not name or not all(size.isascii() and size.isdigit() and len(size) < 16 for size in sizes):
            raise InputError(f"{text!r} gives no dimension a value", "--dim", "Write batch=1, or tokens=1x128.")
        given[name] = tuple(int(size) for size in sizes)
    return given


def plain_of(data: bytes, where: str) -> dict[str, Any]:
    """The object in ``data``; the part of a file that says what it is may be whole where the rest is not."""
    try:
        plain: dict[str, Any] = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not valid JSON: {error}", where, "Mend the file at that position.") from None
    return plain


def encode(instance: Record, name: str, solution: Record | None = None) -> bytes:
    """The instance, or the solution of it, in the format that the ending of the file ``name`` asks for (else JSON).

    Raises :class:`InputError` where the format is another family's, or holds the other of the two.
    """
    holds = "instance" if solution is None else "solution"
    for family in map(get_family, FAMILY_NAMES):
        for form in family.formats:
            if not name.lower().endswith(form.ending):
                continue
            if family is not family_of(instance) or form.holds != holds:
                what = f"a {form.ending} holds a {form.holds} of family {family.name!r}"
                raise InputError(what, name, "Let the name end in .json.")
            data: bytes = resolve(form.write)(*((instance,) if solution is None else (instance, solution)))
            return data
    return (instance if solution is None else solution).to_json(indent=1)


def checked(instance: Record, where: str) -> Record:
    """The instance, if its own check accepts it; errors name ``where``."""
    try:
        instance.check()  # type: ignore[attr-defined]
    except InputError as error:
        raise InputError(error.what, f"{where}: {error.where}" if error.where else where, error.remedy) from None
    return instance


def shipped_names() -> list[str]:
    """The names of all shipped instances, ``family/name``."""
    return [full for name in FAMILY_NAMES for full in _shipped(get_family(name))]


def shipped_entry(name: str) -> Callable[[], Record] | None:
    """What makes the shipped instance of that name; None if there is none."""
    prefix = name.partition("/")[0]
    if prefix not in FAMILY_NAMES:
        return None
    return _shipped(get_family(prefix)).get(name)


def generators() -> dict[str, Generator]:
    """All generators by name."""
    return {generator.name: generator for name in FAMILY_NAMES for generator in get_family(name).generators}


def generate(name: str, /, **parameters: Any) -> Record:
    """The instance that generator ``name`` makes with these parameters; the same ones give the same instance.

    Its name says which of them differ from the generator's defaults, unless a ``name`` is given.

    Raises :class:`InputError` that names the generators, or the parameters, that there are.
    """
    known = generators()
    if name not in known:
        raise InputError(f"no generator is called {name!r}", "generate", choices(name, known))
    from chipmap.instances.generator import made, told

    function = resolve(known[name].function)
    instance: Record = made(name, function, parameters)
    further = "" if "name" in parameters else told(function, parameters, str(getattr(instance, "name", "")))
    return instance.replace(name=f"{instance.name}{further}") if further else instance  # type: ignore[attr-defined]


def _shipped(family: Family) -> Mapping[str, Callable[[], Record]]:
    """Shipped instances by full name."""
    made: dict[str, Callable[[], Record]] = {}
    for name, (spec, parameters) in (resolve(family.shipped) if family.shipped else {}).items():
        full = name if name.startswith(f"{family.name}/") else f"{family.name}/{name}"
        made[full] = partial(_made, spec, parameters)
    return made


def _made(spec: str, parameters: Mapping[str, Any]) -> Record:
    instance: Record = resolve(spec if ":" in spec else generators()[spec].function)(**parameters)
    return instance


def changed(instance: Record, where: str, settings: list[str]) -> Record:
    """The instance with the settings applied, checked again."""
    if not settings:
        return instance
    plain = msgspec.json.decode(msgspec.json.encode(instance))
    changes.apply(plain, type(instance), settings)
    return checked(type(instance).from_json(msgspec.json.encode(plain), where), where)


def schema_of(data: bytes, where: str, graph: bool, remedy: str = _FORMATS) -> str | None:
    """The file's ``schema``; None if it states none (``graph``: nor need it be JSON). ``remedy`` is for what isn't."""
    if not data.strip():
        raise InputError("is empty", where, remedy)
    try:
        return msgspec.json.decode(data, type=_Head).schema
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if graph:
            return None
        if isinstance(error, msgspec.ValidationError):
            raise unfit(error, _Head, where, remedy) from None
        raise InputError(f"not valid JSON: {error}", where, f"Mend the file at that position. {remedy}") from None


def _family_of_schema(schema: str, where: str) -> Family:
    name = schema.partition("/")[0]
    known = {family.name: family.schema for family in map(get_family, FAMILY_NAMES)}
    if name in known and schema in get_family(name).schemas:
        return get_family(name)
    if name in known:
        what = f"schema {schema!r} is not the version that this chipmap reads"
        raise InputError(what, where, f"It reads {known[name]!r}: convert the file, or use the chipmap that wrote it.")
    raise InputError(f"schema {schema!r} is no instance's", where, choices(schema, known.values(), "Known schemas"))


def in_archive(directory: Path, file: str) -> Path:
    """The path of a file of an archive. Raises :class:`InputError` for an archive that isn't whole."""
    from chipmap.archive import require_whole

    require_whole(directory)
    return directory / file


def _missing(name: str) -> None:
    if name in FAMILY_NAMES:
        first = next(iter(_shipped(get_family(name))), f"{name}/…")
        remedy = f"`chipmap info {name}` lists its instances: {first} is one."
        raise InputError("is a family, not an instance", name, remedy)
    near = nearest(name, [*FAMILY_NAMES, *shipped_names()])
    remedy = f"Did you mean {' or '.join(near)}?" if near else "`chipmap info` lists the shipped instances."
    raise InputError("no such file, and no shipped instance of that name", name, remedy)
