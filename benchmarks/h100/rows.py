"""A measured row and its file: CSV below lines ``# what: value`` that say where and how it was measured."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

#: Columns that are whole numbers, and those that are microseconds.
WHOLE = ("m", "n", "k", "batch", "context", "heads", "flop", "bytes", "mhz")
TIMES = ("us", "spread", "again")


class Row(NamedTuple):
    """One measured thing: the median of the groups' microseconds, and the most less the least in percent of it.

    A product has m tokens (rows), n output and k input numbers; an attention ``batch`` samples with ``context`` tokens
    and ``heads`` query heads; an element-wise kernel m tokens of n numbers. ``flop`` and ``bytes`` are those that it
    must compute and move (each operand read once, the output written once). ``mhz`` is the clock of the
    multiprocessors in the last group. ``again`` is the median of another occasion (0: none). A row of part ``memory``
    has bytes and no time. Without a format it is bf16.
    """

    part: str
    name: str
    mode: str
    format: str = ""
    m: int = 0
    n: int = 0
    k: int = 0
    batch: int = 0
    context: int = 0
    heads: int = 0
    flop: int = 0
    bytes: int = 0
    us: float = 0.0
    spread: float = 0.0
    mhz: int = 0
    again: float = 0.0

    @property
    def key(self) -> tuple[object, ...]:
        """What was measured."""
        return self[:10]

    @property
    def tflops(self) -> float:
        """TFLOP/s."""
        return self.flop / self.us / 1e6

    @property
    def error(self) -> float:
        """By how much the other occasion differs, as a share of this one."""
        return abs(self.again / self.us - 1)

    @property
    def rate(self) -> float:
        """Bytes per nanosecond."""
        return self.bytes / self.us / 1e3


def shortened(value: float) -> str:
    """Four significant digits, an empty cell for nothing."""
    places = max(0, 3 - math.floor(math.log10(value))) if value else 0
    return f"{value:.{places}f}" if value else ""


def cells(row: Row) -> list[str]:
    """A line of the file."""
    short = row._replace(spread=0.0)
    found = [str(value or "") for value in short]
    for name in TIMES:
        found[Row._fields.index(name)] = shortened(getattr(short, name))
    found[Row._fields.index("spread")] = f"{row.spread:.1f}" if row.spread else ""
    return found


def text_of(rows: Iterable[Row], about: Mapping[str, str]) -> str:
    """The whole file."""
    out = io.StringIO()
    out.writelines(f"# {name}: {value}\n" for name, value in about.items())
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(map(cells, rows))
    return out.getvalue()


def read_rows(path: Path) -> tuple[list[Row], dict[str, str]]:
    """The rows of a file, and what its first lines say."""
    lines = path.read_text().splitlines()
    about = dict(line[2:].split(": ", 1) for line in lines if line.startswith("# "))
    rows = []
    for line in csv.DictReader(line for line in lines if not line.startswith("#")):
        numbers = {name: int(line[name] or 0) for name in WHOLE} | {name: float(line[name] or 0) for name in TIMES}
        rows.append(Row(**(line | numbers)))  # type: ignore[arg-type]
    return rows, about


def joined(shown: Path, other: Path) -> str:
    """One file of two occasions: the rows of one with the medians of the other, and what both say of clocks."""
    (rows, about), (others, more) = read_rows(shown), read_rows(other)
    again = {row.key: row.us for row in others}
    told = {f"other {name}": said for name, said in more.items() if name.startswith("part")}
    return text_of((row._replace(again=again.get(row.key, 0.0)) for row in rows), about | told)
