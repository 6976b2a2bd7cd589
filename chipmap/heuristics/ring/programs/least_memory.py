"""The least SRAM with which a ring instance has a mapping, by programs over ideals."""

from __future__ import annotations

from chipmap.heuristics.ring.programs.ideals import IdealFamily
from chipmap.heuristics.ring.programs.program import Programs, Rule
from chipmap.instances.ring.problem import ring_problem


def least_sram(programs: Programs, ideals: IdealFamily) -> tuple[int, int | None] | None:
    """(bytes below which no mapping exists, bytes that do), to a thousandth; None if memory isn't known to be to blame.

    Bisection on the SRAM with the program ``n1`` (necessary) for the first and ``path`` (sufficient) for the second,
    which is None when not even unlimited memory admits a ``path`` chain.
    """
    problem = programs.problem
    ample = problem.most_bytes
    if not fits(programs, ideals, "n1", ample) or fits(programs, ideals, "n1", problem.sram_bytes):
        return None
    low, _ = _bisect(programs, ideals, "n1", problem.sram_bytes, ample)
    if not fits(programs, ideals, "path", ample):
        return low, None
    return low, _bisect(programs, ideals, "path", low - 1, ample)[1]


def _bisect(programs: Programs, ideals: IdealFamily, rule: Rule, low: int, high: int) -> tuple[int, int]:
    """(one more than a size that doesn't fit, a size that does), given that ``low`` doesn't and ``high`` does."""
    while high - low > max(1, low // 1000):
        middle = (low + high) // 2
        if fits(programs, ideals, rule, middle):
            high = middle
        else:
            low = middle
    return low + 1, high


def fits(programs: Programs, ideals: IdealFamily, rule: Rule, sram: int) -> bool:
    """Whether a chain under ``rule`` exists with ``sram`` bytes per chip (without any oracle)."""
    instance = programs.problem.instance
    other = instance.replace(package=instance.package.replace(sram_bytes=sram))
    return Programs(ring_problem(other)).solve(rule, ideals).value is not None
