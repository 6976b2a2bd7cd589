"""Shipped tiny instances with valid mappings, found by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

from chipmap.family import family_of, resolve
from chipmap.inputs.reading import read, shipped_names

#: How many candidates of an instance are looked at.
TRIED = 300


def names(family: str) -> tuple[str, ...]:
    """The family's tiny shipped instances by name: making them and their mappings is left to the test that runs."""
    return tuple(name for name in shipped_names() if name.startswith(f"{family}/tiny-"))


@cache
def tiny(name: str) -> Any:
    """A shipped instance."""
    return read(name)


@cache
def mappings_of(name: str) -> tuple[tuple[Any, Any, Any], ...]:
    """(instance, solution, certificate) of two valid mappings of a tiny instance: the first one, and the next one with
    another objective."""
    instance = tiny(name)
    family = family_of(instance)
    check, found = resolve(family.check), dict[Any, tuple[Any, Any, Any]]()
    for solution in islice(resolve(family.candidates)(instance), TRIED):
        certificate = check(instance, solution)
        if certificate.feasible:
            found.setdefault(certificate.objective, (instance, solution, certificate))
        if len(found) == 2:
            break
    return tuple(found.values())


def mappings(family: str) -> Iterator[tuple[Any, Any, Any]]:
    """Those of all tiny instances of the family."""
    return (one for name in names(family) for one in mappings_of(name))
