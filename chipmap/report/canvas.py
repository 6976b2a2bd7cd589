"""What all pictures share: colours, fonts, the formats that they are written in, and how a file is made."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap.records import InputError, shortened, written_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from chipmap.bench.point import Row

SUFFIXES = (".png", ".svg", ".pdf")
INK, MUTED, RULE, RED = "#1f2933", "#66727f", "#d9dee3", "#c81e1e"
#: Okabe and Ito's colours, readable by colour-blind people.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#000000")
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": "#eceff2",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.hashsalt": "chipmap",
    "hatch.linewidth": 0.6,
    "text.parse_math": False,  # names are names, also with $ in them
}
#: Letters of a line, and lines, of one text in a picture.
MOST_LETTERS, MOST_LINES = 200, 60
#: For pictures of many small panels.
SMALL: Any = {"font.size": 8, "axes.titlesize": 9}


def groups(rows: Sequence[Row], axes: Sequence[str]) -> dict[tuple[str, ...], list[Row]]:
    """The rows of each combination of labels of ``axes``, in the order of the rows."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.labels[axis] for axis in axes), []).append(row)
    return found


def labels(rows: Sequence[Row], axis: str) -> list[str]:
    """The labels of an axis in the order of the rows."""
    return list(dict.fromkeys(row.labels[axis] for row in rows))


def logarithmic(axes: Axes, which: str, label: str) -> None:
    """Make the ``x`` or ``y`` axis logarithmic, say so in its label, and write its ticks as plain numbers.

    Matplotlib's own ticks are mathematics (``$10^3$``), which is switched off for the sake of names.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(axes, f"set_{which}scale")("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = sorted(axes.get_xlim() if which == "x" else axes.get_ylim())
    close = low > 0 and high < 30 * low
    axis.set_major_locator(LogLocator(10.0, subs=(1.0, 2.0, 5.0) if close else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}" if 1e-4 < value < 1e7 else f"{value:.0e}"))
    axis.set_minor_formatter(NullFormatter())
    axis.set_label_text(f"{label} (logarithmic)")


def styled(**changes: Any) -> AbstractContextManager[None]:
    """The style, with ``changes``, for what is drawn within."""
    import matplotlib

    return matplotlib.rc_context(STYLE | changes)


def blank(size: tuple[float, float], **options: Any) -> Figure:
    """An empty white figure of ``size`` inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, facecolor="white", **options)


@contextmanager
def picture(path: str | Path, size: tuple[float, float], tight: bool = True, **options: Any) -> Iterator[Figure]:
    """An empty figure of ``size`` inches that is written to ``path`` when it is drawn (PNG, SVG or PDF by its suffix).

    ``options`` are the figure's own; ``tight`` cuts the margins. Raises :class:`InputError` for another suffix, and
    where the file can't be written.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError("no such plot format", str(path), f"Let the file name end in {', '.join(SUFFIXES)}.")
    with styled():
        figure = blank(size, **{"dpi": 120, **options})
        yield figure
        save(figure, path, tight)


def save(figure: Figure, path: Path, tight: bool = True) -> Path:
    """Write a figure, the same bytes for the same picture; returns the path."""
    stamp: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
    _tame(figure)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from")  # they are drawn as boxes
            figure.savefig(path, metadata=stamp, bbox_inches="tight" if tight else None)
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", str(path), "Check the folder.") from None
    return path


def _tame(figure: Figure) -> None:
    """Write control characters out, and cut what would make the picture endless: names may be anything."""
    from matplotlib.text import Text
    from matplotlib.ticker import FuncFormatter

    for text in figure.findobj(Text):
        if isinstance(text, Text) and _tamed(text.get_text()) != text.get_text():
            text.set_text(_tamed(text.get_text()))
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        labels = axis.get_major_formatter()
        if isinstance(labels, FuncFormatter):  # of given labels, too, which are written when the picture is drawn
            labels.func = partial(_tamed_label, labels.func)


def _tamed_label(label: Callable[[float, int | None], str], value: float, place: int | None) -> str:
    return _tamed(label(value, place))


def _tamed(text: str) -> str:
    return "\n".join(shortened(written_out(line), MOST_LETTERS) for line in text.split("\n")[:MOST_LINES])
