"""What an instance is short of: the fewest chips for a period, and the least SRAM or chips with which a mapping exists.

All by programs over ideals: each question is a bisection on a number of the package, and each answer is exact.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.engines.ideals import IdealFamily
from chipmap.heuristics.ring.programs.program import Programs
from chipmap.heuristics.ring.programs.triangle import NEVER, TooManyStatesError, solve_exact
from chipmap.heuristics.ring.programs.triangle_kernel import fewest_after
from chipmap.instances.ring.problem import ring_problem


def decide(programs: Programs, ideals: IdealFamily, upper: int, deadline: Deadline) -> tuple[int, ...] | bool | None:
    """A mapping with value <= ``upper`` ticks (chip per operation); False: proved that none exists; None: undecided.

    The necessary program, the sufficient one, then the exact one.
    """
    problem = programs.problem
    found = programs.solve("n1", ideals, upper, deadline)
    if found.chips is None:
        return False
    if not problem.has("C3"):
        return found.chips
    found = programs.solve("path", ideals, upper, deadline)
    if found.chips is not None:
        return found.chips
    if not problem.has("C2"):
        return None
    try:
        found = solve_exact(programs, ideals, upper, deadline)
    except TooManyStatesError:
        return None
    return found.chips if found.chips is not None else False


def fewest_chips(
    programs: Programs, ideals: IdealFamily, target: int, known: int, deadline: Deadline
) -> tuple[int, int]:
    """(chips that every mapping with value <= ``target`` ticks uses at least, chips with which one exists).

    ``known`` chips are known to do. Both are equal unless a decision stayed open.
    """
    after = np.full(len(ideals), NEVER, dtype=np.int64)
    after[-1] = 0
    for start, count, reached, _, _ in programs.pairs("n1", ideals, target, backwards=True):
        fewest_after(start, count, reached, after)
        deadline.check()
    low, high = min(int(after[0]), known), known
    middle = low
    while low < high:
        found = decide(_packaged(programs, chips=middle), ideals, target, deadline)
        if found is None:
            return low, high
        if found is False:
            low = middle + 1
        else:
            high = middle
        middle = (low + high) // 2
    return low, high


def least_sram(programs: Programs, ideals: IdealFamily, deadline: Deadline) -> tuple[int, tuple[int, ...]] | None:
    """(the least bytes of SRAM per chip with which a mapping exists, such a mapping), exact to the byte, by bisection.

    None if no SRAM does, or if a decision stayed open.
    """
    problem = programs.problem
    low, high = problem.least_weights - 1, problem.most_bytes
    return _least(programs, ideals, "sram_bytes", low, high, deadline) or None


def least_chips(
    programs: Programs, ideals: IdealFamily, deadline: Deadline
) -> tuple[int, tuple[int, ...]] | Literal[False] | None:
    """(the least number of chips with which a mapping exists, such a mapping), by bisection up to one per operation.

    False: proved that no number does (more chips than operations never help). None if a decision stayed open, or with
    pins or forbidden chips (the contracted instance knows them for the chips of its package only).
    """
    if any(chips is not None for chips in programs.problem.allowed):
        return None
    return _least(programs, ideals, "chips", 0, programs.graph.n, deadline)


def _least(
    programs: Programs, ideals: IdealFamily, field: str, low: int, high: int, deadline: Deadline
) -> tuple[int, tuple[int, ...]] | Literal[False] | None:
    """(the least number above ``low`` that admits a mapping, the mapping); False if ``high`` doesn't, None if open.

    It is a number of the package, its ``field``.
    """

    def decision(number: int) -> tuple[int, ...] | bool | None:
        return decide(_packaged(programs, **{field: number}), ideals, programs.problem.most_ticks, deadline)

    best = decision(high)
    if not isinstance(best, tuple):
        return False if best is False else None
    while high - low > 1:
        middle = (low + high) // 2
        found = decision(middle)
        if found is None:
            return None
        if isinstance(found, tuple):
            best, high = found, middle
        else:
            low = middle
    return high, best


def _packaged(programs: Programs, **changes: int) -> Programs:
    """The programs of the same problem on a changed package."""
    instance = programs.problem.instance
    package = msgspec.structs.replace(instance.package, **changes)
    return Programs(ring_problem(msgspec.structs.replace(instance, package=package)), programs.graph)
