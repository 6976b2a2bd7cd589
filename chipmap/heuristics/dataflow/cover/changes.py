"""What the kernels of a known partition pay for changes of layout at least, as the pricing program counts it.

Readers of a tensor share a change, and so do products that one kernel adds up. Who pays, and for which layout, depends
on the order of the readers. A partition pays at least for the dearest need of its readers, once for each tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chipmap.heuristics.dataflow.symmetric.classes import Classes, Link


class Changes:
    """Changes of layout of the tensors between these ``classes``."""

    def __init__(self, classes: Classes) -> None:
        self.classes, self.of = classes, classes.of()
        self.number = {(link.u, link.v): e for e, link in enumerate(classes.links)}
        self.made = [_parts(link.made) for link in classes.links]
        self.taken = [_parts(link.taken) for link in classes.links]

    def link(self, u: int, v: int) -> tuple[int, Link]:
        """The link of a tensor from kernel u to v, and its number."""
        e = self.number[self.of[u], self.of[v]]
        return e, self.classes.links[e]

    def least(self, tensors: Iterable[tuple[int, int]], chosen: Sequence[int]) -> float:
        """Picoseconds for changes of the ``tensors`` (maker, reader) that the kernels of a partition read, at the
        options ``chosen`` of all kernels."""
        total, shared = 0.0, dict[tuple[int, int], dict[int, float]]()
        for u, v in tensors:
            e, link = self.link(u, v)
            price = link.converts[self.made[e][chosen[u]]][self.taken[e][chosen[v]]]
            if link.payers == "reader":
                total += price
            elif link.payers == "readers":
                own = shared.setdefault((u, -1), {})
                own[0] = max(own.get(0, 0.0), price)
            else:  # members of a class in equal shares
                own = shared.setdefault((-1, v), {})
                own[e] = own.get(e, 0.0) + price / (link.tensors / self.classes.size(link.v))
        return total + sum(max(own.values()) for own in shared.values())


def _parts(parts: Sequence[Sequence[int]]) -> dict[int, int]:
    """The number of the part that each option is in."""
    return {o: i for i, part in enumerate(parts) for o in part}
