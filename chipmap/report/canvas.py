"""What all pictures share: colours, fonts, the formats that they are written in, and how a file is made."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chipmap.records import InputError, Unit, shortened, written_out
from chipmap.records.files import write_whole
from chipmap.records.quantities import in_unit, percent
from chipmap.result import gap

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
    "svg.fonttype": "none",  # text stays text: it can be searched, and the file is small
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


def standing(objective: int | None, bound: int | None, unit: Unit) -> list[str]:
    """What a title says of a solution: objective, bound and gap, as far as they are known."""
    parts = [] if objective is None else [f"objective {_in(objective, unit)}"]
    if bound is None:
        return [*parts, "no bound given"]
    return [*parts, f"bound {_in(bound, unit)}", f"gap {percent(gap(objective, bound))}"]


def _in(ticks: int, unit: Unit) -> str:
    return in_unit(ticks, unit, 7).replace(" us", " µs")


def rectangles(axes: Axes, corners: Any, colour: Any, **look: Any) -> None:
    """Rectangles (left, low, width, height; an array of rows) of one colour as one path, which keeps files small."""
    import numpy as np
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    left, low, width, height = np.asarray(corners, dtype=float).T
    xs, ys = (
        np.stack([left, left + width, left + width, left, left], 1),
        np.stack([low, low, low + height, low + height, low], 1),
    )
    codes = np.tile([Outline.MOVETO, *[Outline.LINETO] * 3, Outline.CLOSEPOLY], len(left))
    outline = Outline(np.stack([xs.ravel(), ys.ravel()], 1), codes)
    axes.add_patch(PathPatch(outline, **{"facecolor": colour, "linewidth": 0, **look}))


def styled(**changes: Any) -> AbstractContextManager[None]:
    """The style, with ``changes``, for what is drawn within."""
    import matplotlib

    return matplotlib.rc_context(STYLE | changes)


def blank(size: tuple[float, float], **options: Any) -> Figure:
    """An empty white figure of ``size`` inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, facecolor="white", **options)


def check_suffix(path: str | Path) -> None:
    """Raise :class:`InputError` for a file of another kind than pictures are written as."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InputError("no such plot format", str(path), f"Let the file name end in {', '.join(SUFFIXES)}.")


@contextmanager
def picture(path: str | Path, size: tuple[float, float], tight: bool = True, **options: Any) -> Iterator[Figure]:
    """An empty figure of ``size`` inches that is written to ``path`` when it is drawn (PNG, SVG or PDF by its suffix).

    ``options`` are the figure's own; ``tight`` cuts the margins. Raises :class:`InputError` for another suffix, and
    where the file can't be written.
    """
    check_suffix(path := Path(path))
    with styled():
        figure = blank(size, **{"dpi": 120, **options})
        yield figure
        save(figure, path, tight)


#: What is at a place of a picture: left, top, width and height as shares of the picture's, and its name.
Spot = tuple[float, float, float, float, str]
_SPOTS: ContextVar[list[Spot] | None] = ContextVar("spots", default=None)
#: Names that a picture's reader is given at most, and inches around a picture whose margins are cut.
MOST_SPOTS, PAD = 20_000, 0.1


@contextmanager
def naming() -> Iterator[list[Spot]]:
    """The names of what is drawn within, with their places: what a reader may show where one points."""
    found: list[Spot] = []
    token = _SPOTS.set(found)
    try:
        yield found
    finally:
        _SPOTS.reset(token)


def named(axes: Axes, left: float, low: float, width: float, height: float, text: str) -> None:
    """Say what is drawn in a rectangle of ``axes``, in the units of its data."""
    if _SPOTS.get() is not None:
        axes.figure.__dict__.setdefault("_named", []).append((axes, left, low, width, height, text))


def save(figure: Figure, path: Path, tight: bool = True) -> Path:
    """Write a figure, the same bytes for the same picture; returns the path."""
    suffix, data = path.suffix.lower(), io.BytesIO()
    stamp: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix, {})
    _tame(figure)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # they are drawn as boxes
        areas = figure.__dict__.get("_named", [])
        box: Any = _box(figure) if areas and tight else "tight" if tight else None
        figure.savefig(data, format=suffix[1:], metadata=stamp, bbox_inches=box)
    spots = _SPOTS.get()
    if spots is not None and areas:
        spots += _spots(figure, box, areas[:MOST_SPOTS])
    try:
        write_whole(path, _short(data.getvalue()) if suffix == ".svg" else data.getvalue())
    except OSError as error:
        raise InputError(f"can't be written: {error.strerror or error}", str(path), "Check the folder.") from None
    return path


def _box(figure: Figure) -> Any:
    """What is drawn, in inches, with a margin."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas = FigureCanvasAgg(figure)
    figure.draw(canvas.get_renderer())
    return figure.get_tightbbox(canvas.get_renderer()).padded(PAD)


def _spots(figure: Figure, box: Any, areas: Sequence[tuple[Axes, float, float, float, float, str]]) -> list[Spot]:
    """The named rectangles as shares of what the file shows, cut to it."""
    wide, tall = (box.width, box.height) if box is not None else figure.get_size_inches()
    x0, y0 = (box.x0, box.y0) if box is not None else (0.0, 0.0)
    found = []
    for axes, left, low, width, height, text in areas:
        corners = axes.transData.transform([(left, low), (left + width, low + height)]) / figure.dpi
        xs, ys = sorted((corners[:, 0] - x0) / wide), sorted(1 - (corners[:, 1] - y0) / tall)
        found.append((*(round(float(v), 5) for v in (xs[0], ys[0], xs[1] - xs[0], ys[1] - ys[0])), _tamed(text)))
    return found  # type: ignore[return-value]


#: A rectangle as matplotlib writes it.
_RECTANGLE = re.compile(rb"M (\S+) (\S+) \nL (\S+) \2 \nL \3 (\S+) \nL \1 \4 \nz\n?")
#: A line that goes on level.
_LEVEL = re.compile(rb"L (\S+) (\S+) \nL (\S+) \2 \n")


def _short(svg: bytes) -> bytes:
    """The SVG with two decimals in its paths, a hundredth of a point, and without letters that say nothing."""

    def short(path: re.Match[bytes]) -> bytes:
        rounded = re.sub(rb"(\.\d\d)\d+", rb"\1", path[0])
        return _LEVEL.sub(rb"L\1 \2H\3", _RECTANGLE.sub(rb"M\1 \2H\3V\4H\1z", rounded)).replace(b" \nL ", b"L")

    return re.sub(rb' d="[^"]*"', short, svg)


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
