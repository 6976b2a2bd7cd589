"""From ``--set`` to the parameters of a generator, by their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_type_hints

import msgspec.inspect

from chipmap.family import resolve
from chipmap.inputs import settings as changes
from chipmap.inputs.reading import generators
from chipmap.records import InputError, choices


def parameters_of(name: str, settings: Iterable[str]) -> dict[str, Any]:
    """What the ``settings`` (``sequence=128``) give the generator ``name``, by the types of its parameters."""
    known, given = generators(), dict[str, Any]()
    function = resolve(known[name].function) if name in known else None
    types = {} if function is None else function.types() if hasattr(function, "types") else get_type_hints(function)
    for setting in settings:
        parameter, text = changes.split(setting)
        if function and parameter not in types and not _takes_any(function):
            what = f"{name} has no parameter {parameter!r}"
            raise InputError(what, f"--set {setting}", choices(parameter, _parameters(function, types), "It has"))
        kind = msgspec.inspect.type_info(types.get(parameter, Any))
        given[parameter] = changes.fitted(text, kind, parameter, f"--set {setting}")
    return given


def _parameters(function: Any, types: Iterable[str]) -> list[str]:
    return list(function.parameters() if hasattr(function, "parameters") else (t for t in types if t != "return"))


def _takes_any(function: Callable[..., Any]) -> bool:
    """Whether ``function`` takes parameters of any name."""
    if hasattr(function, "types"):
        return False
    return any(one.kind is one.VAR_KEYWORD for one in inspect.signature(function).parameters.values())
