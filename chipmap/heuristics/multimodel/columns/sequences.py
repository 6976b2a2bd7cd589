"""Bounds from whole sequences of windows, listed under the prices of column generation.

Under node prices π and the weight λ of time, a window of T ns and E pJ from node i to node j of each model has the
reduced cost λ · T + E + Σ π[i] − π[j] >= μ, where μ <= 0 is the least of all and of an idle window. The first window
that isn't empty begins with all models at node 0. There π[i] is left out, and the least of these is μ'. Over a schedule
of at most W windows these add up, so that

    λ · T1 + T2 = v + (first reduced cost − μ') + Σ (reduced cost − μ),  v = μ' + (W − 1) · μ + Σ π[L],

where every term of the sum, its **excess**, is at least 0. Let each better schedule have λ · T1 + T2 <= v + D. Then
none of its windows has an excess above D, nor has their sum. So all windows up to that excess are listed, and a program
over nodes goes through all sequences of them. It keeps what the linear program lets go: whole windows, their order,
models that move together, and T1 · T2 itself instead of its lines.

The windows are those of the tables: their times and energies are at most those of real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.heuristics.multimodel.columns.pricing import Floats, Ints, Pricing
from chipmap.heuristics.multimodel.tables.ranges import Table

#: Pairs that are looked at in one join, and at once; windows and labels, at most.
PAIRS, CHUNK, WINDOWS, LABELS = 40_000_000, 2_000_000, 400_000, 400_000
#: Rounding in sums of prices, as a share of v.
LOOSE = 1e-9


class Windows(NamedTuple):
    """Listed windows: codes of the nodes before and behind, ns, pJ, excess."""

    source: Ints
    target: Ints
    time: Floats
    energy: Floats
    excess: Floats


class Parts(NamedTuple):
    """What some of the models do in a window: chiplets, cell, reduced cost and energy in pJ, codes of their nodes."""

    mask: Ints
    cell: Ints
    cost: Floats
    energy: Floats
    source: Ints
    target: Ints

    def some(self, which: slice | NDArray[np.bool_] | Ints) -> Parts:
        """Those."""
        return Parts._make(column[which] for column in self)


class Around(NamedTuple):
    """The least of the models from each on, and of all but each, by set of chiplets and cell, with the time; ``first``:
    in first windows."""

    rest: list[Floats]
    beside: list[Floats]
    first: bool


class Sequences:
    """All sequences of windows of one problem under ``prices`` and the weight ``rate`` (pJ per ns) of time."""

    def __init__(self, pricing: Pricing, windows: int, prices: Sequence[Floats], rate: float) -> None:
        self.pricing, self.count, self.prices = pricing, windows, list(prices)
        #: The weight of time beside the tables' energies, which have no static energy.
        self.rate = rate + pricing.static
        self.times = (pricing.edges[:-1] + 1).astype(float)
        sizes = [len(own) for own in prices]
        #: The code of nodes is Σ node · step.
        self.steps = [int(np.prod(sizes[m + 1 :], dtype=np.int64)) for m in range(len(sizes))]
        self.end = sum(step * (size - 1) for step, size in zip(self.steps, sizes, strict=True))
        sums = pricing.price(self.prices, self.prices) + rate * self.times
        self.least = min(0.0, float(sums.min()))
        later = self._around(False)
        sums = pricing.first(self.prices) + rate * self.times
        self.first_least = float(sums.min())
        #: First windows, then others.
        self.around = self._around(True), later
        self.base = self.first_least + (windows - 1) * self.least + sum(float(own[-1]) for own in prices)
        self.loose = LOOSE * sum(float(np.abs(own).max()) for own in prices)

    def _around(self, first: bool) -> Around:
        """What the last prices of the pricing say."""
        sets = self.pricing.sets
        rest = [self._with_time(sets[m:]) for m in range(1, len(sets) + 1)]
        return Around(rest, [self._with_time([*sets[:m], *sets[m + 1 :]]) for m in range(len(sets))], first)

    def _with_time(self, sets: Sequence[Floats]) -> Floats:
        """Models side by side in a window of a cell or a longer one, and its time: [set, cell]."""
        energy = reduce(self.pricing.places.side_by_side, sets) if sets else np.zeros_like(self.pricing.sets[0])
        later = (energy + self.rate * self.times)[:, ::-1]
        found: Floats = np.minimum.accumulate(later, axis=1)[:, ::-1]
        return found

    def windows(self, excess: float, deadline: Deadline) -> Windows | None:
        """All windows up to this excess; None where they are too many to list."""
        listed = list[Windows]()
        for around in self.around:
            found: Parts | None = None
            least = self.first_least if around.first else self.least
            limit = least + excess + self.loose
            for m in range(len(self.prices)):
                deadline.check()
                own = self._parts(m, limit, around)
                if own is None:
                    return None
                found = own if found is None else self._joined(found, own, around.rest[m], limit, deadline)
                if found is None:
                    return None
            assert found is not None
            # those that begin with all models at node 0 are the first ones
            found = found.some((found.source == 0) == around.first)
            time = self.times[found.cell]
            energy = found.energy + self.pricing.static * time
            listed.append(Windows(found.source, found.target, time, energy, found.cost + self.rate * time - least))
        return self._best(Windows._make(np.concatenate(columns) for columns in zip(*listed, strict=True)))

    def _parts(self, m: int, limit: float, around: Around) -> Parts | None:
        """What model m does in windows up to the limit: entries of its table by set of chiplets, and pauses."""
        pricing, prices, places = self.pricing, self.prices[m], self.pricing.places
        table, beside, before = pricing.tables[m], around.beside[m], prices
        if around.first:
            count, before = int(np.searchsorted(table.first, table.first.dtype.type(1))), np.zeros_like(prices)
            table = Table._make(column[:count] for column in table)
        cost = table.energy + before[table.first] - prices[table.last.astype(np.int64) + 1]
        top, columns = beside.shape[0] - 1, list[list[Ints]]()
        order = np.argsort(table.signature, kind="stable")
        by_signature = np.split(order, np.searchsorted(table.signature[order], np.arange(1, places.signatures)))
        if sum(len(by_signature[signature]) for signature in places.signature.tolist()) > PAIRS:
            return None
        for mask, signature in zip(places.mask.tolist(), places.signature.tolist(), strict=True):
            at = by_signature[signature]
            at = at[cost[at] + beside[top - mask, table.cell[at]] <= limit]
            columns.append([at, np.full(len(at), mask, dtype=np.int64)])
        at, masks = (np.concatenate(column) for column in zip(*columns, strict=True))
        nodes = np.arange(1 if around.first else len(prices))
        pause = before[nodes] - prices[nodes]
        nodes = nodes[float(beside[top].min()) + pause <= limit]
        pause, none = pause[: len(nodes)], np.zeros(len(nodes))  # all pauses cost as much
        step, idle = self.steps[m], none.astype(np.int64)
        parts = Parts(
            np.concatenate([masks, idle]),
            np.concatenate([table.cell[at].astype(np.int64), idle]),
            np.concatenate([cost[at], pause]),
            np.concatenate([table.energy[at], none]),
            step * np.concatenate([table.first[at].astype(np.int64), nodes]),
            step * np.concatenate([table.last[at].astype(np.int64) + 1, nodes]),
        )
        return least_parts(parts)

    def _joined(self, one: Parts, other: Parts, rest: Floats, limit: float, deadline: Deadline) -> Parts | None:
        """Pairs on different chiplets that some way of the other models keeps within the limit."""
        if len(one.mask) * len(other.mask) > PAIRS:
            return None
        top, found, count = rest.shape[0] - 1, list[Parts](), 0
        step = max(1, CHUNK // max(1, len(other.mask)))
        for begin in range(0, max(1, len(one.mask)), step):
            deadline.check()
            part = one.some(slice(begin, begin + step))
            hope = limit - float(rest[top].min())
            i, j = np.nonzero(
                self.pricing.places.apart(part.mask[:, None], other.mask) & (part.cost[:, None] + other.cost <= hope)
            )
            mask, cell = part.mask[i] + other.mask[j], np.maximum(part.cell[i], other.cell[j])
            cost = part.cost[i] + other.cost[j]
            kept = cost + rest[top - mask, cell] <= limit
            i, j = i[kept], j[kept]
            energy, source = part.energy[i] + other.energy[j], part.source[i] + other.source[j]
            pairs = Parts(mask[kept], cell[kept], cost[kept], energy, source, part.target[i] + other.target[j])
            found.append(pairs)
            count += len(i)
            if count > 4 * WINDOWS:
                return None
        return least_parts(Parts._make(np.concatenate(column) for column in zip(*found, strict=True)))

    def _best(self, listed: Windows) -> Windows | None:
        """Those that move a model and that no window between the same nodes beats in time and energy."""
        moving = listed.source != listed.target
        listed = Windows._make(column[moving] for column in listed)
        order = np.lexsort((listed.energy, listed.time, listed.target, listed.source))
        listed = Windows._make(column[order] for column in listed)
        kept = falling(groups(listed.source, listed.target), listed.energy)
        return Windows._make(column[kept] for column in listed) if kept.sum() <= WINDOWS else None


def least_parts(parts: Parts) -> Parts:
    """Those that no other one on the same chiplets between the same nodes beats in cell and energy."""
    order = np.lexsort((parts.energy, parts.cell, parts.mask, parts.target, parts.source))
    parts = parts.some(order)
    return parts.some(falling(groups(parts.source, parts.target, parts.mask), parts.energy))


def groups(*columns: Ints) -> Ints:
    """The number of each row's group, where rows of one group stand side by side and have the same columns."""
    changes = np.stack([np.diff(column) != 0 for column in columns]).any(axis=0)
    return np.concatenate([np.zeros(min(1, len(columns[0])), dtype=np.int64), np.cumsum(changes)])


