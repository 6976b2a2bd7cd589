"""Heads that groups of chips share out, and rows or terms of each head that the chips of a group share out.

From ``docs/families/dataflow-tensor.md``, "Tokens of the context", alone.
"""

from __future__ import annotations

from fractions import Fraction

from chipmap.instances.dataflow.instance import Degrees
from chipmap.instances.dataflow.workload import Kernel, Scheme

#: Schemes of this page's section.
GROUPED: frozenset[Scheme] = frozenset(("OUTER_M", "OUTER_K"))


def groups(kernel: Kernel, degrees: Degrees) -> int:
    """The largest number that divides the chips and the heads of the kernel's cache (its own where none is told)."""
    heads = kernel.fetch_outer if kernel.fetch_outer else kernel.outer
    return max(count for count in range(1, heads + 1) if heads % count == 0 and degrees.tensor % count == 0)


def among(kernel: Kernel, degrees: Degrees) -> int:
    """Chips of a group."""
    return degrees.tensor // groups(kernel, degrees)


def within(kernel: Kernel, scheme: Scheme, degrees: Degrees) -> Fraction:
    """The part of each head's rows, or terms, on the chip of a group that has most of them."""
    count, chips = (kernel.M if scheme == "OUTER_M" else kernel.K), among(kernel, degrees)
    return Fraction((count + chips - 1) // chips, count)


def share(kernel: Kernel, scheme: Scheme, degrees: Degrees) -> Fraction:
    """A chip's part of the work."""
    return within(kernel, scheme, degrees) / groups(kernel, degrees)


def left(kernel: Kernel, scheme: Scheme, degrees: Degrees) -> int:
    """Groups whose chips have rows of each of their heads of what a kernel leaves; 0 where it leaves another layout."""
    return groups(kernel, degrees) if scheme == "OUTER_M" else 0


def reads(kernel: Kernel, scheme: Scheme, maker: Kernel) -> str:
    """The layout in which an activation is read: rows of each head (HR) by an element-wise kernel, and by a product
    of what is as high as it has terms; else heads (SR)."""
    if kernel.kind == "elementwise":
        return "HR"
    return "HR" if scheme == "OUTER_K" and maker.outer == kernel.outer and maker.M == kernel.K else "SR"
