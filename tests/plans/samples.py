"""Shipped tiny instances with valid mappings, found by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

from chipmap.family import get_family, resolve
from chipmap.inputs.reading import read, shipped_names

#: How many candidates of an instance are looked at.
TRIED = 300


@cache
def tiny(family: str) -> tuple[Any, ...]:
    """The family's tiny shipped instances."""
    names = [name for name in shipped_names() if name.startswith(f"{family}/tiny-")]
    return tuple(read(name) for name in names)


def mappings(family: str, each: int = 2) -> Iterator[tuple[Any, Any, Any]]:
    """(instance, solution, certificate) of up to ``each`` valid mappings per tiny instance: the first one, and those
    that follow with another objective."""
    one = get_family(family)
    check = resolve(one.check)
    for instance in tiny(family):
        seen = set[Any]()
        for solution in islice(resolve(one.candidates)(instance), TRIED):
            certificate = check(instance, solution)
            if certificate.feasible and certificate.objective not in seen and len(seen) < each:
                seen.add(certificate.objective)
                yield instance, solution, certificate
