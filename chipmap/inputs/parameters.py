"""From ``--set`` to the parameters of a generator, by their types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec.inspect

from chipmap.family import resolve
from chipmap.inputs import settings as changes
from chipmap.inputs.reading import generators
from chipmap.instances.generator import defaults_of, types_of
from chipmap.records import InputError, choices


def parameters_of(name: str, settings: Iterable[str]) -> dict[str, Any]:
    """What the ``settings`` (``sequence=128``) give the generator ``name``, by the types of its parameters."""
    known, given = generators(), dict[str, Any]()
    function = resolve(known[name].function) if name in known else None
    types, (names, any_name) = (types_of(function), defaults_of(function)) if function else ({}, ({}, True))
    for setting in settings:
        parameter, text = changes.split(setting)
        if parameter not in names and not any_name:
            what = f"{name} has no parameter {parameter!r}"
            raise InputError(what, f"--set {setting}", choices(parameter, names, "It has"))
        kind = msgspec.inspect.type_info(types.get(parameter, Any))
        given[parameter] = changes.fitted(text, kind, parameter, f"--set {setting}")
    return given
