"""The compiled part of pricing the sets of units of one device (numba; one thread)."""

from __future__ import annotations

from typing import Any, NamedTuple

from chipmap.kernels import njit


class Steps(NamedTuple):
    """The rows of position i are ``first[i]`` to ``first[i + 1]``. From row r the unit leaves for row ``off[r]`` of the
    next position, or is taken for ``on[r]`` (-1: not possible), which loads the device by ``off_load``, ``on_load``.
    """

    first: Any
    off: Any
    on: Any
    off_load: Any
    on_load: Any


class Labels(NamedTuple):
    """Per row the labels ``begin[r]`` to ``begin[r] + count[r]``, by rising load and value: what the units from there
    on can load the device with, and what these are worth; ``next``: 2 · the label behind it, plus 1 if the unit is
    taken. ``some_*``: room for one row.
    """

    begin: Any
    count: Any
    load: Any
    value: Any
    next: Any
    some_load: Any
    some_value: Any
    some_next: Any


@njit(part=True)
def _coarse(labels: Labels, count: int, grain: int) -> int:
    """The labels of one row made fewer: of those with loads in the same grain, the least load and the most value."""
    kept, before = 0, -1
    for q in range(count):
        here = labels.some_load[q] // grain
        if here != before:
            labels.some_load[kept] = labels.some_load[q]
            kept += 1
            before = here
        labels.some_value[kept - 1] = labels.some_value[q]
        labels.some_next[kept - 1] = labels.some_next[q]
    return kept


@njit(part=True)
def _merged(steps: Steps, labels: Labels, i: int, r: int, worth: int, target: int) -> int:
    """The labels of row r at position i, merged from those of its two rows at the next position."""
    a = b = last_a = last_b = 0
    if steps.off[r] >= 0:
        a = labels.begin[steps.first[i + 1] + steps.off[r]]
        last_a = a + labels.count[steps.first[i + 1] + steps.off[r]]
    if steps.on[r] >= 0:
        b = labels.begin[steps.first[i + 1] + steps.on[r]]
        last_b = b + labels.count[steps.first[i + 1] + steps.on[r]]
    made, best = 0, -1
    while True:
        off = labels.load[a] + steps.off_load[r] if a < last_a else target
        on = labels.load[b] + steps.on_load[r] if b < last_b else target
        if off >= target and on >= target:
            return made
        if off <= on:
            load, value, behind = off, labels.value[a], 2 * a
            a += 1
        else:
            load, value, behind = on, labels.value[b] + worth, 2 * b + 1
            b += 1
        if value > best:
            if made > 0 and labels.some_load[made - 1] == load:
                made -= 1
            labels.some_load[made] = load
            labels.some_value[made] = value
            labels.some_next[made] = behind
            made += 1
            best = value


@njit(cache=True)
def label_back(
    steps: Steps, labels: Labels, worth: Any, target: int, most: int, position: int, made: int, chunk: int
) -> tuple[int, int]:
    """Label the rows from ``position`` backwards, until ``chunk`` more labels are made or all rows are.

    Loads are below ``target``; each row has about ``most`` labels. (the next position, labels made in all); position
    -2: there is no room for them.
    """
    end, grain = made + chunk, target // most + 1
    while position >= 0 and made < end:
        for r in range(steps.first[position], steps.first[position + 1]):
            count = _merged(steps, labels, position, r, worth[position], target)
            if count > most:
                count = _coarse(labels, count, grain)
            if made + count > len(labels.load):
                return -2, made
            labels.begin[r] = made
            labels.count[r] = count
            for q in range(count):
                labels.load[made + q] = labels.some_load[q]
                labels.value[made + q] = labels.some_value[q]
                labels.next[made + q] = labels.some_next[q]
            made += count
        position -= 1
    return position, made
