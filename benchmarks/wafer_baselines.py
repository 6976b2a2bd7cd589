"""The published comparison of placers on the ISPD 2020 suite, repeated with our implementations.

    python -m benchmarks.wafer_baselines [--cases ABC...] [--placers poker,...] [--seconds S] [--rows FILE]
        [--markdown FILE]

Each (case, placer) is one line of the JSON file ``--rows``; lines that are there are not measured again, and the table
is made of all of them. Scores are the checker's, seconds are of the processor; with ``--seconds`` a placer is stopped
at its first look at the clock after so many (marked in the table), and its best floorplan until then counts. Published
figures: the table "Experimental Results on ISPD-20 Suite" of CU.POKer's slides; the five columns there are three
entries of the contest (GigaPlacer, CUPID, CU.POKer) and the two heuristics that CU.POKer was compared with.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from chipmap.deadline import Deadline, Stop, StopReason
from chipmap.heuristics.wafer.published.cu_poker import Found, Placer, TimeSearch
from chipmap.heuristics.wafer.published.divide import divide
from chipmap.heuristics.wafer.published.twin_binary import twin_binary
from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance, WaferSolution
from chipmap.instances.wafer.problem import WaferProblem, wafer_problem
from chipmap.validation.wafer.checker import check

CASES = "ABCDEFGHIJKLMNOPQRST"
#: CU.POKer's max time, wire length and adapters.
PUBLISHED: dict[str, tuple[float, float, int]] = {
    "A": (34496, 1314, 15),
    "B": (63504, 2639.5, 18),
    "C": (64512, 2408, 185),
    "D": (33712, 2722, 123),
    "E": (39312, 562, 11),
    "F": (65170, 1489.5, 12),
    "G": (64512, 2508.5, 98),
    "H": (39520, 1104.5, 49),
    "I": (52136, 617.5, 13),
    "J": (50274, 2472.5, 69),
    "K": (432, 240, 3),
    "L": (864, 279, 18),
    "M": (2211840, 3610.5, 41),
    "N": (1482, 480.5, 10),
    "O": (52136, 617.5, 13),
    "P": (57792, 1101, 85),
    "Q": (882, 166, 6),
    "R": (8064, 259, 20),
    "S": (2396160, 1897.5, 48),
    "T": (4102, 208.5, 4),
}
#: Published scores of the other placers, cases A to T, as multiples of CU.POKer's.
RATIOS: dict[str, str] = {
    "GigaPlacer": "1.02 1.02 1 .98 1 1.02 1.05 1 1 .95 1.4 1.72 1.02 1 1.06 1 2.01 1.37 .93 1.59",
    "CUPID": "1.04 1.07 1.05 1.04 1.03 1.07 1.1 1.14 1.01 1.03 1.51 1.82 1.06 1 1.01 1.46 2.23 2.92 1 1.45",
    "SA placer": "1.14 1.17 1.38 1.31 1.26 1.36 1.74 1.69 1.31 1.59 1.09 2.49 1.08 1.5 1.39 2.1 .87 2.69 1.24 1.99",
    "DC placer": "1.03 1.03 1.04 1.1 1.13 1.15 1.44 1.33 1.03 1.11 1.36 2.48 1.03 1.62 1.08 1.6 1.31 2.06 1.27 2.29",
}
Report = Callable[[Found], None]
PLACERS: dict[str, Callable[[WaferProblem, Deadline, Report], Found | None]] = {
    "poker": lambda problem, deadline, report: TimeSearch(
        Placer(problem, within=True), 0, deadline, report, anneal=False
    ).run(),
    "poker-each": lambda problem, deadline, report: TimeSearch(Placer(problem), 0, deadline, report, True).run(),
    "annealing-tbs": lambda problem, deadline, report: twin_binary(problem, 0, deadline, report),
    "divide": lambda problem, deadline, report: divide(problem, deadline, report),
}
Row = dict[str, Any]


def contest(case: str) -> WaferInstance:
    """The instance of one case."""
    instance = read(f"wafer/ispd2020-{case}")
    assert isinstance(instance, WaferInstance)
    return instance


def measure(case: str, placer: str, limit: float) -> Row:
    """Run one placer on one case for ``limit`` seconds at most and check its floorplan."""
    instance = contest(case)
    started = time.process_time()
    every: list[Found] = []

    def used() -> StopReason | None:
        return "time" if time.process_time() - started > limit else None

    stopped = False
    try:
        PLACERS[placer](wafer_problem(instance), Deadline(ended=used), every.append)
    except Stop:
        stopped = True
    seconds = time.process_time() - started
    row: Row = {"case": case, "placer": placer, "seconds": round(seconds, 1), "stopped": stopped}
    if every:
        found = min(every, key=lambda one: one.parts.score)
        certificate = check(instance, WaferSolution(instance=instance.name, placements=tuple(found.placements)))
        if certificate.violations or certificate.objective != found.parts.score:
            raise SystemExit(f"{placer} on {case}: {certificate}")
        parts = found.parts
        row |= {"score": parts.score / 4, "time": parts.time / 4, "wire": parts.wire / 2, "adapters": parts.adapters}
    return row


def published(case: str) -> float:
    """CU.POKer's score, from its parts."""
    weights = contest(case).weights
    slowest, wire, adapters = PUBLISHED[case]
    return weights.time * slowest + weights.wire * wire + weights.adapter * adapters


def table(rows: list[Row]) -> list[str]:
    """The comparison as Markdown: a table per placer, then the geometric means."""
    lines, means = [], []
    for placer in PLACERS:
        mine = {row["case"]: row for row in rows if row["placer"] == placer and "score" in row}
        if not mine:
            continue
        lines += [f"\n## {placer}\n", "| case | time | wire | adapters | score | published | ratio | seconds |"]
        lines += ["| --- |" + " --: |" * 7]
        mine_to_published = []
        for case in sorted(mine):
            row, other = mine[case], published(case)
            mine_to_published.append(row["score"] / other)
            stopped = " (stopped)" if row.get("stopped") else ""
            lines.append(
                f"| {case} | {row['time']:g} | {row['wire']:g} | {row['adapters']} | {row['score']:.10g} | "
                f"{other:.10g} | {mine_to_published[-1]:.3f} | {row['seconds']}{stopped} |"
            )
        means.append(f"| ours: {placer} | {len(mine)} | {geometric_mean(mine_to_published):.3f} |")
    for name, ratios in RATIOS.items():
        means.append(f"| published: {name} | 20 | {geometric_mean(map(float, ratios.split())):.3f} |")
    return [
        "| placer | cases | geometric mean of score to CU.POKer's published one |",
        "| --- | --: | --: |",
        *means,
        *lines,
    ]


def main() -> None:
    """Measure what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--placers", default=",".join(PLACERS))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--rows", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    if options.rows and options.rows.exists():
        rows = [json.loads(line) for line in options.rows.read_text().splitlines()]
    done = {(row["case"], row["placer"]) for row in rows}
    for placer in filter(None, options.placers.split(",")):
        for case in options.cases:
            if (case, placer) in done:
                continue
            rows.append(measure(case, placer, options.seconds))
            print(rows[-1], flush=True)
            if options.rows:
                with options.rows.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    text = "\n".join(table(rows))
    print(text)
    if options.markdown:
        options.markdown.write_text(text + "\n")


if __name__ == "__main__":
    main()
