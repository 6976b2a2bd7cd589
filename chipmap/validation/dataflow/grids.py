"""Products on a grid of chips: rows over some dimensions of a group, terms over the others.

From ``docs/families/dataflow-tensor.md``, "Rows and terms over different dimensions", alone.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.system import Dimension
from chipmap.instances.dataflow.workload import Kernel, Scheme

PRODUCTS: frozenset[Scheme] = frozenset(("M_K", "K_M"))


def _group(instance: DataflowInstance, degrees: Degrees) -> list[Dimension]:
    pairs = zip(instance.system.network, degrees.dimensions, strict=True)
    found = [one for one, use in pairs if use == "tensor" and one.size > 1]
    return sorted(found, key=lambda one: one.bytes_per_ns, reverse=True)


def dimensions(scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> tuple[list[Dimension], list[Dimension]]:
    """The dimensions over which a product's rows are split, and those of its terms."""
    links = _group(instance, degrees)
    return (links[:-1], links[-1:]) if scheme == "M_K" else (links[-1:], links[:-1])


def _part(count: int, links: list[Dimension]) -> Fraction:
    return Fraction(-(-count // prod(one.size for one in links)), count)


def rows(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """The part of a product's rows on the fullest chip, before its sums are scattered."""
    return _part(kernel.outer * kernel.M, dimensions(scheme, instance, degrees)[0])


def terms(kernel: Kernel, scheme: Scheme, instance: DataflowInstance, degrees: Degrees) -> Fraction:
    """The part of a product's terms on the fullest chip, and so of what it reads."""
    return _part(kernel.K, dimensions(scheme, instance, degrees)[1])
