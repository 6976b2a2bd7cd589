"""Pieces of pictures of schedules: round marks on a time axis, bars in a row, pale colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def round_times(begin: int, end: int, most: int) -> range:
    """Round times after ``begin`` and before ``end``, at most about ``most`` of them."""
    step = next(step for k in range(20) for step in (10**k, 2 * 10**k, 5 * 10**k) if end - begin <= step * most)
    return range(begin // step * step + step, end, step)


def light(colour: str, share: float) -> Any:
    """The colour, mixed with white so that so much of it is left."""
    from matplotlib.colors import to_rgb

    return tuple(1 - share * (1 - part) for part in to_rgb(colour))


def bars(axes: Axes, spans: Sequence[tuple[float, float]], low: float, height: float, **look: Any) -> None:
    """Bars (start, length) side by side in the row from ``low`` (below, as rows are counted downwards)."""
    if spans:
        axes.broken_barh(list(spans), (low, height), **{"linewidth": 0, **look})
