"""What every family knows at once: CPU seconds of the parent from the read instance to a checked mapping and a bound.

    python -m benchmarks.at_once [--names NAME ...] [--keep FILE] [--out benchmarks/results/at-once.md]

All shipped instances of all families, and generated ones of 300 (no FLOP), 1,754, 2,000, 20,000 and 52,213 operations,
with tight memories as well. Each is measured in a process of its own, from the moment at which the instance is read and
checked; imports count. With `--keep`, rows that the file has are not measured again. The exit code is 1 where numba was
imported, or a target was missed: 0.5 s up to 2,000 operations, 1.5 s up to 20,000.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from chipmap.family import Family, family_of, get_family, resolve
from chipmap.inputs.reading import read, shipped_names
from chipmap.networks.generators import random_dag
from chipmap.networks.importers.common import ImportedGraph
from chipmap.process.conduct import at_once, checker, first, guarded
from chipmap.records import Record
from chipmap.result import TraceEvent
from chipmap.run import Run, SolveOptions

#: Operations up to which a mapping and a bound may take so many CPU seconds.
TARGETS = ((2_000, 0.5), (20_000, 1.5))
SIZES = (1_754, 2_000, 20_000, 52_213)
ROOT = Path(__file__).parents[1]


def main() -> int:
    """Measure, and write the table; 1 where a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", nargs="*", help="only these instances")
    parser.add_argument("--keep", type=Path, help="a file of rows, one a line, that is read and added to")
    parser.add_argument("--out", type=Path, help="the table to write (default: print it)")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measured(Path(args.one))))
        return 0
    load, rows = os.getloadavg()[0], dict[str, dict[str, Any]]()
    if args.keep and args.keep.exists():
        rows = {row["name"]: row for row in map(json.loads, args.keep.read_text().splitlines())}
    with tempfile.TemporaryDirectory() as folder:
        for name, make in instances():
            if (args.names and name not in args.names) or name in rows:
                continue
            path = Path(folder) / "instance.json"
            path.write_bytes(make().to_json())
            words = [sys.executable, "-m", "benchmarks.at_once", "--one", str(path)]
            out = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
            rows[name] = {"name": name, **json.loads(out)}
            print(rows[name], file=sys.stderr, flush=True)
            if args.keep:
                with args.keep.open("a") as file:
                    file.write(json.dumps(rows[name]) + "\n")
    text = table(list(rows.values()), load)
    if args.out:
        args.out.write_text(text)
    else:
        print(text)
    return int(any(row["numba"] or missed(row) for row in rows.values()))


def instances() -> Iterator[tuple[str, Callable[[], Record]]]:
    """Names and how instances are made: the shipped ones, then generated ones."""
    for name in shipped_names():
        yield name, lambda name=name: read(name)  # type: ignore[misc]
    for size in (300, *SIZES):
        for family in ("ring", "dataflow", "placement"):
            what = "random, no FLOP" if size == 300 else "random"
            yield f"{family}, {what}, {size:,}", lambda family=family, size=size: from_graph(family, size)  # type: ignore[misc]
    for size in (2_000, 20_000):
        for task in ({}, {"objective": "throughput", "memory": "static"}):
            what = "throughput" if task else "step time"
            yield f"placement, tight memory, {what}, {size:,}", lambda size=size, task=task: tight(size, task)  # type: ignore[misc]
        yield f"multimodel, random, {size:,}", lambda size=size: layers(size)  # type: ignore[misc]


def from_graph(family: str, size: int) -> Record:
    """A random graph in a family: of 300 operations those without FLOP; a ring of 1 GiB of SRAM per chip."""
    graph = random_dag(operations=size)
    if size == 300:
        graph = graph.replace(operations=[one.replace(flop=0) for one in graph.operations])
    made: Any = resolve(get_family(family).from_graph)(ImportedGraph(graph, None, "random"), f"random-{size}")
    return made.replace(package=made.package.replace(sram_bytes=2**30)) if family == "ring" else made  # type: ignore[no-any-return]


