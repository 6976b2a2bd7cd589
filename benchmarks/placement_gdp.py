"""GDP's tables 1 to 3, what follows from table 1's own seconds, and ours beside them.

    python -m benchmarks.placement_gdp [PAGE] [--write]

Speed-ups are recomputed from the seconds as (other / GDP-one) - 1. One that can't come out within the rounding of the
seconds and of itself is marked. Our ratios are read from the table of ``benchmarks.placement_workloads`` on PAGE (by
default ``benchmarks/results/placement-workloads.md``); ``--write`` puts the tables at the end of
``benchmarks/results/placement-gdp.md``. Only ratios stand beside each other: the paper's graphs aren't
public, and our times are those of a model, not of a P100.
"""

from __future__ import annotations

import argparse
import io
import math
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

from chipmap.heuristics.placement.published import metis
from chipmap.heuristics.placement.starts import human

PAGE = Path(__file__).parent / "results" / "placement-workloads.md"
OWN_PAGE = PAGE.with_name("placement-gdp.md")
#: The heading of :data:`OWN_PAGE` behind which the tables stand.
TABLES = "## Tables\n"
#: Half a unit of the last digit: of seconds, of percentages.
SECONDS, PERCENT = 0.0005, 0.05


class Paper(NamedTuple):
    """A row of table 1: seconds (METIS: None where it ran out of memory), the printed speed-ups in percent over the
    human expert and over HDP with their rounding, and how much faster than HDP's the search was."""

    gdp: float
    human: float
    metis: float | None
    hdp: float
    over_human: float
    over_hdp: float
    search: float


TABLE_1 = {
    "rnnlm-2": Paper(0.234, 0.257, 0.355, 0.243, 9.8, 4, 2.95),
    "rnnlm-4": Paper(0.409, 0.48, None, 0.490, 17.4, 19.8, 1.76),
    "gnmt-2": Paper(0.301, 0.384, None, 0.376, 27.6, 24.9, 30),
    "gnmt-4": Paper(0.409, 0.469, None, 0.520, 14.7, 27.1, 58.8),
    "gnmt-8": Paper(0.649, 0.610, None, 0.693, -6, 6.8, 7.35),
    "transformer-xl-2": Paper(0.386, 0.473, None, 0.435, 22.5, 12.7, 40),
    "transformer-xl-4": Paper(0.580, 0.641, None, 0.621, 11.4, 7.1, 26.7),
    "transformer-xl-8": Paper(0.748, 0.813, None, 0.789, 8.9, 5.5, 16.7),
    "inception-2": Paper(0.405, 0.418, 0.423, 0.417, 3.2, 3, 13.5),
    "amoebanet-4": Paper(0.394, 0.44, 0.426, 0.418, 26.1, 6.1, 58.8),
    "wavenet-2": Paper(0.317, 0.376, None, 0.354, 18.6, 11.7, 6.67),
    "wavenet-4": Paper(0.659, 0.988, None, 0.721, 50, 9.4, 20),
}
#: The last row of table 1.
MEANS = (16.0, 9.2, 15.0)
#: Table 2: GDP-batch over GDP-one in percent (none for 8-layer GNMT).
TABLE_2 = {
    "rnnlm-2": 0.0,
    "rnnlm-4": 5.0,
    "gnmt-2": 0.0,
    "gnmt-4": 0.0,
    "transformer-xl-2": 7.6,
    "transformer-xl-4": 3.0,
    "transformer-xl-8": 1.5,
    "inception-2": 0.0,
    "amoebanet-4": -5.0,
    "wavenet-2": 15.0,
    "wavenet-4": 3.3,
}
#: Table 3: batch -> GDP-batch over the best of the others in percent.
TABLE_3 = {
    "batch 2": {
        "inception-2": 0.0,
        "amoebanet-4": -4.5,
        "rnnlm-2": 0.0,
        "gnmt-2": 0.0,
        "transformer-xl-2": 6.5,
        "wavenet-2": 4.0,
    },
    "batch 3": {"rnnlm-2": 0.0, "rnnlm-4": 0.0, "rnnlm-8": 4.5, "gnmt-2": 0.0, "gnmt-4": 0.0, "gnmt-8": 8.0},
    "batch 4": {"3 x gnmt-8": 5.1},
}


def speed_up(other: float, ours: float) -> float:
    """In percent."""
    return 100 * (other / ours - 1)


