"""Who finds what in ``wafer/auto``: the source of every case's floorplan and bound, and who was on the way.

    python -m benchmarks.wafer_ablation --out DIR [--limit SECONDS] [--only NAME ...] [--method wafer/auto]
                                        [--markdown FILE]

Every case is one ``chipmap solve`` with an archive in DIR; a case whose archive is whole is only read. "Found by" holds
the final floorplan, "on the way" lists the sources of better and better floorplans before it: how many, and at which
second the last. "Gains" is what the last source took off the objective of those before it. Likewise for bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

from benchmarks.best_known import submit
from benchmarks.wafer_published import SUITE
from chipmap.result import Result

CASES = (*(f"ispd2020-{case}" for case in SUITE), "bert-large", "bert-large-heads", "gpt2", "gpt-1000", "resnet-1000")
COLUMNS = ["case", "objective", "gap", "found by", "at s", "gains", "on the way", "bounded by", "at s", "on the way"]


def solved(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The result of one case, solved now unless its archive is there."""
    archive = arguments.out / name
    if not (archive / "environment.json").exists():
        command = [sys.executable, "-m", "chipmap", "solve", f"wafer/{name}", "--method", arguments.method]
        command += ["--time-limit", str(arguments.limit), "--out", str(archive), "--quiet"]
        subprocess.run(command, check=True, capture_output=True)
    result: dict[str, Any] = json.loads((archive / "result.json").read_bytes())
    submit([Result.from_json((archive / "result.json").read_bytes())])
    return result


def steps(result: dict[str, Any], event: Literal["solution", "bound"]) -> list[tuple[str, int, float, int]]:
    """(source, number of gains, second of the last, value after it) in the order of each source's last gain."""
    found: dict[str, tuple[str, int, float, int]] = {}
    for one in result["trace"]:
        if one["event"] == event:
            _, count, *_ = found.pop(one["source"], ("", 0))
            found[one["source"]] = (one["source"], count + 1, one["seconds"], one["value"])
    return list(found.values())


def row(name: str, result: dict[str, Any]) -> list[str]:
    """A row of the table."""
    objective, gap = result["objective"], result["gap"]
    cells = [name.removeprefix("ispd2020-"), "n/a" if objective is None else f"{objective / 4:,.1f}"]
    cells.append("n/a" if gap is None else f"{gap:.2%}")
    for event in ("solution", "bound"):
        found = steps(result, event)  # type: ignore[arg-type]
        if not found:
            cells += ["nobody", *["" for _ in range(3 if event == "solution" else 2)]]
            continue
        *before, (source, count, second, value) = found
        gains = f"{(before[-1][3] - value) / before[-1][3]:.2%}" if before else ""
        way = [f"{other} {times}× to {at:.0f} s" for other, times, at, _ in before]
        cells += [f"{source} ({count}×)", f"{second:.0f}", *([gains] if event == "solution" else []), ", ".join(way)]
    return cells


def totals(results: dict[str, dict[str, Any]], event: Literal["solution", "bound"]) -> list[str]:
    """By source: in how many cases it was the last, and in how many it gained anything."""
    last: dict[str, list[str]] = {}
    some: dict[str, int] = {}
    for name, result in results.items():
        found = steps(result, event)
        for source, *_ in found:
            some[source] = some.get(source, 0) + 1
        if found:
            last.setdefault(found[-1][0], []).append(name.removeprefix("ispd2020-"))
    order = sorted(some, key=lambda source: (-len(last.get(source, [])), -some[source], source))
    return [f"| {source} | {', '.join(last.get(source, [])) or 'none'} | {some[source]} |" for source in order]


def main() -> None:
    """Solve what isn't there yet, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="*", default=list(CASES), metavar="NAME")
    parser.add_argument("--method", default="wafer/auto")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = {name: solved(name, arguments) for name in arguments.only}
    lines = [f"| {' | '.join(COLUMNS)} |", "|" + " --- |" * len(COLUMNS)]
    lines += [f"| {' | '.join(row(name, result))} |" for name, result in results.items()]
    for event, word in (("solution", "found"), ("bound", "bounded")):
        lines += ["", f"| source | {word} last | cases with a gain |", "| --- | --- | --- |"]
        lines += totals(results, event)  # type: ignore[arg-type]
    versions = sorted({result["provenance"]["python"] for result in results.values()})
    limits = sorted({result["provenance"]["options"]["time_limit"] or 0.0 for result in results.values()})
    lines += ["", f"Limit {limits} s, {os.cpu_count()} cores, Python {versions}, {platform.machine()}."]
    text = "\n".join(lines)
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(f"# Ablation of {arguments.method}\n\n{text}\n")


if __name__ == "__main__":
    main()
