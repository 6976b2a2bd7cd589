"""What charts of a page are made of: scales, and marks that the template writes as elements of an SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

Corner = tuple[float, float]
#: Shapes that tell methods apart, besides their colours, within a circle of radius 1.
SHAPES: tuple[tuple[Corner, ...], ...] = (
    (),  # a circle
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0.0, -1.3), (1.2, 0.0), (0.0, 1.3), (-1.2, 0.0)),
    ((0.0, -1.2), (1.2, 1.0), (-1.2, 1.0)),
    ((0.0, 1.2), (1.2, -1.0), (-1.2, -1.0)),
)
#: Classes of the style sheet with a colour each; more series repeat them.
SERIES = 8


@dataclass(frozen=True)
class Mark:
    """An element: its name, its attributes, its text, and what is said of it when it is pointed at."""

    name: str
    attributes: dict[str, object]
    text: str = ""
    title: str = ""


@dataclass
class Chart:
    """A chart of ``width`` by ``height`` units; ``label`` says what it shows to those who don't see it."""

    width: float
    height: float
    label: str
    marks: list[Mark] = field(default_factory=list)

    def add(self, name: str, text: str = "", title: str = "", **attributes: object) -> None:
        """Add an element; ``class_`` stands for ``class``, other underscores for hyphens, floats are rounded."""
        plain = {
            key.rstrip("_").replace("_", "-"): f"{value:.1f}" if isinstance(value, float) else value
            for key, value in attributes.items()
            if value is not None
        }
        self.marks.append(Mark(name, plain, text, title))

    def text(self, words: str, x: float, y: float, anchor: str = "start", class_: str | None = None) -> None:
        """Add words, centred on the height ``y``."""
        self.add("text", words, x=float(x), y=float(y), text_anchor=anchor, dominant_baseline="middle", class_=class_)

    def dot(self, series: int, x: float, y: float, title: str, radius: float = 4.2) -> None:
        """Add the mark of a series."""
        shape = SHAPES[series % len(SHAPES)]
        class_ = f"s{series % SERIES}"
        if shape:
            self.add(
                "polygon",
                title=title,
                class_=class_,
                points=joined([(x + radius * a, y + radius * b) for a, b in shape]),
            )
        else:
            self.add("circle", title=title, class_=class_, cx=float(x), cy=float(y), r=radius)


@dataclass(frozen=True)
class Scale:
    """Values from ``low`` to ``high`` on units from ``start`` to ``end``, by logarithm if ``log``."""

    low: float
    high: float
    start: float
    end: float
    log: bool

    def __call__(self, value: float) -> float:
        of: Callable[[float], float] = math.log10 if self.log else float
        value = min(max(value, self.low), self.high)
        span = of(self.high) - of(self.low)
        return self.start + (self.end - self.start) * ((of(value) - of(self.low)) / span if span else 0.5)

    def ticks(self) -> list[float]:
        """Round values inside the range: powers of ten with 2 and 5 between, or about five equal steps."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            marks = (1, 2, 5) if len(powers) <= 3 else (1,)
            found = [m * 10.0**p for p in powers for m in marks]
        else:
            raw = (self.high - self.low) / 5
            step = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 1.0
            step *= next(m for m in (1, 2, 5, 10) if m * step >= raw)
            first = math.ceil(self.low / step)
            found = [i * step for i in range(first, first + 7)]
        return [value for value in found if self.low <= value <= self.high]


def joined(corners: Sequence[Corner]) -> str:
    """Corners as an SVG writes them."""
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in corners)


def legend(chart: Chart, names: Sequence[str], x: float, y: float) -> None:
    """The marks of the series with their names, one below the other."""
    for i, name in enumerate(names):
        chart.dot(i, x, y + 18 * i, name)
        chart.text(name, x + 12, y + 18 * i)
