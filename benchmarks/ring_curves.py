"""How many samples a search needs: best-so-far curves and samples to a throughput (tables 2 and 3, figures 5 and 6).

The improvement of a mapping is throughput over the baseline's throughput, that is baseline period / period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chipmap.heuristics.ring.sampling.evaluate import INVALID
from chipmap.report.canvas import COLOURS, picture

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


def sparse(values: Sequence[int]) -> list[tuple[int, int]]:
    """(sample, best objective so far) of the first sample, of each that improves, and of the last: a run as data."""
    best = np.minimum.accumulate(np.asarray(values, dtype=np.int64)).tolist()
    return [(i + 1, now) for i, now in enumerate(best) if i in (0, len(best) - 1) or now < best[i - 1]]


def best_so_far(points: Iterable[tuple[int, int]], samples: int) -> NDArray[np.int64]:
    """[samples] the best objective after each sample, from what :func:`sparse` gives."""
    found = np.full(samples, INVALID, dtype=np.int64)
    for sample, ticks in points:
        found[sample - 1] = min(found[sample - 1], ticks)
    return np.minimum.accumulate(found)


def draw_curves(panels: Mapping[str, Mapping[str, Floats]], x: str, y: str, path: str | Path) -> None:
    """Draw ``panels`` (title -> name -> value after 1, 2, … samples) to ``path``, PNG, SVG or PDF by its suffix.

    The number of samples is logarithmic. Raises :class:`InputError` for another suffix.
    """
    with picture(path, (4.6 * max(1, len(panels)), 3.4), tight=False, dpi=150, layout="constrained") as figure:
        axes = figure.subplots(1, max(1, len(panels)), squeeze=False)[0]
        for ax, (title, curves) in zip(axes, panels.items(), strict=False):
            for colour, (name, curve) in zip(COLOURS, curves.items(), strict=False):
                ax.step(np.arange(1, len(curve) + 1), curve, where="post", color=colour, lw=1.6, label=name)
            ax.set_xscale("log")
            ax.set_title(title)
            ax.set_xlabel(x)
            ax.set_ylabel(y)
            ax.grid()
            ax.legend()
