"""The checker of ``dataflow`` against a brute force written from its pages alone, on random tiny instances.

    python -m benchmarks.dataflow_page run FIRST LAST FILE     seeds FIRST to LAST - 1
    python -m benchmarks.dataflow_page page FILE … [--out FILE]

``run`` appends a line to FILE as each seed ends, and leaves out the seeds that FILE has, so that a part that was
stopped goes on. Of each instance 12 mappings are compared as they are and tampered with: labels of broken constraints,
every term, objective, bytes of SRAM and DRAM. An instance of at most 150 mappings is enumerated by both, and the optima
compared. ``page`` writes the result of all parts. Exit code 1 where anything differs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance
from tests.dataflow.feature_mix import features
from tests.dataflow.page_comparison import differences
from tests.dataflow.page_instances import page_instance

#: Mappings that are enumerated at most, and those that are compared one by one.
MOST, TRIED = 150, 12


def compared(seed: int) -> dict[str, Any]:
    """A line of the file: what the seed's instance has, what was compared, and what differs."""
    random = Random(seed)
    began = time.process_time()
    instance = page_instance(random)
    wrong, mappings, enumerated = differences(instance, random, MOST, TRIED)
    task, network, edges = instance.task, instance.system.network, instance.workload.edges
    more = {
        "something without bytes": any(0 in (one.output_bytes, one.weight_bytes) for one in instance.workload.kernels),
        "latency": any(one.latency_ns for one in network),
        "sums behind the backward pass": task.overlap_gradients,
        "late updates (zb-h1)": task.schedule == "zb-h1",
        "a tensor with several readers": len({u for u, _ in edges}) < len(edges),
        "layouts kept for other partitions": can_keep(instance),
        "parameters of another kernel": any(one.parameters_of for one in instance.workload.kernels),
        "products that are added up": any(len(one.adds) > 1 for one in instance.workload.kernels),
    }
    named = [*features(instance), *(name for name, has in more.items() if has)]
    return {
        **{"seed": seed, "mappings": mappings, "enumerated": enumerated, "features": named, "wrong": wrong},
        "seconds": round(time.process_time() - began, 3),
    }


def can_keep(instance: DataflowInstance) -> bool:
    """Whether a mapping may keep layouts for other partitions."""
    task = instance.task
    alone = not (task.fused and instance.system.chip.fused) and task.stages == "layers" and not task.across_layers
    fixed = task.keep == "none" or task.schedule == "zb-h1" or task.recompute not in (None, False, "none")
    return instance.mode == "physical" and alone and not fixed


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file."""
    text = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in text if line.endswith("}")]


def run_part(first: int, last: int, path: Path) -> int:
    """Compare the seeds that the file lacks; the number of instances that differ."""
    done, wrong = {line["seed"] for line in lines_of(path)}, 0
    with path.open("a") as file:
        for seed in range(first, last):
            if seed not in done:
                line = compared(seed)
                print(json.dumps(line), file=file, flush=True)
                wrong += bool(line["wrong"])
                for text in line["wrong"][:3]:
                    print(seed, text, file=sys.stderr, flush=True)
    return wrong


def page(paths: list[Path]) -> tuple[str, int]:
    """The result page of all parts, and the number of instances that differ."""
    rows = [*{line["seed"]: line for path in paths for line in lines_of(path)}.values()]
    wrong = [line for line in rows if line["wrong"]]
    counted = Counter(name for line in rows for name in line["features"])
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    lines = [
        "# The checker of `dataflow` and its pages\n",
        f"`python -m benchmarks.dataflow_page`, commit {commit.stdout.strip()}, Python {platform.python_version()}, "
        f"{platform.machine()}, one thread; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.\n",
        "A brute force written from the pages of the family alone (`tests/dataflow/page`, which imports the records "
        "and nothing else of chipmap) against the checker: labels of broken constraints, terms, objective and bytes of "
        "SRAM and DRAM of mappings, half of them tampered with; and the optimum where all mappings are enumerated.\n",
        f"**{len(rows):,} instances**, {sum(line['mappings'] for line in rows):,} mappings one by one, "
        f"{sum(line['enumerated'] for line in rows):,} instances enumerated. **Differences: {len(wrong)}.** "
        f"CPU seconds: {sum(line['seconds'] for line in rows):,.0f}.\n",
        "| feature | instances |",
        "|---|--:|",
        *(f"| {name} | {number:,} |" for name, number in counted.most_common()),
    ]
    lines += ["", *(f"- seed {line['seed']}: {line['wrong'][0]}" for line in wrong)] if wrong else []
    return "\n".join(lines) + "\n", len(wrong)


def main() -> int:
    """Run the sub-command; 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    sub = commands.add_parser("run", help="compare the instances of some seeds")
    sub.add_argument("first", type=int, metavar="FIRST")
    sub.add_argument("last", type=int, metavar="LAST")
    sub.add_argument("file", type=Path, metavar="FILE")
    sub = commands.add_parser("page", help="write the result of all parts")
    sub.add_argument("files", type=Path, nargs="+", metavar="FILE")
    sub.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.command == "run":
        return int(run_part(args.first, args.last, args.file) > 0)
    text, wrong = page(args.files)
    if args.out:
        args.out.write_text(text)
    print(text)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
