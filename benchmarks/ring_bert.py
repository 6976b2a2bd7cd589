"""BERT-large's encoder on 36 chips: from file to certificate, the reference value, and CP-SAT cold beside it.

    python -m benchmarks.ring_bert [--repeat 5] [--cold SECONDS] [--markdown FILE]

Every run is the command line's own (``chipmap generate``, then ``chipmap solve FILE``) in a fresh process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAME = "ring/bert-large-36"
#: As the reference values count: 4-byte words, compute only, C1 to C3.
REFERENCE = ("traffic=twice_out", "package.link_bytes_per_ns=null", 'constraints=["C1","C2","C3"]')
REFERENCE_VALUE, CHIPS = 1.1224, 36


def chipmap(*arguments: str) -> tuple[float, str]:
    """(seconds, standard output) of one command."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "chipmap", *arguments], capture_output=True, text=True, timeout=900, check=False
    )
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)
    return time.perf_counter() - started, done.stdout


def solve(path: Path, *more: str) -> dict[str, Any]:
    """The JSON object of ``chipmap solve``, with the command's seconds as ``wall``."""
    seconds, text = chipmap("solve", str(path), "--format", "json", "--quiet", *more)
    row: dict[str, Any] = json.loads(text)
    return {**row, "wall": seconds}


def line(what: str, row: dict[str, Any], wall: str) -> str:
    """One row of the table."""
    finder = row["figures"].get("incumbent_source", "")
    gap = "n/a" if row["gap"] is None else f"{row['gap']:.2%}"
    value = "n/a" if row["objective"] is None else f"{row['objective']:.3f}"
    return f"| {what} | {row['status']} | {value} | {row['bound'] or 0:.3f} | {gap} | {finder} | {wall} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cold", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, wide = Path(folder) / "bert.json", Path(folder) / "bert4.json"
        chipmap("generate", NAME, "--out", str(path))
        chipmap("generate", "bert-large", "--set", "word_bytes=4", "--out", str(wide))
        runs = [solve(path) for _ in range(arguments.repeat)]
        walls = sorted(row["wall"] for row in runs)
        lines = [
            "| what | status | period, us | bound, us | gap | found by | seconds |",
            "| --- | --- | --: | --: | --: | --- | --: |",
        ]
        seconds = f"{statistics.median(walls):.2f} (median of {len(walls)}; {walls[0]:.2f} to {walls[-1]:.2f})"
        lines.append(line(f"`{NAME}`, C1 to C4, file to certificate", runs[0], seconds))
        settings = [part for text in REFERENCE for part in ("--set", text)]
        row = solve(wide, *settings)
        _, text = chipmap("info", str(wide), *settings, "--format", "json")
        average = json.loads(text)["average_us"]
        value = row["objective"] / average
        equal = "equal" if abs(value / REFERENCE_VALUE - 1) < 2e-4 else "DIFFERENT"
        lines.append(line("4-byte words, C4 and links off", row, f"{row['wall']:.2f}"))
        for limit in (arguments.cold,):
            row = solve(path, "--method", "ring/cpsat-cold", "--time-limit", f"{limit:g}")
            lines.append(line("the first by CP-SAT cold, uncontracted", row, f"{row['wall']:.2f} (limit {limit:g})"))
    load = f"Load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    lines.append(
        f"\n{load}. The second row is {value:.4f} of total work / {CHIPS}; reference {REFERENCE_VALUE}: {equal}."
    )
    print("\n".join(lines))
    if arguments.markdown:
        head = f"`python -m benchmarks.ring_bert` on {os.cpu_count()} cores, Python {platform.python_version()}.\n\n"
        arguments.markdown.write_text("# BERT-large's encoder on 36 chips\n\n" + head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
