"""How long the Pyomo block of BERT-large takes to build and to lower, and how large it is.

The encoder (sequence 512, core-ATen operators) on 36 chips, without contraction: C1 to C4, links, n1 rows. Each
measurement is a process of its own, so that its peak memory is its own.

    python benchmarks/ring_model_size.py [--repeat 5] [--graph FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("CHIPMAP_DATA") or ROOT.parent / "shared" / "data")
GRAPH = DATA / "graphs" / "transformers-like" / "bert_large_encoder_s512_eager_coreaten.json"
TARGET_SECONDS, TARGET_BYTES = 10.0, 2 * 1024**3


def measure(path: Path) -> dict[str, float]:
    """Seconds to read, build and lower the model of the graph at ``path``; its size; this process's peak bytes."""
    started = time.perf_counter()
    from chipmap.formulations.ring.mip import build
    from chipmap.instances.ring import Package, RingInstance
    from chipmap.networks.importers import traced
    from chipmap.solvers.lowering import lower

    imported = time.perf_counter()
    graph = traced.read(path.read_bytes(), str(path))
    instance = RingInstance(name=path.stem, graph=graph, package=Package(chips=36, link_bytes_per_ns=32.0))
    read = time.perf_counter()
    model = build(instance)
    built = time.perf_counter()
    lowered = lower(model.native)
    done = time.perf_counter()
    return {
        "import": imported - started,
        "read": read - imported,
        "build": built - read,
        "lower": done - built,
        "rows": lowered.rows,
        "columns": lowered.columns,
        "nonzeros": int(lowered.matrix.nnz),
        "operations": len(graph.operations),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    }


def main() -> int:
    """Measure ``--repeat`` times and print the medians; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--graph", type=Path, default=GRAPH)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.once:
        print(json.dumps(measure(args.graph)))
        return 0
    if not args.graph.exists():
        print(f"{args.graph} is not there: set CHIPMAP_DATA, or give --graph FILE", file=sys.stderr)
        return 1
    command = [sys.executable, __file__, "--once", "--graph", str(args.graph)]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    runs = [
        json.loads(
            subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": path}).stdout
        )
        for _ in range(args.repeat)
    ]
    median = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    total = statistics.median(run["build"] + run["lower"] for run in runs)
    peak = max(run["peak"] for run in runs)
    print(f"{args.graph.stem}, {median['operations']:,.0f} operations, 36 chips, C1 to C4, links, n1 rows")
    print(f"rows {median['rows']:,.0f}, columns {median['columns']:,.0f}, nonzeros {median['nonzeros']:,.0f}")
    print(
        f"median of {args.repeat}: build {median['build']:.2f} s + lower {median['lower']:.2f} s = {total:.2f} s "
        f"(target {TARGET_SECONDS:g} s); read {median['read']:.2f} s, import {median['import']:.2f} s"
    )
    print(f"peak memory {peak / 1024**3:.2f} GiB (target {TARGET_BYTES / 1024**3:g} GiB)")
    return int(total > TARGET_SECONDS or peak > TARGET_BYTES)


if __name__ == "__main__":
    raise SystemExit(main())
