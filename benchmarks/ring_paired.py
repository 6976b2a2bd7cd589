"""The published graphs and BERT-large, solved by two commits in turn: the same values, and how many CPU seconds.

Two processes, one with the package of ``COMMIT`` and one with that of this checkout, solve the same graphs one after
the other, each ``--repeat`` times (who begins changes from time to time); one thread, 36 chips, constraints C1 to C3.
A first solve of each graph isn't counted: programs are compiled and caches filled by then. A row gives the medians of
the CPU seconds and their ratio; the last lines give the ratio of the sums and the geometric mean of the ratios.

    python -m benchmarks.ring_paired COMMIT [--variant links] [--repeat 5] [--only NAME ...] [--markdown FILE]

Graphs are read from $CHIPMAP_DATA, else ../shared/data. *Better* is a proof where there was none. Exit code
1 where anything else differs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from math import exp, log
from pathlib import Path
from statistics import median
from typing import IO, Any

from benchmarks.ring_reference import DATA, ROOT, VARIANTS

#: What a worker runs: the benchmark's reader of graphs and the package are those of its own tree.
WORKER = """
import json, sys, time
from pathlib import Path
from benchmarks.ring_reference import instance_of
from chipmap.run import SolveOptions
from chipmap.solve import solve
for line in sys.stdin:
    path, variant, limit = json.loads(line)
    instance = instance_of(Path(path), variant)
    start = time.process_time()
    result = solve(instance, options=SolveOptions(time_limit=limit, threads=1, seed=1), isolate=False)
    print(json.dumps([time.process_time() - start, result.status, result.objective, result.bound]), flush=True)
"""


class Side:
    """A process that solves with the package of one tree."""

    def __init__(self, tree: Path) -> None:
        environment = os.environ | {"PYTHONPATH": str(tree), "CHIPMAP_DATA": str(DATA.parent)}
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", WORKER]
        self.process = subprocess.Popen(command, cwd=tree, env=environment, stdin=pipe, stdout=pipe, text=True)

    def solve(self, path: Path, variant: str, limit: float) -> tuple[float, list[Any]]:
        """CPU seconds, and [status, objective, bound]."""
        write: IO[str] | None = self.process.stdin
        read: IO[str] | None = self.process.stdout
        assert write is not None and read is not None
        print(json.dumps([str(path), variant, limit]), file=write, flush=True)
        seconds, *answer = json.loads(read.readline())
        return float(seconds), answer


def row_of(sides: list[Side], path: Path, arguments: argparse.Namespace) -> tuple[str, list[float], str]:
    """The line of a graph, the medians of both sides' CPU seconds, and the word: equal, better or WORSE."""
    answers = [side.solve(path, arguments.variant, arguments.limit)[1] for side in sides]
    seconds: list[list[float]] = [[], []]
    for repeat in range(arguments.repeat):
        for which in (0, 1) if repeat % 2 else (1, 0):
            seconds[which].append(sides[which].solve(path, arguments.variant, arguments.limit)[0])
    before, now = (median(one) for one in seconds)
    (status_before, value_before, _), (status, value, bound) = answers
    word = "equal"
    if (status_before, value_before) != (status, value):
        word = "better" if status == "optimal" != status_before else "WORSE"
    said = word if word == "equal" else f"{word}: {status_before}, {value_before}"
    line = f"| {path.stem} | {status} | {value} | {bound} | {said} | {before:.3f} | {now:.3f} | {now / before:.2f} |"
    return line, [before, now], word


def main() -> int:
    """Solve in turn, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("--variant", choices=list(VARIANTS), default="links")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    paths = [
        path for part in ("torchvision-like", "transformers-like") for path in sorted((DATA / part).glob("*.json"))
    ]
    paths = [path for path in paths if not arguments.only or path.stem in arguments.only]
    lines = ["| graph | status | value | bound | than before | CPU s before | CPU s now | ratio |"]
    lines.append("| --- | --- | --: | --: | --- | --: | --: | --: |")
    print("\n".join(lines), flush=True)
    pairs, words, began = [], Counter[str](), time.strftime("%Y-%m-%d")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), arguments.commit], cwd=ROOT, check=True)
        sides = [Side(tree), Side(ROOT)]
        try:
            for path in paths:
                line, pair, word = row_of(sides, path, arguments)
                lines.append(line)
                print(line, flush=True)
                pairs.append(pair)
                words[word] += 1
        finally:
            for side in sides:
                side.process.terminate()
                side.process.wait()
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    total = sum(now for _, now in pairs) / sum(before for before, _ in pairs)
    mean = exp(sum(log(now / before) for before, now in pairs) / len(pairs))
    summary = f"{len(pairs)} graphs, {words['equal']} equal, {words['better']} better, {words['WORSE']} worse; "
    summary += f"CPU seconds now / before: {total:.3f} of the sums, {mean:.3f} in geometric mean"
    print(summary)
    if arguments.markdown:
        command = f"python -m benchmarks.ring_paired {arguments.commit} --variant {arguments.variant}"
        command += f" --repeat {arguments.repeat}"
        head = f"`{command}`, {began}, {os.cpu_count()} cores, Python {platform.python_version()}, load average "
        head += f"{os.getloadavg()[2]:.1f}. Medians of {arguments.repeat} runs in turn, one thread.\n\n{summary}.\n\n"
        arguments.markdown.write_text(f"# Published graphs, two commits in turn\n\n{head}" + "\n".join(lines) + "\n")
    return int(words["WORSE"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
