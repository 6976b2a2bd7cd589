"""Chips that don't fuse, and the first mappings of large graphs: proofs, and what stands when.

    python -m benchmarks.dataflow_unfused [--time-limit 60] [--random 300] [--models 30] [--only NAME …] [--out FILE]

Three tables: instances whose kernels are partitions each; the first mapping of others, beside the best one in the time;
and random small instances, on which the elimination, brute force and (some of them) both explicit models must agree.
CPU seconds of this process count, as the machine may be busy; compiled functions are loaded before. Exit code 1 where
a value differs.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.generators import explicit, gpt, moe, resnets
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.result import TraceEvent
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check

GPU: dict[str, Any] = {"chip": "h100", "memory": "hbm", "link": "nvlink"}
GLAM: dict[str, Any] = {"hidden": 8192, "heads": 64, "inner": 32_768, "gated": False, "stacked": False, "batch": 64}
SN30: dict[str, Any] = {"chip": "sn30", "sizes": [8, 128], "memory_gbps": 300.0, "link_gbps": 50.0}


def random_graph(kernels: int, **parameters: Any) -> DataflowInstance:
    """A random graph of products and element-wise kernels, each reading one or two of the 30 kernels before it."""
    random, fields = Random(kernels), dict[str, dict[str, Any]]()
    for i in range(kernels):
        fields[f"k{i}"] = {"kind": "elementwise", "M": random.choice((1024, 4096, 8192)), "N": 2048}
        if random.random() < 2 / 3:
            fields[f"k{i}"] |= {"kind": "gemm", "K": random.choice((1024, 4096)), "weights": True}
    read = {
        (f"k{random.randrange(max(0, i - 30), i)}", f"k{i}")
        for i in range(1, kernels)
        for _ in range(random.choice((1, 1, 2)))
    }
    setting = {"tokens": 2048, "link_gbps": 450.0, "memory_gbps": 1600.0, "micro_batch": 1}
    return explicit(kernels=fields, edges=sorted(read), **setting | parameters)


def backward_gpt(**parameters: Any) -> DataflowInstance:
    """GPT3 175B in both directions, recomputed, on 1,024 GPUs with 80 GB each."""
    setting = {"backward": True, "recompute": True, "batch": 2048, "sizes": [8, 16, 8], "dram_bytes": 80 * 10**9}
    return gpt(**GPU, **setting | parameters)


#: Name -> instance whose kernels are a partition each.
UNFUSED: dict[str, Callable[[], DataflowInstance]] = {
    "8 experts on 8 chips": lambda: moe(experts=8, stacked=False, sizes=[8], batch=64, micro_batch=1, **GPU),
    "256 experts on 64 chips": lambda: moe(
        experts=256, active=8, stacked=False, sizes=[8, 8], batch=64, micro_batch=1, **GPU
    ),
    "GPT3 175B, both directions, recomputed, 1,024 chips": lambda: backward_gpt(micro_batch=1),
    "the same, micro-batch free": backward_gpt,
    "random, 100 kernels": lambda: random_graph(100, fused=False),
    "random, 1,000 kernels": lambda: random_graph(1000, fused=False),
}
#: Name -> instance whose first mapping counts.
FIRST: dict[str, Callable[[], DataflowInstance]] = {
    "random, 100 kernels": lambda: random_graph(100),
    "random, 300 kernels": lambda: random_graph(300),
    "random, 1,000 kernels": lambda: random_graph(1000),
    "64 experts": lambda: moe(experts=64, sizes=[8], micro_batch=1, **GLAM),
    "128 experts": lambda: moe(experts=128, sizes=[8], micro_batch=1, **GLAM),
    "GPT3 1T, both directions, 8 x 128": lambda: gpt(
        hidden=25_600, heads=160, layers=128, backward=True, batch=3072, micro_batch=1, **SN30
    ),
}


class Seen(NamedTuple):
    """A solve: kernels; CPU seconds of the first mapping and of all; the first objective, the last, and the gap."""

    kernels: int
    first_after: float | None
    took: float
    first: int | None
    last: int | None
    gap: float | None
    status: str


def solved(instance: DataflowInstance, limit: float) -> Seen:
    """``dataflow/auto`` in this process, for so many seconds of the clock on the wall."""
    began, heard = time.process_time(), list[tuple[float, int]]()

    def listener(event: TraceEvent, _: Run) -> None:
        if event.event == "solution":
            heard.append((time.process_time() - began, event.value))

    run = Run(instance, SolveOptions(time_limit=limit, threads=1), check, listener=listener)
    reason = auto(instance, run).reason
    took = time.process_time() - began
    after, first = heard[0] if heard else (None, None)
    return Seen(len(instance.workload.kernels), after, took, first, run.upper, run.gap, reason)


def load_compiled() -> None:
    """Compile or load what the chain uses, by short runs of small instances."""
    made = [moe(experts=3, sizes=[2], micro_batch=1, fused=fused) for fused in (True, False)]
    for one in (random_graph(30), random_graph(30, fused=False), *made, resnets(depth=18, sizes=[2])):
        auto(one, Run(one, SolveOptions(time_limit=5.0, threads=1), check))


def small(many: int) -> Iterator[DataflowInstance]:
    """So many random instances, kernel by kernel, that brute force takes."""
    from tests.dataflow.random_instances import mixed_instance, outside_instance, split_instance

    seed, made = 0, 0
    while made < many:
        instance = (mixed_instance, outside_instance, split_instance)[seed % 3](Random(10_000 + seed))
        seed += 1
        task = instance.task.replace(fused=False, together=(), partitions=None, exactly=False)
        instance = instance.replace(task=task)
        if count(instance) <= 1500 and allowed_degrees(instance):
            made += 1
            yield instance


def agreement(many: int, models: int) -> tuple[str, int]:
    """A line on random instances, and how many values differ."""
    wrong = infeasible = asked = 0
    for number, instance in enumerate(small(many)):
        optimum = brute_force(instance, check)[0]
        methods = (auto, mip, cpsat) if number < models else (auto,)
        asked += number < models
        infeasible += optimum is None
        for method in methods:
            run = Run(instance, SolveOptions(time_limit=600.0, threads=1), check)
            reason = method(instance, run).reason
            bound = run.lower.value if run.lower else 0
            sound = optimum is None or bound <= optimum
            wrong += (run.upper, reason == "infeasible") != (optimum, optimum is None) or not sound
    text = f"{many} random instances of 1 to 5 kernels ({infeasible} infeasible): the elimination and brute force"
    return f"{text}, and of {asked} HiGHS and CP-SAT, differ in {wrong} values.", wrong


def seconds(value: float | None) -> str:
    """Seconds with two digits."""
    return "" if value is None else f"{value:.2f}"


def rows(of: dict[str, Callable[[], DataflowInstance]], only: list[str], limit: float) -> Iterator[tuple[str, Seen]]:
    """What was seen of each instance."""
    for name, make in of.items():
        if only and name not in only:
            continue
        one = solved(make(), limit)
        print(name, one, file=sys.stderr, flush=True)
        yield name, one


def report(args: argparse.Namespace) -> tuple[str, int]:
    """The page, and how many values differ."""
    load_compiled()
    load, head = os.getloadavg()[0], f"Python {platform.python_version()}, {platform.machine()}"
    lines = [
        "# Chips that don't fuse, and first mappings\n",
        f"`python -m benchmarks.dataflow_unfused --time-limit {args.time_limit:g} --random {args.random} --models "
        f"{args.models}`, {head}, one thread, load {load:.1f} on {os.cpu_count()} cores. CPU seconds.\n",
        "| kernel by kernel | kernels | status | gap | first mapping | all |",
        "|---|--:|---|--:|--:|--:|",
    ]
    for name, one in rows(UNFUSED, args.only, args.time_limit):
        gap = "" if one.gap is None else f"{100 * one.gap:.3g} %"
        lines.append(
            f"| {name} | {one.kernels:,} | {one.status} | {gap} | {seconds(one.first_after)} | {seconds(one.took)} |"
        )
    lines += [
        "",
        "| fused | kernels | first mapping | over the best in the time by | status | gap then | all |",
        "|---|--:|--:|--:|---|--:|--:|",
    ]
    for name, one in rows(FIRST, args.only, args.time_limit):
        over = "" if one.first is None or one.last is None else f"{100 * (one.first / one.last - 1):.3g} %"
        gap = "" if one.gap is None else f"{100 * one.gap:.3g} %"
        lines.append(
            f"| {name} | {one.kernels:,} | {seconds(one.first_after)} | {over} | {one.status} | {gap} | "
            f"{seconds(one.took)} |"
        )
    text, wrong = agreement(args.random, args.models) if args.random else ("", 0)
    return "\n".join([*lines, "", text]).rstrip() + "\n", wrong


def main() -> int:
    """Measure, and write or print the page; 1 where a value differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--random", type=int, default=300)
    parser.add_argument("--models", type=int, default=30)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    page, wrong = report(args)
    if args.out:
        args.out.write_text(page)
    print(page)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