def follows(printed: float, other: float, ours: float) -> bool:
    """Whether a printed percentage can come from seconds that round to these."""
    half = PERCENT if printed % 1 else 0.5
    low = speed_up(other - SECONDS, ours + SECONDS)
    high = speed_up(other + SECONDS, ours - SECONDS)
    return low - half <= printed <= high + half


def mean(ratios: list[float]) -> float:
    """The geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def ours(page: Path) -> dict[str, dict[str, str]]:
    """The rows of our table: name -> cell by column."""
    rows = [line.strip("| \n").split(" | ") for line in page.read_text(encoding="utf-8").splitlines() if "|" in line]
    heading = next((row for row in rows if row[0] == "workload"), [])
    return {row[0]: dict(zip(heading, row, strict=True)) for row in rows if len(row) == len(heading) and row != heading}


def _least(cells: dict[str, str], kinds: Iterator[str]) -> float | None:
    """The least step time of some baselines, by either rule, in ms; None if the table has none."""
    found = [float(number) for kind in kinds for number in re.findall(r"[\d.]+", cells.get(kind, ""))]
    return min(found, default=None)


def _ratio(cells: dict[str, str], kinds: Iterator[str]) -> str:
    least = _least(cells, kinds)
    return "n/a" if least is None else f"{speed_up(least, float(cells['search'])):+.1f}%"


def table_1(page: Path) -> None:
    """The paper's speed-ups as printed and as recomputed, and ours."""
    rows = ours(page)
    heading = ("workload", "over human, printed", "from its seconds", "over HDP, printed", "from its seconds", "METIS")
    links = ("pcie", "nvlink")
    beside = tuple(f"ours over {what}, {kind}" for kind in links for what in ("human", "METIS"))
    print(f"| {' | '.join((*heading, *beside))} |\n|{'---|' * len((*heading, *beside))}")
    for name, row in TABLE_1.items():
        cells = [name]
        for printed, other in ((row.over_human, row.human), (row.over_hdp, row.hdp)):
            mark = "" if follows(printed, other, row.gdp) else " **doesn't follow**"
            cells += [f"{printed:g}%", f"{speed_up(other, row.gdp):.1f}%{mark}"]
        cells.append("out of memory" if row.metis is None else f"{speed_up(row.metis, row.gdp):+.1f}%")
        for kind in links:
            mine = rows.get(f"{name}-{kind}", {})
            cells.append(_ratio(mine, (f"human, {one}" for one in human.SPLITS)) if mine else "n/a")
            cells.append(_ratio(mine, (f"METIS, {one}" for one in metis.WEIGHTS)) if mine else "n/a")
        print(f"| {' | '.join(cells)} |")
    over = [mean([getattr(row, other) / row.gdp for row in TABLE_1.values()]) for other in ("human", "hdp")]
    text = f"printed {MEANS[0]:g}% and {MEANS[1]:g}%"
    text += f", from its seconds {100 * over[0] - 100:.1f}% and {100 * over[1] - 100:.1f}%"
    print(f"\nGeometric means over human and HDP: {text}.")
    searched = mean([row.search for row in TABLE_1.values()])
    print(f"Of the search's speed-ups over HDP's: printed {MEANS[2]:g}, from the column {searched:.1f}.")


def tables_2_and_3() -> None:
    """As printed."""
    print(f"\n| table 2: GDP-batch over GDP-one | {' | '.join(TABLE_2)} |\n|{'---|' * (len(TABLE_2) + 1)}")
    print(f"| printed | {' | '.join(f'{value:g}%' for value in TABLE_2.values())} |")
    print("\n| table 3: GDP-batch over the best of the others | printed |\n|---|---|")
    for batch, row in TABLE_3.items():
        print(f"| {batch} | {', '.join(f'{name} {value:g}%' for name, value in row.items())} |")


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="?", type=Path, default=PAGE)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    told = io.StringIO()
    with redirect_stdout(told):
        table_1(arguments.page)
        tables_2_and_3()
    print(told.getvalue())
    if arguments.write:
        text, mark, _ = OWN_PAGE.read_text(encoding="utf-8").partition(TABLES)
        OWN_PAGE.write_text(f"{text}{mark}\n{told.getvalue()}", encoding="utf-8")


if __name__ == "__main__":
    main()
