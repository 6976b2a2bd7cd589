"""A sweep: instances times methods times seeds, as axes over a generator's parameters or an instance's fields."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Literal

import msgspec

from chipmap import __version__
from chipmap.family import FAMILY_NAMES, Family, get_family, resolve
from chipmap.inputs import settings as changes
from chipmap.inputs.reading import generators, load, plain_of
from chipmap.known.records import Origin
from chipmap.known.registry import made
from chipmap.records import InputError, Record, choices

#: Points that a sweep may have.
MOST_POINTS = 1_000_000


class AxisChoice(Record, frozen=True, kw_only=True):
    """One value of an axis: its name in tables, and what it changes.

    ``generator`` (with ``parameters``) or ``instance`` replaces where the instance comes from; ``parameters`` are added
    to the generator's; ``set`` holds changes of the finished instance (dotted path -> value).
    """

    label: str
    generator: str | None = None
    instance: str | None = None
    parameters: dict[str, Any] = {}
    set: dict[str, Any] = {}


class Axis(Record, frozen=True, kw_only=True):
    """One axis: either ``choices``, or plain ``values`` of a generator's ``parameter`` or of the field at ``path``."""

    name: str
    choices: tuple[AxisChoice, ...] = ()
    parameter: str | None = None
    path: str | None = None
    values: tuple[Any, ...] = ()

    def all_choices(self) -> tuple[AxisChoice, ...]:
        """The choices, plain values turned into them."""
        if self.parameter is not None:
            return tuple(AxisChoice(label=_label(v), parameters={self.parameter: v}) for v in self.values)
        if self.path is not None:
            return tuple(AxisChoice(label=_label(v), set={self.path: v}) for v in self.values)
        return self.choices

    def check(self, where: str) -> None:
        """Raise :class:`InputError` unless the axis has one kind of values, with different labels."""
        kinds = [bool(self.choices), self.parameter is not None, self.path is not None]
        if sum(kinds) != 1 or bool(self.values) == bool(self.choices):
            what = f"axis {self.name!r} must have choices, or values of either a parameter or a path"
            remedy = 'Write {"name": "sram", "path": "system.chip.sram_bytes", "values": [100, 200]}.'
            raise InputError(what, where, remedy)
        again = _again(choice.label for choice in self.all_choices())
        if again is not None:
            raise InputError(f"axis {self.name!r} has {again!r} twice", where, "Name every choice differently.")


class Sweep(Record, frozen=True, kw_only=True):
    """Every combination of the axes' choices, solved by every method with every seed.

    An instance comes from ``generator`` with ``parameters`` or is ``instance`` (a file or a shipped name); then the
    fields of ``set`` (dotted path -> value) are changed. Without ``methods`` the family's best chain is used.
    ``time_limit_s`` seconds and ``memory_gib`` GiB are the most that a point may take.
    """

    schema: Literal["sweep/1"] = "sweep/1"
    name: str
    notes: str = ""
    generator: str | None = None
    instance: str | None = None
    parameters: dict[str, Any] = {}
    set: dict[str, Any] = {}
    axes: tuple[Axis, ...] = ()
    methods: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (0,)
    time_limit_s: float = 120.0
    memory_gib: float = 4.0

    def check(self) -> None:
        """Raise :class:`InputError` for what the types alone don't exclude."""
        for i, axis in enumerate(self.axes):
            axis.check(f"axes[{i}]")
        names = [axis.name for axis in self.axes]
        if len(set(names)) < len(names):
            raise InputError("two axes have the same name", "axes", "Name every axis differently.")
        for name in ("time_limit_s", "memory_gib"):
            if not 0.0 < (value := getattr(self, name)) < 1e9:
                raise InputError(f"is {value}", name, "Give a number above 0.")
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise InputError("must name each seed once, and at least one", "seeds", "Give [0].")
        self._check_methods()
        count = len(self.seeds) * max(1, len(self.methods)) * prod(len(axis.all_choices()) for axis in self.axes)
        if count > MOST_POINTS:
            raise InputError(f"has {count:,} points", "axes", f"Split it into sweeps of at most {MOST_POINTS:,}.")

    def _check_methods(self) -> None:
        known = [method.name for family in map(get_family, FAMILY_NAMES) for method in family.methods]
        short = {name.partition("/")[2] for name in known}
        for method in self.methods:
            if method not in known and method not in short:
                raise InputError(f"no method is called {method!r}", "methods", choices(method, known))
        again = _again(self.methods)
        if again is not None:
            raise InputError(f"{again!r} is named twice", "methods", "Name each once.")


