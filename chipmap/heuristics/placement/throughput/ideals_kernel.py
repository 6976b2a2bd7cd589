"""The compiled sweep over pairs of ideals (numba; one thread)."""

from __future__ import annotations

from typing import Any, NamedTuple

from chipmap.kernels import njit

#: No chain yet.
NONE = 2**62


class Lattice(NamedTuple):
    """The ideals as in ``IdealFamily``, and ``left`` [m]: the least time of all units outside each, in ns."""

    words: Any
    first: Any
    added: Any
    target: Any
    left: Any


class Units(NamedTuple):
    """Per unit ``time`` [U, K], ``bytes`` [U], and ``allowed`` kinds of devices as bits [U]; unit v is in the nets
    ``nets[net_at[v]:net_at[v + 1]]``.
    """

    time: Any
    bytes: Any
    allowed: Any
    net_at: Any
    nets: Any


class UnitNets(NamedTuple):
    """Per net its units as a bit set ``words`` [n, w], ``cost`` in ns and ``bytes``."""

    words: Any
    cost: Any
    bytes: Any


class Kinds(NamedTuple):
    """Per kind of devices how many there are (``count``), ``memory`` (-1: no limit), whether they are ``paying``; the
    states with j used devices of kind k are those whose number holds j at ``stride[k]``. ``overlap``: the larger of
    computing and transfers counts.
    """

    count: Any
    memory: Any
    paying: Any
    stride: Any
    overlap: bool


class Chains(NamedTuple):
    """[m, states]: the ``best`` largest load of a chain of blocks up to an ideal that uses so many devices of each
    kind, the ideal ``before`` its last block, and the ``kind`` of device of that block.
    """

    best: Any
    before: Any
    kind: Any


class Blocks(NamedTuple):
    """The blocks from one ideal on, in the order of their search: the ideal ``end``, ``work`` [., K] ns, and ``sums``
    [., 4]: transfers so far that no later unit takes back; all transfers; bytes; kinds allowed, as bits. ``seen`` [m]:
    from which ideal an ideal was met last.
    """

    seen: Any
    end: Any
    work: Any
    sums: Any


@njit(cache=True)
def sweep(
    begin: int,
    end: int,
    upper: int,
    lattice: Lattice,
    units: Units,
    nets: UnitNets,
    kinds: Kinds,
    chains: Chains,
    blocks: Blocks,
) -> int:
    """Add all blocks that begin at ideals ``begin`` to ``end`` - 1 to the chains that end there; loads below ``upper``
    count. Returns the number of blocks. Ideals come in order of size, so chains to an ideal are known at its turn.
    """
    count, states, total = len(kinds.count), chains.best.shape[1], 0
    for i in range(begin, end):
        if not _open(i, upper, lattice, kinds, chains):
            continue
        # blocks.end[:queued] are the ideals reached from i by blocks that can still have a load below upper
        queued, at = 1, 0
        blocks.seen[i], blocks.end[0] = i, i
        blocks.work[0, :] = 0
        blocks.sums[0, :3] = 0
        blocks.sums[0, 3] = (1 << count) - 1
        while at < queued:
            j = blocks.end[at]
            if at > 0:
                total += 1
                for k in range(count):
                    load = _load(blocks, at, k, 1, kinds)
                    if load >= upper:
                        continue
                    # one more device of kind k, wherever one is left
                    for state in range(states):
                        value = max(chains.best[i, state], load)
                        if value < upper and (state // kinds.stride[k]) % (kinds.count[k] + 1) < kinds.count[k]:
                            following = state + kinds.stride[k]
                            if value < chains.best[j, following]:
                                chains.best[j, following] = value
                                chains.before[j, following] = i
                                chains.kind[j, following] = k
            for step in range(lattice.first[j], lattice.first[j + 1]):
                target = lattice.target[step]
                if blocks.seen[target] != i:
                    blocks.seen[target] = i
                    _extend(at, queued, lattice.added[step], lattice.words[i], lattice.words[j], units, nets, blocks)
                    for k in range(count):
                        if _load(blocks, queued, k, 0, kinds) < upper:
                            blocks.end[queued] = target
                            queued += 1
                            break
            at += 1
    return total


@njit(part=True)
def _open(i: int, upper: int, lattice: Lattice, kinds: Kinds, chains: Chains) -> bool:
    """Whether a chain to ideal i may go on; states whose devices left can't take what is left are closed."""
    found = False
    for state in range(chains.best.shape[1]):
        if chains.best[i, state] < upper:
            devices = 0
            for k in range(len(kinds.count)):
                devices += kinds.count[k] - (state // kinds.stride[k]) % (kinds.count[k] + 1)
            if lattice.left[i] > 0 and (devices == 0 or (lattice.left[i] - 1) // devices + 1 >= upper):
                chains.best[i, state] = NONE
            else:
                found = True
    return found


@njit(part=True)
def _load(blocks: Blocks, b: int, k: int, which: int, kinds: Kinds) -> int:
    """The load of block b on a device of kind k with all its transfers (``which`` 1), or with those alone that stay
    whatever is added (0); :data:`NONE` where it doesn't fit.
    """
    if (blocks.sums[b, 3] >> k) & 1 == 0 or (kinds.memory[k] >= 0 and blocks.sums[b, 2] > kinds.memory[k]):
        return NONE
    work = blocks.work[b, k]
    if not kinds.paying[k]:
        return work
    moved = blocks.sums[b, which]
    return max(work, moved) if kinds.overlap else work + moved


@njit(part=True)
def _extend(
    old: int, new: int, v: int, inside: Any, block_end: Any, units: Units, nets: UnitNets, blocks: Blocks
) -> None:
    """Block ``new`` is block ``old`` = block_end \\ inside and unit v.

    A net that v is the first of the block to be in costs from now on: for good if it has a unit inside, else until all
    its units are in the block.
    """
    width, unit_at, unit_bit = len(inside), v >> 6, 1 << (v & 63)
    for k in range(blocks.work.shape[1]):
        blocks.work[new, k] = blocks.work[old, k] + units.time[v, k]
    fixed, moved, size = blocks.sums[old, 0], blocks.sums[old, 1], blocks.sums[old, 2] + units.bytes[v]
    for r in range(units.net_at[v], units.net_at[v + 1]):
        n = units.nets[r]
        touched, earlier, later = False, False, False
        for w in range(width):
            word, here = nets.words[n, w], block_end[w] & ~inside[w]
            touched = touched or word & here != 0
            earlier = earlier or word & inside[w] != 0
            rest = word & ~block_end[w]
            if w == unit_at:
                rest &= ~nets.words.dtype.type(unit_bit)
            later = later or rest != 0
        if not touched:
            size += nets.bytes[n]
            if earlier:
                fixed += nets.cost[n]
            if earlier or later:
                moved += nets.cost[n]
        elif not earlier and not later:
            moved -= nets.cost[n]
    blocks.sums[new, 0], blocks.sums[new, 1], blocks.sums[new, 2] = fixed, moved, size
    blocks.sums[new, 3] = blocks.sums[old, 3] & units.allowed[v]
