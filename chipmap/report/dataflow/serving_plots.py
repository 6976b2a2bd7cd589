"""Serving as pictures: latency and throughput of passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chipmap.bench.dataflow.groups import front, kinds_of, traffic_of
from chipmap.bench.point import Row
from chipmap.bench.sweep import Sweep
from chipmap.report.canvas import COLOURS, blank, groups

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Chips that are shared out between prefill and decode, and limits in ms on the time to the first token, in pictures.
CHIPS, TTFT_MS = 64, (100.0, 200.0, 500.0, float("inf"))
#: Figure of a row -> what a bar is called.
LATENCIES = {"ttft_us": "TTFT", "tpot_us": "TPOT"}


def passes(rows: Sequence[Row], axes: Sequence[str], title: str) -> Figure:
    """Milliseconds to the first token or per output token as bars, tokens per second as a line, over the last axis; a
    panel for every combination of the others (DFModel, figure 20)."""
    across, others = axes[-1], axes[:-1]
    panels = groups(rows, others)
    figure = blank((1.0 + 4.0 * len(panels), 3.4), layout="constrained")
    planes = figure.subplots(1, len(panels), squeeze=False)[0]
    for plane, (panel, own) in zip(planes, panels.items(), strict=True):
        names = [one for one in LATENCIES if any(one in row.figures for row in own)]
        heights = [next(row.figures[one] for one in names if one in row.figures) / 1000 for row in own]
        places = range(len(own))
        plane.bar(places, heights, width=0.6, color=COLOURS[0])
        plane.set_xticks(places, [row.labels[across] for row in own])
        plane.set_xlabel(across)
        plane.set_ylabel(f"{' or '.join(LATENCIES[one] for one in names)}, ms", color=COLOURS[0])
        plane.set_title(" ".join(panel) or title)
        rate = plane.twinx()
        rate.spines["right"].set_visible(True)
        rate.plot(places, [row.figures["tokens_per_s"] for row in own], marker="o", markersize=4, color=COLOURS[5])
        rate.set_ylabel("tokens/s", color=COLOURS[5])
        rate.set_ylim(bottom=0.0)
        rate.yaxis.set_major_formatter("{x:,g}")
    if any(panels):
        figure.suptitle(title)
    return figure


def groups_front(sweep: Sweep, rows: Sequence[Row]) -> Figure:
    """Tokens per second of a chip over those of a user where prefill and decode have groups of their own: a line for
    each limit on the time to the first token. Each dot is a plan that is proved to be the best of its limits."""
    prefill, decode = kinds_of(rows)
    traffic = traffic_of(sweep)
    figure = blank((6.4, 4.2), layout="constrained")
    plane = figure.subplots()
    for k, limit in enumerate(TTFT_MS):
        points = front(prefill, decode, traffic, CHIPS, limit * 1000)[::-1]
        if not points:
            continue
        name = "no limit on TTFT" if limit == float("inf") else f"TTFT at most {limit:g} ms"
        xs, ys = [one.per_user for one in points], [one.per_chip for one in points]
        look: Any = {"marker": "osD^"[k], "markersize": 7.0 - 1.2 * k, "color": COLOURS[k]}
        plane.plot(xs, ys, drawstyle="steps-pre", label=name, **look)  # a plan serves slower users as well
    plane.set_xlabel("tokens/s of a user")
    plane.set_ylabel("tokens/s of a chip")
    plane.set_xlim(left=0.0)
    plane.set_ylim(bottom=0.0)
    plane.legend(fontsize=8)
    plane.set_title(f"{CHIPS} chips, groups for prefill and for decode; all dots proved")
    return figure
