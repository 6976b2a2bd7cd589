"""What the compiled propagator works on: constraints, chip intervals, and the steps that tighten and undo them (numba).

A *net* holds the constraints, a *state* the intervals and everything that the search needs to undo a step. Functions
that tighten return False on a contradiction; what changed lies on the trail.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chipmap.kernels import njit


class Constants(NamedTuple):
    """The bytes of shared constants [k], read by readers[reader_at[s]:reader_at[s + 1]]; operation v reads
    ins[in_at[v]:in_at[v + 1]].
    """

    bytes: Any
    reader_at: Any
    readers: Any
    in_at: Any
    ins: Any


class Sizes(NamedTuple):
    """What C4 adds up: weights [n], shared constants; per storage s its maker, its bytes and
    readers[reader_at[s]:reader_at[s + 1]]; per operation v the storages ins[in_at[v]:in_at[v + 1]] that it reads; a
    topological ``order``.

    ``sram`` [1] is the SRAM of a chip, -1 where C4 is not propagated.
    """

    weights: Any
    constants: Constants
    makers: Any
    bytes: Any
    reader_at: Any
    readers: Any
    in_at: Any
    ins: Any
    order: Any
    sram: Any


class Room(NamedTuple):
    """Scratch for adding up memory: ``slack`` and ``least`` [C, C], ``lowest``, ``seen``, ``out`` and ``into`` [C],
    ``counted`` per storage, ``source`` and ``fewest`` [n], ``rests`` [k, C] per shared constant.
    """

    slack: Any
    least: Any
    lowest: Any
    seen: Any
    out: Any
    into: Any
    counted: Any
    source: Any
    fewest: Any
    rests: Any


class Net(NamedTuple):
    """Constraints: flows per operation with the cap on f(v) - f(u), skips, allowed chips, sizes, the modes.

    ``ends`` [2, m, 2] has (other end, cap) of the flows out of (0) and into (1) each operation v, in the rows
    ``ends_at[., v]`` to ``ends_at[., v + 1]``. ``skips`` [k, 3] has (u, w, v) of the skips in which operation x is one
    of the three, in the rows ``skips_at[x]`` to ``skips_at[x + 1]``. ``allowed[0, v, c]`` is the least allowed chip
    >= c (C if none), ``allowed[1, v, c]`` the greatest <= c (-1 if none). ``modes`` = (prefix, triangle).
    """

    ends_at: Any
    ends: Any
    skips_at: Any
    skips: Any
    flows: Any
    allowed: Any
    sizes: Sizes
    modes: Any


class PropagationState(NamedTuple):
    """``box`` [n, 3] holds lo, hi and whether an operation waits; the rest is what tightening and undoing need.

    ``trail`` [m, 3]: (operation, old lo, old hi) from row 1 on, row 0 has its length. ``queue`` [2 + n]: first, number,
    and a ring of operations to look at. ``sets`` [4, C]: the chips that a chip sends to, hears from, reaches, and is
    reached from, as bits (C3). ``counts`` [2, C + 1] is room for counting, ``room`` for adding up memory.

    What runs in the inner loops takes these arrays one by one: handing on a tuple costs more than the work itself.
    """

    box: Any
    trail: Any
    queue: Any
    sets: Any
    counts: Any
    room: Room


@njit(part=True)
def _push(box: Any, queue: Any, v: int) -> None:
    """Have operation v looked at."""
    if not box[v, 2]:
        box[v, 2] = 1
        at = queue[0] + queue[1]
        room = len(queue) - 2
        queue[2 + (at if at < room else at - room)] = v
        queue[1] += 1


@njit(part=True)
def pop(box: Any, queue: Any) -> int:
    """The operation that has waited longest."""
    v = queue[2 + queue[0]]
    queue[0] = queue[0] + 1 if queue[0] + 3 < len(queue) else 0
    queue[1] -= 1
    box[v, 2] = 0
    return v


@njit(part=True)
def _remember(box: Any, trail: Any, v: int) -> None:
    at = trail[0, 0] + 1
    trail[at, 0], trail[at, 1], trail[at, 2] = v, box[v, 0], box[v, 1]
    trail[0, 0] = at


@njit(part=True)
def at_least(allowed: Any, box: Any, trail: Any, queue: Any, v: int, c: int) -> bool:
    """f(v) >= c."""
    if c <= box[v, 0]:
        return True
    if c > box[v, 1]:
        return False
    c = allowed[0, v, c]
    if c > box[v, 1]:
        return False
    _remember(box, trail, v)
    box[v, 0] = c
    _push(box, queue, v)
    return True


@njit(part=True)
def at_most(allowed: Any, box: Any, trail: Any, queue: Any, v: int, c: int) -> bool:
    """f(v) <= c."""
    if c >= box[v, 1]:
        return True
    if c < box[v, 0]:
        return False
    c = allowed[1, v, c]
    if c < box[v, 0]:
        return False
    _remember(box, trail, v)
    box[v, 1] = c
    _push(box, queue, v)
    return True


@njit(part=True)
def undo(state: PropagationState, mark: int) -> None:
    """Take back everything since the trail had length ``mark``."""
    box, trail = state.box, state.trail
    for at in range(trail[0, 0], mark, -1):
        v = trail[at, 0]
        box[v, 0], box[v, 1] = trail[at, 1], trail[at, 2]
    trail[0, 0] = mark