def tight(size: int, task: dict[str, Any]) -> Record:
    """A random graph on four devices that hold half as much again as the graph's bytes, all together."""
    made: Any = from_graph("placement", size)
    graph = made.graph
    rests = sum(one.weight_bytes for one in graph.operations) + sum(one.bytes for one in graph.tensors)
    device = made.system.devices[0]
    devices = tuple(msgspec.structs.replace(device, name=f"d{d}", memory_bytes=rests * 3 // 8) for d in range(4))
    system, asked = made.system.replace(devices=devices), made.task.replace(**task)
    return made.replace(system=system, task=asked, name=f"tight-{size}")  # type: ignore[no-any-return]


def layers(size: int) -> Record:
    """Four models with so many layers in all on 4 x 4 chiplets."""
    make = next(one for one in get_family("multimodel").generators if one.name == "multimodel-random")
    made: Record = resolve(make.function)(layers=(4,), rows=4, columns=4, task={"windows": 4})
    (model,) = made.models  # type: ignore[attr-defined]
    many = tuple(
        msgspec.structs.replace(layer, name=f"l{k}")
        for k, layer in enumerate((model.layers * (size // 4 // len(model.layers) + 1))[: size // 4])
    )
    return made.replace(models=tuple(msgspec.structs.replace(model, name=f"m{m}", layers=many) for m in range(4)))


def operations(instance: Any) -> int:
    """Operations, layers of models, or kernels of an instance."""
    if hasattr(instance, "graph"):
        return len(instance.graph.operations)
    if hasattr(instance, "models"):
        return sum(len(model.layers) for model in instance.models)
    if hasattr(instance, "workload"):
        return len(instance.workload.kernels) * int(instance.mapped_layers)
    return len(instance.kernels)


def measured(path: Path) -> dict[str, Any]:
    """One instance, in this process: CPU seconds, and what is known."""
    data = path.read_bytes()
    schema = msgspec.json.decode(data)["schema"]
    family: Family = get_family(schema.partition("/")[0])
    instance: Any = resolve(family.instance).from_json(data, path.name)
    began, seconds = time.process_time(), dict[str, float]()

    def hear(event: TraceEvent, run: Run) -> None:
        seconds.setdefault(event.event, time.process_time() - began)

    run = Run(instance, SolveOptions(), checker(family_of(instance), None), listener=hear)

    def work() -> Any:
        at_once(run, family)
        first(run, family, family.method(None))
        return run.terminate()

    guarded(run, work)
    return {
        "operations": operations(instance),
        "mapping": seconds.get("solution"),
        "bound": seconds.get("bound"),
        "all": time.process_time() - began,
        "source": run.best.source if run.best else "",
        "objective": run.upper,
        "lower": run.lower.value if run.lower else None,
        "infeasible": "; ".join(reason.message for reason in run.infeasibility),
        "numba": "numba" in sys.modules,
    }


def missed(row: dict[str, Any]) -> bool:
    """Whether a row's target was missed: both are known within the seconds of its size, or it was proved infeasible."""
    limit = next((seconds for most, seconds in TARGETS if row["operations"] <= most), None)
    if limit is None or row["infeasible"] or row["name"] in NONE:
        return False
    return any(row[what] is None or row[what] > limit for what in ("mapping", "bound"))


#: Why no mapping of these is known at once.
NONE = {
    "dataflow/tiny-sram": "infeasible (C2), which the chain proves",
    "dataflow/tiny-together": "infeasible (C5), which the chain proves",
    "wafer/tiny-memory": "infeasible (C3), which the chain proves",
    "wafer/tiny-fabric": "infeasible (C2), which the chain proves",
}


def late_because(row: dict[str, Any]) -> str:
    """Why a target was missed."""
    if row["name"].startswith("dataflow"):
        return "target missed: all kernels differ, and their costs and the checker's are exact fractions"
    return "target missed"


def table(rows: list[dict[str, Any]], load: float) -> str:
    """The table as Markdown."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    late = [row for row in rows if missed(row)]
    there = [row for row in rows if row["mapping"] is not None]
    lines = [
        "# What is known at once",
        "",
        f"Made by `python -m benchmarks.at_once` at commit {commit.strip()} on {os.cpu_count()} cores, Linux "
        f"{platform.machine()}, Python {platform.python_version()}; load average {load:.1f} before, "
        f"{os.getloadavg()[0]:.1f} after. CPU seconds of the parent, in a process of its own, from the read instance "
        "to the first bound and the first mapping that the checker accepts. Imports of what is used for it count. "
        "Targets: 0.5 s up to 2,000 operations, 1.5 s up to 20,000.",
        "",
        f"Of {len(rows)} instances {len(there)} have a mapping, {sum(bool(row['infeasible']) for row in rows)} are "
        f"proved infeasible at once, and {len(late)} miss the target; numba was imported for "
        f"{sum(row['numba'] for row in rows)}.",
        "",
        "| instance | operations | bound | mapping | both, and better ones | objective / bound | why none |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        ratio = f"{row['objective'] / row['lower']:.2f}" if row["objective"] is not None and row["lower"] else "n/a"
        why = row["infeasible"] or NONE.get(row["name"], "") or (late_because(row) if missed(row) else "")
        cells = [seconds(row[what]) for what in ("bound", "mapping", "all")]
        lines.append(f"| {row['name']} | {row['operations']:,} | {' | '.join(cells)} | {ratio} | {why} |")
    return "\n".join(lines) + "\n"


def seconds(value: float | None) -> str:
    """CPU seconds in words."""
    return "n/a" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    sys.exit(main())
