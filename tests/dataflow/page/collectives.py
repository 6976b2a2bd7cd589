"""Collectives along one network dimension, and over several: ``docs/families/dataflow.md``, "Collectives";
``dataflow-parallelism.md``; ``dataflow-tensor.md``; ``dataflow-training.md``, "Sums over several dimensions"."""

from __future__ import annotations

import math
from fractions import Fraction

from chipmap.instances.dataflow.system import Dimension
from tests.dataflow.page import amounts


def collective(what: str, size: Fraction, link: Dimension, factor: int = 2) -> Fraction:
    """The table of collectives: nanoseconds for a tensor of ``size`` bytes. Nothing where there are no bytes."""
    n, rate, late = link.size, amounts.written(link.bytes_per_ns, link.efficiency), amounts.written(link.latency_ns)
    if size == 0:
        return Fraction(0)
    start = amounts.written(link.start_ns)
    full = link.topology == "full"
    if what == "all-reduce":
        if link.reduces:
            return start + size / rate + 2 * late
        once = size / (n * rate) if full else size * (n - 1) / (n * rate)
        return start + factor * once + (2 if full else 2 * (n - 1)) * late
    if what == "gather":  # and reduce-scatter
        return start + (size / (n * rate) + late if full else size * (n - 1) / (n * rate) + (n - 1) * late)
    assert what == "all-to-all"
    each = {"ring": Fraction(n * n, 8), "switch": Fraction(n, 4), "full": Fraction(1)}[link.topology]
    return start + size * each / rate + (1 if full else n - 1) * late


def swap(held: Fraction, link: Dimension) -> Fraction:
    """Every chip sends another n-th of its ``held`` bytes to each of the others."""
    n, rate, late = link.size, amounts.written(link.bytes_per_ns, link.efficiency), amounts.written(link.latency_ns)
    if held == 0:
        return Fraction(0)
    times = {"ring": n * n // 4, "switch": n - 1, "full": 1}[link.topology]
    return amounts.written(link.start_ns) + held * times / (n * rate) + (1 if link.topology == "full" else n - 1) * late


def nested(what: str, size: Fraction, links: list[Dimension]) -> Fraction:
    """An all-reduce, or a reduce-scatter or gather, over several dimensions: each moves what the faster ones left."""
    total = Fraction(0)
    for i, link in enumerate(links):
        if what == "all-reduce" and i < len(links) - 1:
            total += 2 * collective("gather", size, link)
        else:
            total += collective(what, size, link)
        size /= link.size
    return total


def over_group(what: str, size: Fraction, links: list[Dimension], factor: int = 2) -> Fraction:
    """A collective over a tensor-parallel group: nested, or in slices, whichever is shorter."""
    if len(links) == 1:
        return collective(what, size, links[0], factor)
    slices, k = Fraction(0), len(links)
    for t in range(k):
        turn = []
        for i in range(k):
            left = size / k / math.prod(links[(i + s) % k].size for s in range(t))
            turn.append(collective("gather", left, links[(i + t) % k]))
        slices += max(turn)
    return min(nested(what, size, links), slices * (2 if what == "all-reduce" else 1))


def swap_over_group(held: Fraction, links: list[Dimension]) -> Fraction:
    """A swap along each dimension, or of as many slices as dimensions."""
    if not links:
        return Fraction(0)
    together = len(links) * max(swap(held / len(links), link) for link in links)
    return min(together, sum((swap(held, link) for link in links), Fraction(0)))


def a_few(links: list[Dimension], chips: int) -> list[Dimension]:
    """So many neighbours of a group."""
    found = []
    for link in links:
        found.append(link.replace(size=math.gcd(chips, link.size)))
        chips //= found[-1].size
    return [link for link in found if link.size > 1]
