"""DFModel's table VI and its GPT3 1T case: the published figure beside ours, and how long the proof takes.

Seconds (by the clock, and of CPU) are those of a whole solve without reading: every choice of degrees, the program,
the check. They are the median of ``--repeat`` in one process after one that is not counted.

    python benchmarks/dataflow_table6.py [--repeat 5]
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
#: A unit, how many of it a tick is, and what is measured in it.
BATCH, LAYER = ("s", 1e-12, "objective"), ("ns per layer", 1e-3, "T4")
#: Instance -> (what, the figure of the published runs, the speed-up in the paper's text, the measure).
ROWS: dict[str, tuple[str, float | None, str, tuple[str, float, str]]] = {
    "table6-kbk-8x1": ("kernel by kernel", 4909.148, "1", BATCH),
    "table6-vendor-8x1": ("vendor's mapping", 1212.252, "4.05", BATCH),
    "table6-dfmodel-8x1": ("DFModel, 8 in a ring, exactly 4 partitions", 1020.525, "4.8", BATCH),
    "table6-dfmodel-4x2": ("DFModel, 4 x 2 torus, exactly 4 partitions", 800.976, "6.13", BATCH),
    "table6-free-8x1": ("8 in a ring, at most 4", None, "", BATCH),
    "table6-free-4x2": ("4 x 2 torus, at most 4", None, "", BATCH),
    "gpt3-175b-96-layers-8x1": ("8 in a ring, across 96 layers", None, "", BATCH),
    "gpt3-1t-sn30-1024": ("GPT3 1T, 1,024 SN30, both directions", 24_525_757.6, "", LAYER),
}
#: How far ours may be from a published figure.
TOLERANCE = 1e-5


def measure(name: str, repeat: int) -> tuple[float, float, float, str]:
    """Our figure of ``name``, the median seconds and CPU seconds of a solve, and the status."""
    from chipmap.inputs.reading import read
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    seconds, spent = list[float](), list[float]()
    for _ in range(repeat + 1):
        instance = read(f"dataflow/{name}")
        started, cpu = time.perf_counter(), time.process_time()
        result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1))
        seconds.append(time.perf_counter() - started)
        spent.append(time.process_time() - cpu)
    _, per_tick, what = ROWS[name][3]
    assert result.certificate is not None and result.objective is not None
    ticks = result.objective if what == "objective" else result.certificate.terms[what]
    return ticks * per_tick, statistics.median(seconds[1:]), statistics.median(spent[1:]), result.status


def main() -> int:
    """Print the table; 1 if a published figure is missed or a mapping isn't proved optimal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    load, bad, base = os.getloadavg()[0], 0, 0.0
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {load:.1f}\n")
    print("| instance | what | published | ours | speed-up: paper | ours | status | seconds | CPU seconds |")
    print("|---|---|--:|--:|--:|--:|---|--:|--:|")
    for name, (what, paper, text, (unit, _, _)) in ROWS.items():
        ours, seconds, cpu, status = measure(name, args.repeat)
        base = base or ours
        speed = f"{base / ours:.2f}" if unit == "s" else ""
        wanted = f"{paper:,.3f} {unit}" if paper is not None else ""
        figures = f"{wanted} | {ours:,.3f} {unit} | {text} | {speed} | {status} | {seconds:.3f} | {cpu:.3f}"
        print(f"| `{name}` | {what} | {figures} |")
        bad += status != "optimal" or (paper is not None and abs(ours / paper - 1) > TOLERANCE)
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
