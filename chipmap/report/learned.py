"""Pictures of how a policy learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chipmap.report.canvas import COLOURS, picture

if TYPE_CHECKING:
    from chipmap.bench.training import Verdict
    from chipmap.learned.pretraining import Passed


def plot_curves(curve: Sequence[Passed], verdicts: Sequence[Verdict], path: str | Path) -> None:
    """Optimum / objective against samples: on the training graphs after each pass, on validation graphs when judged."""
    at = {0: 0} | {one.number: one.samples for one in curve}
    judged = [one for one in verdicts if one.number in at]
    with picture(path, (7.0, 4.2)) as figure:
        axes = figure.subplots()
        axes.plot([one.samples for one in curve], [one.mean for one in curve], color=COLOURS[0], label="training, mean")
        axes.plot([one.samples for one in curve], [one.best for one in curve], color=COLOURS[1], label="training, best")
        for values, colour, label in (
            ([one.judged.zero_shot for one in judged], COLOURS[2], "validation, zero-shot mean"),
            ([one.judged.tuned for one in judged], COLOURS[3], "validation, best while learning"),
        ):
            axes.plot([at[one.number] for one in judged], values, "o-", color=colour, markersize=3.5, label=label)
        axes.set_xlabel("samples over all training graphs")
        axes.set_ylabel("optimum / objective")
        axes.set_ylim(top=1.0)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def plot_gaps(gaps: Mapping[str, Mapping[str, Sequence[float]]], path: str | Path) -> None:
    """Gap to the optimum (1 - optimum / objective) of each graph by strategy: the mean over seeds as a dot, least to
    largest as a line. ``gaps``: graph -> strategy -> a gap per seed, graphs from above."""
    strategies = list(dict.fromkeys(name for found in gaps.values() for name in found))
    with picture(path, (8.0, 1.2 + 0.34 * len(gaps))) as figure:
        axes = figure.subplots()
        for k, name in enumerate(strategies):
            own = [(i, found[name]) for i, found in enumerate(gaps.values()) if name in found]
            places = [i + 0.16 * (k - (len(strategies) - 1) / 2) for i, _ in own]
            colour = COLOURS[k % len(COLOURS)]
            axes.hlines(
                places,
                [100 * min(values) for _, values in own],
                [100 * max(values) for _, values in own],
                color=colour,
                linewidth=1.2,
            )
            means = [100 * sum(values) / len(values) for _, values in own]
            axes.plot(means, places, "o", color=colour, markersize=4.0, label=name)
        axes.set_yticks(range(len(gaps)), list(gaps))
        axes.invert_yaxis()
        axes.set_xlim(left=0.0)
        axes.grid(axis="x")
        axes.set_xlabel("gap to the proved optimum, %")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
