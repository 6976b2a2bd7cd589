"""Dead-state tests and forced operations from C3 in the station search (numba)."""

from __future__ import annotations

from typing import Any

import numpy as np

from chipmap.heuristics.ring.programs.kernel import ONE, ZERO, copy_words
from chipmap.kernels import njit

#: The flow graph as bit sets [4, n, w]: what comes directly or at all before and after each operation. (One array: each
#: array that is handed to a function costs as much as some words of its work.)
PRODUCERS, READERS, ANCESTORS, DESCENDANTS = 0, 1, 2, 3


@njit(part=True)
def dead(pattern: Any, ideal: Any, relations: Any) -> bool:
    """Whether some group reaches another before which it has no reader to come: C3 breaks whatever follows.

    Chip a reaches chip c, and an operation x outside the ideal reads from a and comes after an operation of c. The
    path from c to the chip b of x ends with an edge into b from a chip that a reaches, beside the edge (a, b).
    """
    width = len(ideal)
    groups = int(np.int64(pattern[0]))
    sent = np.zeros((groups, width), dtype=np.uint64)
    below = np.zeros((groups, width), dtype=np.uint64)
    for g in range(groups):
        for w in range(width):
            word = pattern[1 + g * width + w]
            u = w * 64
            while word != 0:
                if word & ONE:
                    for x in range(width):
                        sent[g, x] |= relations[READERS, u, x]
                        below[g, x] |= relations[DESCENDANTS, u, x]
                word >>= ONE
                u += 1
    for a in range(groups):
        row = pattern[1 + groups * width + a]
        for c in range(groups):
            if (row >> np.uint64(c)) & ONE:
                for w in range(width):
                    if sent[a, w] & below[c, w] & ~ideal[w] != 0:
                        return True
    return False


@njit(part=True)
def _spread(words: Any, table: Any, out: Any) -> None:
    """Into ``out`` [w]: the union of the rows of ``table`` that the bits of ``words`` name."""
    for w in range(len(words)):
        word = words[w]
        u = w * 64
        while word != 0:
            if word & ONE:
                for x in range(len(out)):
                    out[x] |= table[u, x]
            word >>= ONE
            u += 1


@njit(part=True)
def _merge(sets: Any, count: int, new: Any) -> int:
    """Enter ``new`` into the disjoint ``sets``, one with all that it meets; returns how many there are then."""
    x = 0
    while x < count:
        meets = False
        for w in range(len(new)):
            meets = meets or sets[x, w] & new[w] != 0
        if meets:
            for w in range(len(new)):
                new[w] |= sets[x, w]
            copy_words(sets[count - 1], sets[x])
            count -= 1
            x = 0
        else:
            x += 1
    copy_words(new, sets[count])
    return count + 1


@njit(part=True)
def _total(words: Any, amounts: Any) -> int:
    """The sum of the amounts that the bits of ``words`` name."""
    total = 0
    for w in range(len(words)):
        word = words[w]
        z = w * 64
        while word != 0:
            if word & ONE:
                total += amounts[z]
            word >>= ONE
            z += 1
    return total


@njit(part=True)
def together(pattern: Any, ideal: Any, limit: int, ticks: Any, relations: Any, sets: Any) -> bool:
    """Whether what the open groups force onto one chip can be there: work <= ``limit``, and C3 for its senders.

    ``sets`` [n + 1, w] (or more) is room.
    """
    width = len(ideal)
    groups = int(np.int64(pattern[0]))
    sent = np.zeros((groups, width), dtype=np.uint64)
    count = _forced_sets(pattern, ideal, relations, sent, sets)
    for at in range(count):
        if _total(sets[at], ticks) > limit:
            return False
        sending = ZERO
        for g in range(groups):
            for w in range(width):
                if sent[g, w] & sets[at, w] != 0:
                    sending |= ONE << np.uint64(g)
                    break
        for g in range(groups):
            if (sending >> np.uint64(g)) & ONE and pattern[1 + groups * width + g] & sending != 0:
                return False
    return True


