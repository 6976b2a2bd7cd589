"""Graphs that may be too wide for the plain program over ideals: mixtures of experts, kernels side by side, and all
published graphs (traced networks, measured profiles) as the importers read them, on eight SN10; and large instances.

For each: kernels, the objective, the bound, the gap and the seconds to the end of the default method, on one thread,
with the peak memory of the process that solves. CPU seconds are that process's as well, so that on a busy machine they
are fewer than those of the clock, which the limit counts. Published graphs are read from ../shared/data/graphs where
it exists.

    python benchmarks/dataflow_wide.py [--time-limit 60] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GRAPHS = ROOT.parent / "shared/data/graphs"
#: Files there that are no graphs.
OTHERS = ("ring_reference", "human-experts", "README", "LICENSE", "ORIGIN")
#: Changes of ``moe-64-experts``, by what the row says.
CHANGES: dict[str, dict[str, Any]] = {
    "nothing overlaps": {"overlap": False},
    "on tiles": {"utilisation": None},
    "all degrees": {"degrees": None},
}


def side_by_side(count: int) -> Any:
    """``count`` unlike kernels side by side on two chips, heavy in compute or in weights, at most six partitions."""
    from chipmap.instances.dataflow.generators import explicit

    random = Random(count)
    kernels: dict[str, dict[str, Any]] = {
        f"k{i}": {
            "flop": random.randint(10**7, 10**9),
            "output_bytes": 0,
            "weight_bytes": random.randint(10_000, 300_000),
            "schemes": ["M"],
        }
        for i in range(count)
    }
    room = sum(kernel["weight_bytes"] for kernel in kernels.values()) // 11
    return explicit(
        name=f"{count} kernels side by side",
        kernels=kernels,
        sizes=[2],
        sram_bytes=room,
        chip="sn10",
        memory_gbps=100.0,
        partitions=6,
        batch=4,
        degrees={"tensor": 2, "dimensions": ["tensor"]},
    )


def large() -> Iterator[tuple[str, Callable[[], Any], float]]:
    """Instances of a size that the program isn't made for: name, what makes it, and the seconds it has."""
    from benchmarks.dataflow_unfused import GLAM, SN30, random_graph
    from chipmap.instances.dataflow.generators import gpt, moe

    layered, many = "dataflow/gpt3-175b-96-layers-8x1", {**SN30, "sizes": [8, 128, 100]}
    trillion = {"hidden": 25_600, "heads": 160, "layers": 128, "backward": True, "batch": 25_600, "micro_batch": 1}
    yield "256 experts", lambda: moe(experts=256, sizes=[8], micro_batch=1, **GLAM), 300.0
    yield "1,000 layers of GPT3 175B in a row", lambda: _layered(layered, 1000), 120.0
    yield "random graph, 5,000 kernels", lambda: random_graph(5000), 120.0
    yield "GPT3 1T, both directions, 102,400 chips", lambda: gpt(**trillion, **many), 120.0


def _layered(name: str, layers: int) -> Any:
    from chipmap.inputs.reading import read

    instance: Any = read(name)
    return instance.replace(workload=instance.workload.replace(layers=layers))


def instances() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The names of the rows and what makes their instances."""
    from chipmap.inputs.reading import read

    for name in ("moe-3-experts", "moe-8-experts", "moe-64-experts"):
        yield f"`{name}`", partial(read, f"dataflow/{name}")
        yield f"`{name}`, mode `dfmodel`", partial(_published_mode, f"dataflow/{name}")
    for words, change in CHANGES.items():
        yield f"`moe-64-experts`, {words}", partial(_changed, "dataflow/moe-64-experts", change)
    yield "24 kernels side by side", lambda: side_by_side(24)
    for path in sorted(GRAPHS.rglob("*.*")):
        name = path.relative_to(GRAPHS).as_posix()
        if not any(word in name for word in OTHERS):
            yield f"`{name.removesuffix('.json').removesuffix('.graph.txt')}`", partial(_imported, name)


def _imported(name: str) -> Any:
    from chipmap.instances.dataflow.from_graph import from_graph
    from chipmap.networks.importers.reading import import_graph

    return from_graph(import_graph(str(GRAPHS / name)), name, fuse=False)


def _published_mode(name: str) -> Any:
    from chipmap.inputs.reading import read

    instance: Any = read(name)
    return instance.replace(mode="dfmodel")


def _changed(name: str, change: dict[str, Any]) -> Any:
    from chipmap.inputs.reading import read

    instance: Any = read(name)
    return instance.replace(task=instance.task.replace(**change))


def row(name: str, make: Callable[[], Any], limit: float) -> str:
    """A line of the table."""
    from benchmarks.best_known import submit
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    instance = make()
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1, time_limit=limit))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)  # the solve ran in a child
    seconds, spent = time.perf_counter() - started, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    submit([result])
    bound = max((one.value for one in result.bounds), default=None)
    values = [f"{ticks * 1e-12:.6g} s" if ticks is not None else "" for ticks in (result.objective, bound)]
    gap = f"{result.gap:.4%}" if result.gap is not None else "n/a"
    kernels = len(instance.workload.kernels)
    cells = [name, f"{kernels:,}", *values, gap, result.status, f"{spent:.1f}", f"{seconds:.1f}"]
    return "| " + " | ".join([*cells, f"{after.ru_maxrss / 2**20:.2f}"]) + " |"


def main() -> int:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--only", default="", help="rows whose name holds this")
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    only = f' --only "{args.only}"' if args.only else ""
    lines = [
        "# Wide dataflow graphs",
        "",
        f"`python benchmarks/dataflow_wide.py --time-limit {args.time_limit:g}{only}`: "
        f"Python {platform.python_version()}, "
        f"one thread of {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}; the first row compiles.",
        "",
        "Peak memory is the most that any process has taken up to this row.",
        "",
        "| instance | kernels | objective | bound | gap | status | CPU seconds | seconds | peak memory, GiB |",
        "|---|--:|--:|--:|--:|---|--:|--:|--:|",
    ]
    print("\n".join(lines))
    some = ((name, make, args.time_limit) for name, make in instances())
    for name, make, limit in (*some, *((f"{name} ({limit:g} s)", make, limit) for name, make, limit in large())):
        if args.only in name:
            lines.append(row(name, make, limit))
            print(lines[-1], flush=True)
    ended = sum(f"| {word} |" in line for line in lines for word in ("optimal", "infeasible"))
    lines += ["", f"{ended} of {len(lines) - 8} rows are proved optimal or infeasible."]
    print(lines[-1])
    if args.markdown:
        args.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
