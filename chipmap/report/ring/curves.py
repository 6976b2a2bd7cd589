"""Curves over the number of samples, one panel per comparison (as figures 5 and 6 of the ring's paper)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipmap.records import InputError

SUFFIXES = (".png", ".svg", ".pdf")
#: Okabe and Ito's colours, readable by colour-blind people.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def draw_curves(panels: Mapping[str, Mapping[str, NDArray[np.float64]]], x: str, y: str, path: str | Path) -> None:
    """Draw ``panels`` (title -> name -> value after 1, 2, … samples) to ``path``, PNG, SVG or PDF by its suffix.

    The number of samples is logarithmic. Raises :class:`InputError` for another suffix.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError("no such plot format", str(path), f"Let the file name end in {', '.join(SUFFIXES)}.")
    import matplotlib
    from matplotlib.figure import Figure

    style: Any = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "chipmap"}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(4.6 * max(1, len(panels)), 3.4), dpi=150, layout="constrained")
        axes = figure.subplots(1, max(1, len(panels)), squeeze=False)[0]
        for ax, (title, curves) in zip(axes, panels.items(), strict=False):
            for colour, (name, curve) in zip(COLOURS, curves.items(), strict=False):
                ax.step(np.arange(1, len(curve) + 1), curve, where="post", color=colour, lw=1.6, label=name)
            ax.set_xscale("log")
            ax.set_title(title, loc="left", fontsize=10)
            ax.set_xlabel(x)
            ax.set_ylabel(y)
            ax.grid(color="#eceff2")
            ax.legend(frameon=False)
        figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
