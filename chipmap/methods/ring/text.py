"""Numbers and names of ring instances as people read them."""

from __future__ import annotations

from chipmap.instances.ring.problem import TICKS_PER_NS, RingProblem
from chipmap.records.quantities import number

TICKS_PER_US = 1000 * TICKS_PER_NS


def us(ticks: float) -> str:
    """Ticks in microseconds, seven significant digits: ``1,234.5 us``."""
    return f"{number(ticks / TICKS_PER_US)} us"


def times(part: float, whole: float) -> str:
    """``part / whole`` with four decimals, as the papers give multiples of the average: ``2.4989``."""
    return f"{part / whole:.4f}" if whole else "n/a"


def name(problem: RingProblem, v: int) -> str:
    """The name of operation ``v``."""
    return problem.instance.graph.operations[v].name
