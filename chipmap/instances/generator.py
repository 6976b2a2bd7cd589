"""What the named generators of all families share: keyword parameters, checked against their annotations."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, cast, get_type_hints
from zlib import crc32

import msgspec

from chipmap.records import InputError, choices, unfit

_REMEDY = "docs/instances.md lists the parameters with their types and ranges."
Instance = TypeVar("Instance")


class NamedGenerator(Generic[Instance]):
    """Makes instances from keyword parameters: those of ``network`` and the fields of the family's ``setting``.

    A setting is a record with a method ``instance``, which takes the generator's name and what ``network`` made.
    ``defaults`` are the generator's own, where they differ.
    """

    setting: ClassVar[type[Any]]

    def __init__(self, name: str, network: Callable[..., Any], **defaults: Any) -> None:
        self.name, self.network, self.defaults = name, network, defaults
        self.__doc__ = network.__doc__

    def __call__(self, **parameters: Any) -> Instance:
        """The instance with these parameters. Raises :class:`InputError` that names the valid ones."""
        setting, own = self.read(parameters)
        instance = setting.instance(self.name, self.network(**own))
        instance.check()
        return cast(Instance, instance)

    def parameters(self) -> dict[str, Any]:
        """Every parameter with its default (``inspect.Parameter.empty`` where one must be given)."""
        own = {p.name: p.default for p in inspect.signature(self.network).parameters.values()}
        return own | msgspec.structs.asdict(self.setting()) | self.defaults

    def types(self) -> dict[str, Any]:
        """The type of every parameter."""
        return get_type_hints(self.network, include_extras=True) | get_type_hints(self.setting)

    def read(self, parameters: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The setting, and the network's own parameters, converted to the types and checked against the ranges.

        A parameter that doesn't exist, is missing, or has the wrong type or range raises :class:`InputError`.
        """
        given = _checked(self.name, self.defaults | parameters, self)
        fields = self.setting.__struct_fields__
        return self.setting(**{name: given.pop(name) for name in fields if name in given}), given


def types_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The type of every parameter of a generator."""
    return function.types() if isinstance(function, NamedGenerator) else get_type_hints(function, include_extras=True)


def defaults_of(function: Callable[..., Any]) -> tuple[dict[str, Any], bool]:
    """Every parameter of a generator with its default (``inspect.Parameter.empty`` where one must be given), and
    whether it takes parameters of any other name."""
    if isinstance(function, NamedGenerator):
        return function.parameters(), False
    known = inspect.signature(function).parameters.values()
    named = {one.name: one.default for one in known if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)}
    return named, any(one.kind is one.VAR_KEYWORD for one in known)


def made(name: str, function: Callable[..., Instance], parameters: dict[str, Any]) -> Instance:
    """What the generator ``name`` makes of these parameters.

    Those of a plain function are checked against its annotations; a :class:`NamedGenerator` checks its own. Raises
    :class:`InputError` that names the parameter.
    """
    if isinstance(function, NamedGenerator):
        return function(**parameters)
    return function(**_checked(name, parameters, function))


def _checked(name: str, given: dict[str, Any], function: Callable[..., Any]) -> dict[str, Any]:
    """What is ``given`` for the parameters of a generator, as their types have it."""
    (known, any_name), hints = defaults_of(function), types_of(function)
    for parameter in given:
        if parameter not in known and not any_name:
            remedy = choices(parameter, known, "It has")
            raise InputError(f"{name} has no parameter {parameter!r}", "parameters", remedy)
    for parameter, default in known.items():
        if default is inspect.Parameter.empty and parameter not in given:
            raise InputError("is missing", f"{name}: {parameter}", _REMEDY)
    return {p: _fitting(value, hints.get(p, Any), f"{name}: {p}") for p, value in given.items()}


#: A generated instance's name has fewer characters: it names folders, and tables have a column of it.
LONGEST_NAME = 60


def told(function: Callable[..., Any], parameters: dict[str, Any], name: str = "") -> str:
    """The parameters that differ from their defaults, as the end of a ``name``: ``-layers=4-sizes=4x2``.

    Where the whole had :data:`LONGEST_NAME` characters or more, they are the first ones and a number that all make.
    """
    known, _ = defaults_of(function)
    given = [(name, parameters[name]) for name in sorted(parameters)]
    words = "".join(f"-{name}={_word(value)}" for name, value in given if name not in known or known[name] != value)
    room = max(LONGEST_NAME - 1 - len(name), 9)
    return words if len(words) <= room else f"{words[: room - 9]}~{crc32(words.encode()):08x}"


def _word(value: Any) -> str:
    """A value as a part of a name, and of a file's name."""
    parts = [str(one) for one in value] if isinstance(value, (list, tuple)) else [msgspec.json.encode(value).decode()]
    return re.sub(r"[^\w.+-]", "", "x".join(parts))


def _fitting(value: Any, hint: Any, where: str) -> Any:
    """The value as the type of a parameter, within its range."""
    try:
        fitted = msgspec.convert(value, hint)
    except (msgspec.ValidationError, OverflowError) as error:
        raise unfit(error, hint, where, _REMEDY, repr(value)) from None
    if isinstance(fitted, float) and not math.isfinite(fitted):
        raise InputError(f"is {value}", where, "Give a finite number.")
    return fitted
