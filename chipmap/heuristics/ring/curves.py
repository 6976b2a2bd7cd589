"""How many samples a search needs: best-so-far curves and samples to a throughput (tables 2 and 3, figures 5 and 6).

The improvement of a mapping is throughput over the baseline's throughput, that is baseline period / period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipmap.heuristics.ring.evaluate import INVALID

Floats = NDArray[np.float64]


def improvement(values: ArrayLike, baseline: int) -> Floats:
    """[s] the best improvement among the first 1, 2, … samples, from their objectives in ticks (0 before a valid one).

    ``baseline`` is the objective of what is compared with, such as the greedy mapping.
    """
    best = np.minimum.accumulate(np.asarray(values, dtype=np.int64))
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(best == 0, 1.0 if baseline == 0 else np.inf, baseline / best)
    return np.where(best >= INVALID, 0.0, gain)


def geomean(curves: Sequence[Floats]) -> Floats:
    """[s] the geometric mean of curves of equal length (figure 5: over graphs; 0 where one of them is 0)."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.mean(np.log(np.stack(curves)), axis=0)))


def samples_to(curve: Floats, threshold: float) -> int | None:
    """The number of samples after which the curve is at ``threshold`` or above; None if it never is."""
    above = np.flatnonzero(curve >= threshold)
    return int(above[0]) + 1 if len(above) else None


def threshold_table(curves: Mapping[str, Floats], thresholds: Sequence[float], reference: str) -> list[list[str]]:
    """Rows of table 2 or 3: method, then per threshold "samples (reduction×)" against the ``reference`` method."""
    needed = {name: [samples_to(curve, level) for level in thresholds] for name, curve in curves.items()}
    rows = [["throughput improvement", *(f"≥ {level:.2f}×" for level in thresholds)]]
    for name, counts in needed.items():
        rows.append([name, *(_cell(count, base) for count, base in zip(counts, needed[reference], strict=True))])
    return rows


def _cell(count: int | None, reference: int | None) -> str:
    if count is None:
        return "n/a"
    return f"{count} ({reference / count:.2f}×)" if reference is not None else f"{count} (n/a)"


def csv_rows(curves: Mapping[str, Mapping[int, Floats]]) -> Iterable[tuple[str, int, int, float]]:
    """(method, seed, sample, improvement) wherever a curve rises, and at its end: figures 5 and 6 as data."""
    for method, by_seed in curves.items():
        for seed, curve in by_seed.items():
            for i, gain in enumerate(curve.tolist()):
                if i in (0, len(curve) - 1) or gain > curve[i - 1]:
                    yield method, seed, i + 1, gain
