"""Pictures of how a policy learns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from chipmap.report.canvas import COLOURS, picture

if TYPE_CHECKING:
    from chipmap.bench.training import Verdict
    from chipmap.learned.passes import Passed


def plot_curves(
    curve: Sequence[Passed], verdicts: Sequence[Verdict], path: str | Path, worth: str = "optimum / objective"
) -> None:
    """``worth`` against samples: on the training graphs after each pass, on validation graphs when judged."""
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
        axes.set_ylabel(worth)
        axes.set_ylim(top=1.0)
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
