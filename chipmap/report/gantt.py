"""Pieces of pictures of schedules: the heading, round marks on a time axis, bars in a row, pale colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chipmap.certificate import Certificate
from chipmap.records import shortened
from chipmap.report.canvas import MUTED, RED, rectangles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def round_times(begin: int, end: int, most: int) -> range:
    """Round times after ``begin`` and before ``end``, at most about ``most`` of them."""
    step = next(step for k in range(20) for step in (10**k, 2 * 10**k, 5 * 10**k) if end - begin <= step * most)
    return range(begin // step * step + step, end, step)


def heading(
    figure: Figure, name: str, parts: Sequence[str], certificate: Certificate, ends: tuple[float, float]
) -> None:
    """The name of the instance, what the picture shows, and what the checker refuses, between the two ``ends``."""
    height = figure.get_figheight()
    figure.text(ends[0], 1 - 0.2 / height, shortened(name, 60), fontsize=15, fontweight="bold", va="center")
    figure.text(ends[0], 1 - 0.47 / height, "  ·  ".join(parts), fontsize=10, color=MUTED, va="center")
    if not certificate.feasible:
        first = certificate.violations[0]
        text = f"NOT VALID: {first.label} {first.message}"
        figure.text(ends[1], 1 - 0.2 / height, text[:110], fontsize=9, color=RED, va="center", ha="right")


def light(colour: str, share: float) -> Any:
    """The colour, mixed with white so that so much of it is left."""
    from matplotlib.colors import to_rgb

    return tuple(1 - share * (1 - part) for part in to_rgb(colour))


def bars(axes: Axes, spans: Sequence[tuple[float, float]], low: float, height: float, **look: Any) -> None:
    """Bars (start, length) side by side in the row from ``low`` (below, as rows are counted downwards).

    Bars without an edge that touch become one: it looks the same, and a file of thousands of bars stays small.
    """
    if spans:
        colour = look.pop("facecolor")
        shown = list(spans) if look.get("linewidth") else _joined(spans)
        rectangles(axes, [(start, low, length, height) for start, length in shown], colour, **look)


def _joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The spans by their starts, those that touch as one."""
    found: list[tuple[float, float]] = []
    for start, length in sorted(spans):
        if found and start == sum(found[-1]):
            found[-1] = found[-1][0], found[-1][1] + length
        else:
            found.append((start, length))
    return found