class Point(Record, frozen=True, kw_only=True):
    """One cell of the matrix. ``labels`` names its choice on every axis; ``key`` is a hash of all that decides it.

    ``contents`` are the SHA-256 of the files that ``instance`` and ``parameters`` name, as they were when the sweep was
    read.
    """

    labels: dict[str, str]
    generator: str | None
    instance: str | None
    parameters: dict[str, Any]
    set: dict[str, Any]
    contents: dict[str, str] = {}
    method: str | None
    seed: int
    time_limit_s: float
    memory_gib: float

    @property
    def key(self) -> str:
        """What is solved, how, and by which version, without limits and labels, as a hash."""
        source = (self.generator, self.instance, self.parameters, self.set, self.contents)
        decides = (*source, self.method, self.seed, __version__)
        return hashlib.sha256(msgspec.json.encode(decides, order="sorted")).hexdigest()[:32]

    @property
    def origin(self) -> Origin:
        """Where the instance comes from."""
        return Origin(instance=self.instance, generator=self.generator, parameters=self.parameters, set=self.set)

    def build(self) -> Record:
        """The instance. Raises :class:`InputError` that names the point."""
        try:
            return made(self.origin)
        except InputError as error:
            where = ": ".join(filter(None, (" ".join(self.labels.values()), error.where)))
            raise InputError(error.what, where, error.remedy) from None


def points(sweep: Sweep) -> list[Point]:
    """All points in the order of the axes. Raises :class:`InputError` where one has no instance to come from."""
    found = []
    for chosen in product(*(axis.all_choices() for axis in sweep.axes)):
        labels = {axis.name: choice.label for axis, choice in zip(sweep.axes, chosen, strict=True)}
        source = _source(sweep, chosen) | {"time_limit_s": sweep.time_limit_s, "memory_gib": sweep.memory_gib}
        for method, seed in product(sweep.methods or (None,), sweep.seeds):
            more = {"method": method} if len(sweep.methods) > 1 and method else {}
            more |= {"seed": str(seed)} if len(sweep.seeds) > 1 else {}
            found.append(Point(labels=labels | more, method=method, seed=seed, **source))
    return found


def families_of(todo: Iterable[Point]) -> list[Family]:
    """The families of the points, told by the names of shipped instances and generators; files are left out."""
    owner = {generator.name: name for name in FAMILY_NAMES for generator in get_family(name).generators}
    named = (owner.get(point.generator or "") or str(point.instance).partition("/")[0] for point in todo)
    return [get_family(name) for name in dict.fromkeys(named) if name in FAMILY_NAMES]


def _source(sweep: Sweep, chosen: Iterable[AxisChoice]) -> dict[str, Any]:
    """The fields of a point that say where its instance comes from; of the choices the later ones win."""
    generator, instance, parameters, changed = sweep.generator, sweep.instance, sweep.parameters, sweep.set
    for choice in chosen:
        if choice.generator is not None or choice.instance is not None:
            generator, instance = choice.generator, choice.instance
        parameters, changed = parameters | choice.parameters, changed | choice.set
    if (generator is None) == (instance is None):
        remedy = "Give one in the sweep or in every choice."
        raise InputError("needs a generator or an instance, not both", "generator", remedy)
    if generator is not None and generator not in generators():
        raise InputError(f"no generator is called {generator!r}", "generator", choices(generator, generators()))
    if instance is not None and parameters:
        raise InputError("an instance takes no parameters", "parameters", "Change its fields by `set`.")
    files = _contents([instance, *parameters.values()])
    return {"generator": generator, "instance": instance, "parameters": parameters, "set": changed, "contents": files}


def _contents(values: Iterable[Any]) -> dict[str, str]:
    """SHA-256 of the files (or archives' instances) that ``values`` name, by name."""
    found = {}
    for name in values:
        if isinstance(name, str) and os.path.exists(name):
            path = Path(name, "instance.json") if os.path.isdir(name) else Path(name)
            if path.is_file():
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def shipped_sweeps(*families: Family) -> dict[str, dict[str, Any]]:
    """The shipped sweeps of ``families`` (none: of all): name -> fields of :class:`Sweep`."""
    having = (family for family in families or map(get_family, FAMILY_NAMES) if family.sweeps)
    return {name: fields for family in having for name, fields in resolve(family.sweeps).items()}


def read_sweep(source: str, settings: Iterable[str] = ()) -> Sweep:
    """The sweep in the file ``source``, or the shipped one of that name; ``settings`` are ``path=JSON`` changes."""
    if source == "-" or os.path.exists(source):
        where, plain = source, _plain(load(source), source)
    elif source in shipped_sweeps():
        where, plain = source, msgspec.to_builtins(shipped_sweeps()[source] | {"name": source})
    else:
        remedy = choices(source, shipped_sweeps(), "Shipped sweeps")
        raise InputError("no such file, and no shipped sweep of that name", source, remedy)
    changes.apply(plain, Sweep, settings)
    sweep = Sweep.from_json(msgspec.json.encode(plain), where)
    try:
        sweep.check()
        points(sweep)
    except InputError as error:
        raise InputError(error.what, f"{where}: {error.where}", error.remedy) from None
    return sweep


def _plain(data: bytes, where: str) -> dict[str, Any]:
    plain = plain_of(data, where)
    if not isinstance(plain, dict) or plain.get("schema") != "sweep/1":
        raise InputError('is no sweep: its schema isn\'t "sweep/1"', where, "docs/sweeps.md describes the format.")
    return plain


def _again(names: Iterable[str]) -> str | None:
    """The first name that has come before; None where all differ."""
    seen = set[str]()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _label(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
