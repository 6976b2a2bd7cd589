"""The ISPD 2020 suite: score, parts, bound and gap of every case beside the published rows.

    python -m benchmarks.wafer_suite --out DIR [--limit SECONDS] [--jobs 2] [--threads 1] [--only A B ...]
                                     [--weights 1,0,0] [--early SECONDS] [--markdown FILE]

The inputs are read from $CHIPMAP_DATA, else ../shared/data. Every case is one ``chipmap solve`` with an archive in DIR
(a case whose archive is whole is not run again); its ``solution.paint`` is then given to ``chipmap check`` and must
have the same score. ``--early`` adds the score that the trace shows after so many seconds.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.best_known import submit
from benchmarks.wafer_published import SUITE, Published, geometric_mean
from chipmap.result import Result

DATA = Path(os.environ.get("CHIPMAP_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")) / "ispd2020"
COLUMNS = (
    "case | score | time | wire | adapters | bound | gap | published | of it | best of five | of it | proved | seconds"
)


def solve(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Solve one case, unless its archive is there, and check its ``.paint`` file."""
    archive = arguments.out / case
    source = str(DATA / f"{case}.kgraph")
    settings = []
    if arguments.weights:
        names = zip(("time", "wire", "adapter"), arguments.weights.split(","), strict=True)
        settings = [part for name, weight in names for part in ("--set", f"weights.{name}={weight}")]
    if not (archive / "environment.json").exists():
        command = [sys.executable, "-m", "chipmap", "solve", source, *settings, "--time-limit", str(arguments.limit)]
        command += [
            "--threads",
            str(arguments.threads),
            "--out",
            str(archive),
            "--quiet",
            "--seed",
            str(arguments.seed),
        ]
        subprocess.run(command, check=True, capture_output=True)
    result: dict[str, Any] = json.loads((archive / "result.json").read_bytes())
    if result["failure"]:
        raise RuntimeError(f"{case}: {result['failure']}")
    submit([Result.from_json((archive / "result.json").read_bytes())], "" if settings else f"wafer/ispd2020-{case}")
    row = json.loads(_output(["report", str(archive), "--format", "json"]).splitlines()[0])
    checked = json.loads(_output(["check", source, str(archive / "solution.paint"), *settings, "--format", "json"]))
    assert checked["feasible"] and checked["objective"] == row["objective"], (case, checked)
    return {"case": case, "row": row, "result": result, "early": early(archive, arguments.early), "checked": checked}


def _output(words: list[str]) -> str:
    return subprocess.run([sys.executable, "-m", "chipmap", *words], check=True, capture_output=True, text=True).stdout


def early(archive: Path, seconds: float) -> float | None:
    """The score (natural units) that the run had after ``seconds``."""
    found = None
    with (archive / "trace.csv").open() as lines:
        for line in csv.DictReader(lines):
            if line["event"] == "solution" and float(line["seconds"]) <= seconds:
                found = float(line["value"])
    return found


def line(found: dict[str, Any], published: Published) -> str:
    """A row of the table."""
    row, figures = found["row"], found["checked"]["figures"]
    score, gap = row["objective"], row["gap"]
    cells = [
        found["case"],
        f"{score:,.1f}",
        f"{figures['max_time']:,.2f}".removesuffix(".00"),
        f"{figures['wire_length']:,.1f}",
        f"{figures['adapters']:.0f}",
        "n/a" if row["bound"] is None else f"{row['bound']:,.1f}",
        "n/a" if gap is None else f"{gap:.2%}",
        f"{published.score:,.1f}",
        f"{score / published.score:.4f}",
        f"{published.best:,.1f}",
        f"{score / published.best:.4f}",
        "yes" if row["status"] == "optimal" else "no",
        f"{row['seconds']:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Solve and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--limit", type=float, default=600.0, metavar="SECONDS")
    parser.add_argument("--early", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", default="", metavar="T,W,A")
    parser.add_argument("--only", nargs="*", default=list(SUITE), metavar="CASE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    head = [f"| {COLUMNS} |", "|" + " --- |" * (COLUMNS.count("|") + 1)]
    print("\n".join(head), flush=True)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        found = []
        for one in pool.map(lambda case: solve(case, arguments), arguments.only):
            found.append(one)
            print(line(one, SUITE[one["case"]]), flush=True)
    text = "\n".join([*head, *(line(one, SUITE[one["case"]]) for one in found), "", *summary(found, arguments)])
    print("\n".join(summary(found, arguments)))
    if arguments.markdown:
        arguments.markdown.write_text("# The ISPD 2020 suite\n\n" + text + "\n")


def summary(found: list[dict[str, Any]], arguments: argparse.Namespace) -> list[str]:
    """Geometric means, what is worse than published, and on what it was measured."""
    ratios = [one["row"]["objective"] / SUITE[one["case"]].score for one in found]
    soon = [one["early"] / SUITE[one["case"]].score for one in found if one["early"]]
    worse = [one["case"] for one in found if one["row"]["objective"] > SUITE[one["case"]].best]
    proved = [one["case"] for one in found if one["row"]["status"] == "optimal"]
    lines = [f"Geometric mean of the ratio to the published column: {geometric_mean(ratios):.4f}"]
    if soon:
        lines[0] += f"; after {arguments.early:g} s {geometric_mean(soon):.4f} ({len(soon)} of {len(found)} cases)"
    lines.append(f"Worse than the best of the five placers: {', '.join(worse) or 'none'}. Proved optimal: {proved}.")
    lines.append(
        f"`python -m benchmarks.wafer_suite --limit {arguments.limit:g} --jobs {arguments.jobs} --threads "
        f"{arguments.threads}`, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end, "
        f"Python {platform.python_version()}. Every layout was accepted by the checker, also as its .paint file."
    )
    return lines


if __name__ == "__main__":
    main()
