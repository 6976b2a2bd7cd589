"""Serving as pictures: latency and throughput of passes, tokens per second of speculative decoding."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chipmap.bench.point import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Figure of a row -> what a bar is called.
LATENCIES = {"ttft_us": "TTFT", "tpot_us": "TPOT"}


def passes(rows: Sequence[Row], axes: Sequence[str], title: str, colours: Sequence[str]) -> Figure:
    """Milliseconds to the first token or per output token as bars, tokens per second as a line, over the last axis; a
    panel for every combination of the others (DFModel, figure 20)."""
    from matplotlib.figure import Figure

    across, others = axes[-1], axes[:-1]
    panels = list(dict.fromkeys(tuple(row.labels[a] for a in others) for row in rows))
    figure = Figure(figsize=(1.0 + 3.6 * len(panels), 3.4), layout="constrained")
    for plane, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        own = [row for row in rows if tuple(row.labels[a] for a in others) == panel]
        names = [one for one in LATENCIES if any(one in row.figures for row in own)]
        heights = [next(row.figures[one] for one in names if one in row.figures) / 1000 for row in own]
        places = range(len(own))
        plane.bar(places, heights, width=0.6, color=colours[0])
        plane.set_xticks(places, [row.labels[across] for row in own])
        plane.set_xlabel(across)
        plane.set_ylabel(f"{' or '.join(LATENCIES[one] for one in names)}, ms", color=colours[0])
        plane.set_title(" ".join(panel) or title)
        rate = plane.twinx()
        rate.plot(places, [row.figures["tokens_per_s"] for row in own], marker="o", markersize=4, color=colours[5])
        rate.set_ylabel("tokens/s", color=colours[5])
        rate.set_ylim(bottom=0.0)
    if any(panels):
        figure.suptitle(title)
    return figure


class Speculation(NamedTuple):
    """Tokens per second of a target with a draft model: window K, chance a, by sequence and by tree, each as the
    published code counts them and as expected."""

    draft: str
    window: int
    acceptance: float
    sequence_published: float
    sequence: float
    tree_published: float
    tree: float


def speculation(rates: Sequence[Speculation], alone: float, path: Path) -> None:
    """Draw tokens per second over the window to the PNG file ``path``: a column for each draft, sequences above trees,
    a colour for each acceptance; dashed as published, ``alone`` as a line (DFModel, figure 21)."""
    import matplotlib
    from matplotlib.figure import Figure

    from chipmap.report.sweeps.plots import COLOURS, INK, STYLE

    drafts, chances = (list(dict.fromkeys(one[k] for one in rates)) for k in (0, 2))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(1.2 + 2.6 * len(drafts), 5.0), layout="constrained")
        planes = figure.subplots(2, len(drafts), squeeze=False, sharex=True, sharey=True)
        for line, kind in zip(planes, ("sequence", "tree"), strict=True):
            for plane, draft in zip(line, drafts, strict=True):
                for k, chance in enumerate(chances):
                    own = [one for one in rates if (one.draft, one.acceptance) == (draft, chance)]
                    windows = [one.window for one in own]
                    for field, dashes, words in ((kind, "-", ""), (f"{kind}_published", "--", ", published")):
                        heights = [getattr(one, field) for one in own]
                        label = f"a = {chance:g}{words}"
                        plane.plot(windows, heights, dashes, marker="o", markersize=3, color=COLOURS[k], label=label)
                plane.axhline(alone, color=INK, linewidth=0.9, label="without a draft")
                plane.set_title(f"{draft}, {kind}")
                plane.set_ylim(bottom=0.0)
            line[0].set_ylabel("tokens/s")
        for plane in planes[-1]:
            plane.set_xlabel("window K, tokens")
            plane.set_xticks(sorted({one.window for one in rates}))
        handles, words = planes[0][0].get_legend_handles_labels()
        figure.legend(handles, words, frameon=False, fontsize=6, loc="outside right upper")
        figure.savefig(path, dpi=130, bbox_inches="tight")
