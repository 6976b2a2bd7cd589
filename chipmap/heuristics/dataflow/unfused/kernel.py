"""The compiled part of the elimination: tables whose cells hold sets of labels are added up, and variables minimised.

A cell is a choice of schemes for the kernels of a table's scope, in mixed radix, the first kernel's digit slowest. Its
labels are rows of costs: of two labels in a cell, one that is nowhere better than the other goes. Both loops can be
left and entered again at a cell, so that the caller looks at the clock between calls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.kernels import njit

IntArray = NDArray[np.int64]
#: What a loop returns: all cells are done; there is no room for more labels; the work of this call is done; a cell
#: alone takes more than that.
DONE, FULL, PAUSED, STUCK = 0, 1, 2, 3


class Cells(NamedTuple):
    """The labels of a table: those of cell c are rows [``first[c]``, ``first[c + 1]``) of ``rows`` [labels, K]."""

    first: IntArray
    rows: IntArray


class Output(NamedTuple):
    """A table under way: as :class:`Cells`, with ``back`` [labels, 2], what each label was made of.

    ``state`` [4]: the next cell, labels so far, the work of this call, and the most that it may be.
    """

    first: IntArray
    rows: IntArray
    back: IntArray
    state: IntArray


class Settle(NamedTuple):
    """What to do with a kernel's sums once all that it reads is settled: ``runs`` · max(``compute`` of its option, its
    columns ``memory`` and ``network``) is added to the first column; more bytes than ``sram`` in column ``held`` don't
    fit. Its columns are cleared. Columns below 0 don't exist."""

    runs: int
    memory: int
    network: int
    held: int
    sram: int
    compute: IntArray


@njit(part=True)
def offer(out: Output, begin: int, end: int) -> int:
    """Take row ``end`` into the cell that begins at ``begin`` unless a label there is as good; the cell's new end.

    What the row beats goes.
    """
    columns = out.rows.shape[1]
    kept = begin
    for i in range(begin, end):
        no_worse, no_better = True, True
        for k in range(columns):
            no_worse = no_worse and out.rows[i, k] <= out.rows[end, k]
            no_better = no_better and out.rows[i, k] >= out.rows[end, k]
        if no_worse:  # nothing has been moved yet: a label that the row beats would be beaten by this one, too
            return end
        if not no_better:
            if kept < i:
                out.rows[kept], out.back[kept] = out.rows[i], out.back[i]
            kept += 1
    if kept < end:
        out.rows[kept], out.back[kept] = out.rows[end], out.back[end]
    return kept + 1


@njit(cache=True, nogil=True)
def add(a: Cells, b: Cells, sizes: IntArray, strides: IntArray, room: int, kept: int, out: Output) -> int:
    """All sums of a label of ``a`` and one of ``b``, cell by cell of their common scope.

    ``sizes`` [d] are its numbers of options, ``strides`` [2, d] how far a step of each moves in a and b. A label with
    more than ``room`` in column ``kept`` (-1: none) goes.
    """
    cells, columns = out.first.shape[0] - 1, out.rows.shape[1]
    while out.state[0] < cells:
        at, in_a, in_b = out.state[0], 0, 0
        for d in range(sizes.shape[0] - 1, -1, -1):
            digit, at = at % sizes[d], at // sizes[d]
            in_a, in_b = in_a + digit * strides[0, d], in_b + digit * strides[1, d]
        begin, work = out.state[1], out.state[2]
        end = begin
        for i in range(a.first[in_a], a.first[in_a + 1]):
            for j in range(b.first[in_b], b.first[in_b + 1]):
                if end >= out.rows.shape[0]:
                    return FULL
                if kept >= 0 and a.rows[i, kept] + b.rows[j, kept] > room:
                    continue
                for k in range(columns):
                    out.rows[end, k] = a.rows[i, k] + b.rows[j, k]
                out.back[end, 0], out.back[end, 1] = i, j
                out.state[2] += end - begin + 1
                end = offer(out, begin, end)
                if out.state[2] > out.state[3]:
                    return PAUSED if work > 0 else STUCK
        out.state[0], out.state[1] = out.state[0] + 1, end
        out.first[out.state[0]] = end
    return DONE


@njit(cache=True, nogil=True)
def minimise(a: Cells, before: int, options: int, after: int, settle: Settle, out: Output) -> int:
    """The labels of ``a`` without one kernel of its scope, over all its ``options``: a cell of the table has the labels
    of all of them. ``before`` and ``after``: cells of the kernels before it in the scope, and after it."""
    columns = out.rows.shape[1]
    while out.state[0] < before * after:
        high, low = out.state[0] // after, out.state[0] % after
        begin, work = out.state[1], out.state[2]
        end = begin
        for option in range(options):
            cell = (high * options + option) * after + low
            for i in range(a.first[cell], a.first[cell + 1]):
                if end >= out.rows.shape[0]:
                    return FULL
                if settle.held >= 0 and a.rows[i, settle.held] > settle.sram:
                    continue
                for k in range(columns):
                    out.rows[end, k] = a.rows[i, k]
                out.back[end, 0], out.back[end, 1] = i, option
                if settle.runs > 0:
                    longest = settle.compute[option]
                    if settle.memory >= 0:
                        longest, out.rows[end, settle.memory] = max(longest, out.rows[end, settle.memory]), 0
                    if settle.network >= 0:
                        longest, out.rows[end, settle.network] = max(longest, out.rows[end, settle.network]), 0
                    if settle.held >= 0:
                        out.rows[end, settle.held] = 0
                    out.rows[end, 0] += settle.runs * longest
                out.state[2] += end - begin + 1
                end = offer(out, begin, end)
                if out.state[2] > out.state[3]:
                    return PAUSED if work > 0 else STUCK
        out.state[0], out.state[1] = out.state[0] + 1, end
        out.first[out.state[0]] = end
    return DONE


@njit(cache=True, nogil=True)
def minimum(
    flat: IntArray, first: IntArray, strides: IntArray, sizes: IntArray, never: int, total: IntArray, which: IntArray
) -> None:
    """``total``: the sums of tables at the best value of the last of their variables, at most ``never``; ``which``: it.

    Table k begins at ``first[k]`` of ``flat``; ``strides`` [tables, variables] say how far a step of a variable, which
    has ``sizes`` values, moves in it.
    """
    tables, variables = strides.shape
    last, digits, at = variables - 1, np.zeros(variables, np.int64), first.copy()
    for cell in range(len(total)):
        best, least = 0, never
        for option in range(sizes[last]):
            value = 0
            for k in range(tables):
                value += flat[at[k] + option * strides[k, last]]
            if value < least:
                best, least = option, value
        total[cell], which[cell] = least, best
        d = last - 1
        while d >= 0:
            digits[d] += 1
            if digits[d] < sizes[d]:
                for k in range(tables):
                    at[k] += strides[k, d]
                break
            for k in range(tables):
                at[k] -= (sizes[d] - 1) * strides[k, d]
            digits[d] = 0
            d -= 1
