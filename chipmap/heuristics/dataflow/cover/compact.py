"""First prices for the cover by partitions: one linear program over sums of partitions.

A pricing program states one partition: rows low <= a · x <= high and 0 <= x <= upper. The sum of N partitions obeys
N · low <= a · x <= N · high and 0 <= x <= N · upper. Over these sums, one x and one N for each phase,

    min Σ_phases time   with every class of kernels there as often as it has kernels, and every tensor read as often as
    it is written under each scheme of its maker, N at most the partitions that a phase may have

is a relaxation of the cover, since it forgets that each partition of a sum obeys the rows by itself and has whole
kernels. It has some hundred columns and takes milliseconds. Its value bounds the cover from below, and its duals are
prices at which column generation begins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from chipmap.heuristics.dataflow.cover.pricing import Prices, PricingProgram

#: A row of a linear program: factors by column.
Factors = dict[int, float]


def first_prices(
    pricing: Mapping[bool, PricingProgram], sizes: Sequence[int], pairs: Sequence[tuple[int, int]], most: int | None
) -> Prices | None:
    """The duals of the linear program over sums of partitions; None where it has no solution.

    ``pricing`` by phase; ``sizes`` [class] are the numbers of kernels; ``pairs`` are the (link, scheme of the maker)
    whose tensors have to be read as often as they are written; ``most`` partitions per phase (None: any number).
    """
    from scipy.optimize import linprog

    first: dict[bool, int] = {}
    width = 0
    for phase, one in pricing.items():
        first[phase] = width
        width += len(one.upper) + 1  # the last one is N
    below = [row for phase, one in pricing.items() for row in _sums(one, first[phase])]
    equal: list[Factors] = [{} for _ in (*sizes, *pairs)]
    cost, high = np.zeros(width), np.full(width, np.inf)
    counts = []
    for phase, one in pricing.items():
        start = first[phase]
        cost[start + one.names["time",]] = 1.0
        counts.append(start + len(one.upper))
        high[counts[-1]] = np.inf if most is None else most
        for c in one.inside:
            equal[c].update((start + j, factor) for j, factor in one.kernels_of(c))
        for row, pair in zip(equal[len(sizes) :], pairs, strict=True):
            for j, factor in one.crossing(*pair):
                row[start + j] = row.get(start + j, 0.0) + factor
    found = linprog(
        cost,
        A_ub=_matrix(below, width),
        b_ub=np.zeros(len(below)),
        A_eq=_matrix(equal, width),
        b_eq=np.array([*map(float, sizes), *(0.0 for _ in pairs)]),
        bounds=np.column_stack([np.zeros(width), high]),
        method="highs",
    )
    if found.status != 0:
        return None
    duals = found.eqlin.marginals
    return Prices(
        np.array(duals[: len(sizes)]),
        {pair: float(dual) for pair, dual in zip(pairs, duals[len(sizes) :], strict=True)},
        {phase: float(found.upper.marginals[j]) for phase, j in zip(pricing, counts, strict=True)},
    )


def _sums(one: PricingProgram, start: int) -> list[Factors]:
    """The rows of sums of partitions, each as Σ factor · column <= 0, with the columns numbered from ``start``."""
    count = start + len(one.upper)
    rows: list[Factors] = []
    for factors, low, high in one.rows:
        if np.isfinite(high):
            rows.append({**{start + j: a for j, a in factors.items()}, count: -high})
        if np.isfinite(low):
            rows.append({**{start + j: -a for j, a in factors.items()}, count: low})
    rows += [{start + j: 1.0, count: -upper} for j, upper in enumerate(one.upper) if np.isfinite(upper)]
    return rows


def _matrix(rows: Sequence[Factors], width: int) -> object:
    """These rows as a sparse matrix."""
    from scipy.sparse import csr_array

    at = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    columns = np.fromiter((j for row in rows for j in row), np.int64)
    values = np.fromiter((a for row in rows for a in row.values()), float)
    return csr_array((values, (at, columns)), shape=(len(rows), width))
