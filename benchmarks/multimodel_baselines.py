"""The baselines of family multimodel on its named instances: the checker's objective and the seconds of a solve.

    python benchmarks/multimodel_baselines.py [--instances A,B] [--methods scar,scar-best] [--seconds S] [--repeat 5]

Seconds are by the clock, the median of ``--repeat`` solves after one that is not counted (none with ``--repeat 0``:
the one solve counts). Each is without a start, on one thread, for ``--seconds`` at most.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
METHODS = ("standalone", "simba", "scar", "scar-best")
INSTANCES = [f"scar-{n}-{how}" for how in ("whole", "pipelined") for n in range(6, 11)] + [
    "resnet50-unet",
    "four-models",
]


def measure(name: str, method: str, seconds: float | None, repeat: int) -> tuple[str, float]:
    """The objective in J s (or what was said instead), and the median seconds."""
    from benchmarks.best_known import submit
    from chipmap.inputs.reading import read
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    spent = list[float]()
    for _ in range(repeat + 1):
        instance, started = read(f"multimodel/{name}"), time.perf_counter()
        options = SolveOptions.make(warm_start="none", threads=1, time_limit=seconds)
        result = solve(instance, f"multimodel/{method}", options)
        spent.append(time.perf_counter() - started)
    submit([result])
    words = (
        f"{result.objective * 1e-12:.4f}" if result.objective is not None else "; ".join(n.text for n in result.notes)
    )
    return words, statistics.median(spent[1:] or spent)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--instances", default=",".join(INSTANCES))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    methods = args.methods.split(",")
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}\n")
    print(f"| instance | {' | '.join(f'{method} | s' for method in methods)} |\n|---|{'--:|--:|' * len(methods)}")
    for name in args.instances.split(","):
        cells = (measure(name, method, args.seconds, args.repeat) for method in methods)
        print(f"| `{name}` | {' | '.join(f'{words} | {seconds:.2f}' for words, seconds in cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
