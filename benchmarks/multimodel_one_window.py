"""With a single window (``task.windows=1``): how far is each named multimodel instance on 3×3 chiplets proved?

Each instance is solved ``--repeats`` times by ``multimodel/auto`` in a process of its own, with a limit in seconds; the
table has the median of the seconds until the run ends (with a proof, or at the limit). ``--objective`` asks for another
one than EDP.

    python benchmarks/multimodel_one_window.py [--repeats 5] > benchmarks/results/multimodel-one-window.md
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time

#: Instances of the table; --instances names others.
NAMED = [f"scar-{number}-{how}" for number in range(1, 11) for how in ("whole", "pipelined")]
NAMED += ["resnet50-unet", "four-models"]


def row(name: str, objective: str, limit: float, repeats: int) -> str:
    """One line of the table."""
    from chipmap.inputs.reading import read
    from chipmap.instances.multimodel import MultiInstance
    from chipmap.instances.multimodel.units import units
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    base = read(f"multimodel/{name}")
    assert isinstance(base, MultiInstance)
    instance = base.replace(task=base.task.replace(windows=1, objective=objective))
    unit, seconds, result = units(instance).objective, [], None
    for _ in range(repeats):
        started = time.perf_counter()
        result = solve(instance, "multimodel/auto", SolveOptions(time_limit=limit), isolate=True)
        seconds.append(time.perf_counter() - started)
    assert result is not None and result.objective is not None
    value = result.objective * unit.per_tick
    bound = max((one.value for one in result.bounds), default=0) * unit.per_tick
    layers = ", ".join(str(len(model.layers)) for model in instance.models)
    return (
        f"| {name} | {layers} | {value:.6g} | {bound:.6g} | {(value - bound) / value:.3%} | {result.status} "
        f"| {statistics.median(seconds):.1f} |"
    )


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--instances", nargs="+", default=NAMED)
    parser.add_argument("--objective", default="edp", choices=("latency", "energy", "weighted", "edp"))
    parser.add_argument("--time-limit", type=float, default=180.0)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    print(f"# One window: `task.windows=1`, objective `{args.objective}`\n")
    load_now = f"load average {os.getloadavg()[0]:.1f} at the start"
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {load_now}; limit {args.time_limit:.0f} s.")
    print(f"Seconds: median of {args.repeats}.\n")
    print("| instance | layers | objective | bound | gap | status | seconds |")
    print("|---|---|--:|--:|--:|---|--:|", flush=True)
    for name in args.instances:
        print(row(name, args.objective, args.time_limit, args.repeats), flush=True)
        print(name, file=sys.stderr, flush=True)
    print(f"\nLoad average {os.getloadavg()[0]:.1f} at the end.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
