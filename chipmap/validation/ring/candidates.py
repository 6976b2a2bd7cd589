"""All mappings of a tiny instance of family ``ring``, for brute force."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.validation.ring.facts import facts


def count(instance: RingInstance) -> int:
    """C to the number of computing operations."""
    return int(instance.package.chips ** len(facts(instance).computing))


def candidates(instance: RingInstance) -> Iterator[RingSolution]:
    """Every mapping of the computing operations; the others sit where they break C1 only if they must.

    What depends on a computing operation follows its latest producer (the earliest chip that C1 leaves); the rest,
    such as inputs and constants, sits with its earliest reader, or on chip 0 if nothing reads it.
    """
    known = facts(instance)
    order = instance.graph.topological_order()
    producers: list[list[int]] = [[] for _ in order]
    readers: list[list[int]] = [[] for _ in order]
    for u, v in known.edges:
        producers[v].append(u)
        readers[u].append(v)
    for choice in product(range(instance.package.chips), repeat=len(known.computing)):
        chips: dict[int, int] = dict(zip(known.computing, choice, strict=True))
        for v in order:
            placed = [chips[u] for u in producers[v] if u in chips]
            if v not in chips and placed:
                chips[v] = max(placed)
        for v in reversed(order):
            if v not in chips:
                chips[v] = min((chips[w] for w in readers[v]), default=0)
        yield RingSolution(instance=instance.name, chips=tuple(chips[v] for v in range(len(order))))