@njit(part=True)
def _forced_sets(pattern: Any, ideal: Any, relations: Any, sent: Any, sets: Any) -> int:
    """Into ``sets``: operations that must share a chip; into ``sent`` [G, w]: each group's readers outside the ideal.

    If y and x outside the ideal both read from chip a and x comes after y, they share a chip with all between them:
    otherwise a path leads from a by y's chip to x's, beside the edge that C3 then forbids. Sets that meet are one.
    Returns the number of sets.
    """
    width = len(ideal)
    readers, ancestors, descendants = relations[READERS], relations[ANCESTORS], relations[DESCENDANTS]
    below = np.empty(width, dtype=np.uint64)
    above = np.empty(width, dtype=np.uint64)
    new = np.empty(width, dtype=np.uint64)
    count = 0
    for g in range(len(sent)):
        _spread(pattern[1 + g * width : 1 + (g + 1) * width], readers, sent[g])
        for w in range(width):
            sent[g, w] &= ~ideal[w]
        below[:] = 0
        _spread(sent[g], descendants, below)
        for w in range(width):
            word = below[w] & sent[g, w]  # readers with another before them
            x = w * 64
            while word != 0:
                if word & ONE:
                    for y in range(width):
                        new[y] = above[y] = sent[g, y] & ancestors[x, y]
                    _spread(above, descendants, new)
                    for y in range(width):
                        new[y] &= ancestors[x, y] & ~ideal[y]
                    new[x >> 6] |= ONE << np.uint64(x & 63)
                    count = _merge(sets, count, new)
                word >>= ONE
                x += 1
    at = 0
    while at < count:  # what lies between two of a set
        below[:] = 0
        above[:] = 0
        _spread(sets[at], descendants, below)
        _spread(sets[at], ancestors, above)
        grown = False
        for w in range(width):
            new[w] = sets[at, w] | (below[w] & above[w])
            grown = grown or new[w] != sets[at, w]
        if not grown:
            at += 1
        else:
            copy_words(sets[count - 1], sets[at])
            count = _merge(sets, count - 1, new)
            at = 0
    return count


@njit(part=True)
def force(
    pending: Any,
    limit: int,
    total: int,
    sending: Any,
    block: Any,
    below: Any,
    ticks: Any,
    relations: Any,
    signals: Any,
    sent: Any,
) -> Any:
    """Enter ``pending`` into ``block`` with all that must then be there; (work, senders), work -1 if that can't be.

    ``block`` holds the ideal too. All before an operation comes with it. If group g sends to the block or reaches a
    sender, its readers that come after something of the block (``below``) must be in it: else C3 breaks at their chip.

    ``ticks`` [n] are above the limit for operations that can't be on this chip yet. ``signals`` [n, 2] has the groups
    that send to an operation, and those that then must not send to its chip, as bits. ``sent`` [G, w + 1] holds the
    readers of a group outside the ideal, and in the last word the groups that it reaches.
    """
    width = len(block)
    while True:
        for w in range(width):
            while pending[w] != 0:
                word = pending[w] & (~pending[w] + ONE)
                pending[w] ^= word
                if block[w] & word != 0:
                    continue
                block[w] |= word
                z = w * 64
                while word > ONE:
                    word >>= ONE
                    z += 1
                total += ticks[z]
                if total > limit or signals[z, 1] & (sending | signals[z, 0]) != 0:
                    return -1, sending
                sending |= signals[z, 0]
                for x in range(width):
                    below[x] |= relations[DESCENDANTS, z, x]
                    # what comes before z in words already passed waits for the next round
                    pending[x] |= relations[PRODUCERS, z, x] & ~block[x]
        more = False
        for g in range(len(sent)):
            if (sending >> np.uint64(g)) & ONE or sent[g, width] & sending != 0:
                for w in range(width):
                    pending[w] |= sent[g, w] & below[w] & ~block[w]
        for w in range(width):
            more = more or pending[w] != 0
        if not more:
            return total, sending