def falling(group: Ints, amounts: Floats) -> NDArray[np.bool_]:
    """Which of the amounts are below all before them in their group; groups stand one behind the other."""
    if not len(group):
        return np.zeros(0, dtype=np.bool_)
    ranks = np.unique(amounts, return_inverse=True)[1].astype(np.int64)
    keys = ranks - group * (len(group) + 1)
    before = np.concatenate([[keys[0] + 1], np.minimum.accumulate(keys)[:-1]])
    return keys < before


class Found(NamedTuple):
    """A sequence: ns and pJ in all, and the codes of the nodes behind its windows."""

    time: float
    energy: float
    codes: tuple[int, ...]


class Program:
    """The program over nodes for listed ``windows``: at most ``count`` of them, each idle one of this excess."""

    def __init__(self, windows: Windows, count: int, end: int, idle: float) -> None:
        self.count, self.idle = count, idle
        self.codes = np.unique(np.concatenate([windows.source, windows.target, [0, end]]))
        self.first, self.last = (int(np.searchsorted(self.codes, code)) for code in (0, end))
        order = np.argsort(windows.source, kind="stable")
        self.windows = Windows._make(column[order] for column in windows)
        self.source, self.target = (np.searchsorted(self.codes, code) for code in self.windows[:2])
        self.begins = np.searchsorted(self.source, np.arange(len(self.codes) + 1))
        #: The least excess from each node on, by the number of windows that are left.
        self.rest = [np.full(len(self.codes), np.inf)]
        self.rest[0][self.last] = 0.0
        for left in range(1, count + 1):
            least = np.full(len(self.codes), np.inf)
            np.minimum.at(least, self.source, self.windows.excess + self.rest[-1][self.target])
            least[self.last] = left * idle
            self.rest.append(least)

    @property
    def least(self) -> float:
        """The least excess of all sequences; infinite where there is none."""
        return float(self.rest[-1][self.first])

    def sequences(self, excess: float, deadline: Deadline) -> list[Found] | None:
        """Every pair of T1 and T2 that no other beats, of sequences up to this excess; None where they are too many."""
        levels: list[tuple[Ints, Floats, Floats, Floats, Ints]] = []
        state, time, energy = np.array([self.first]), np.zeros(1), np.zeros(1)
        used, found = np.zeros(1), list[tuple[float, float, int, int]]()
        levels.append((state, time, energy, used, np.zeros(1, dtype=np.int64)))
        for w in range(self.count):
            deadline.check()
            many = self.begins[state + 1] - self.begins[state]
            if many.sum() > 10 * LABELS:
                return None
            before = np.repeat(np.arange(len(state)), many)
            at = np.arange(len(before)) - np.repeat(np.cumsum(many) - many, many) + self.begins[state][before]
            more = used[before] + self.windows.excess[at]
            kept = more + self.rest[self.count - w - 1][self.target[at]] <= excess
            before, at, used = before[kept], at[kept], more[kept]
            time, energy = time[before] + self.windows.time[at], energy[before] + self.windows.energy[at]
            state = self.target[at]
            order = np.lexsort((energy, time, state))
            order = order[falling(state[order], energy[order])]
            if len(order) > LABELS:
                return None
            state, time, energy, used, before = (one[order] for one in (state, time, energy, used, before))
            levels.append((state, time, energy, used, before))
            found += [(float(time[x]), float(energy[x]), w + 1, int(x)) for x in np.flatnonzero(state == self.last)]
            if not len(state):
                break
        return [Found(t, e, self._codes(levels, w, x)) for t, e, w, x in found]

    def _codes(self, levels: Sequence[tuple[Ints, Floats, Floats, Floats, Ints]], w: int, x: int) -> tuple[int, ...]:
        codes = []
        for state, *_, before in reversed(levels[1 : w + 1]):
            codes.append(int(self.codes[state[x]]))
            x = int(before[x])
        return tuple(reversed(codes))
