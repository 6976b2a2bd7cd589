"""Numbers and names of ring instances as people read them."""

from __future__ import annotations

from chipmap.instances.ring.problem import TICKS_PER_NS, RingProblem

TICKS_PER_US = 1000 * TICKS_PER_NS


def us(ticks: float) -> str:
    """Ticks in microseconds, seven significant digits: ``1,234.5 us``."""
    value = ticks / TICKS_PER_US
    return f"{value:,.0f} us" if value >= 1e7 else f"{value:,.7g} us"


def size(count: float) -> str:
    """Bytes, with MiB beside them where they are many: ``2,097,152 bytes (2 MiB)``."""
    plain = f"{count:,.0f} bytes"
    return f"{plain} ({count / 2**20:.4g} MiB)" if count >= 2**20 else plain


def times(part: float, whole: float) -> str:
    """``part / whole`` with four decimals, as the papers give multiples of the average: ``2.4989``."""
    return f"{part / whole:.4f}" if whole else "n/a"


def name(problem: RingProblem, v: int) -> str:
    """The name of operation ``v``."""
    return problem.instance.graph.operations[v].name
