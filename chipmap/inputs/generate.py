"""Instances from named generators."""

from __future__ import annotations

from typing import Any

from chipmap.family import resolve
from chipmap.inputs.reading import generators
from chipmap.records import InputError, Record


def generate(name: str, /, **parameters: Any) -> Record:
    """The instance that generator ``name`` makes with these parameters; the same ones give the same instance.

    Raises :class:`InputError` that names the generators, or the parameters, that there are.
    """
    known = generators()
    if name not in known:
        raise InputError(f"no generator is called {name!r}", "generate", f"Choose from: {', '.join(known)}.")
    instance: Record = resolve(known[name].function)(**parameters)
    return instance
