"""When the first mapping of a dataflow instance stands, and how good it is: every shipped instance, and generated ones.

    python -m benchmarks.dataflow_first [--time-limit 10] [--only WORD …] [--out FILE]

The shipped instances; each shipped workload on eight GPUs (kernels one by one) and on 16 SN40L (fused), in each of its
steps; a model on each shipped machine; mixtures of experts by hand; 8 x 128 chips; random graphs of 100 to 1,000
kernels; all of at most 1,000 kernels. Each is solved in this process on one thread until its proof or ``--time-limit``,
after its compiled functions were loaded, with garbage collected as in the processes in which chipmap solves.

All seconds, those of the limit too, are CPU seconds of this process after the instance is read, so that other work on
the machine changes little. Asked is: a first mapping within half a second; where the run ends with a proof, the best
mapping of that half second has a gap of at most 50 %, by the bound of the proof; and the limit is kept to a tenth and a
second. Exit code 1 where an instance misses that.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.dataflow_unfused import GLAM, GPU, SN30, load_compiled, random_graph
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.generators import gpt, moe, resnets
from chipmap.instances.dataflow.machines import MACHINES
from chipmap.instances.dataflow.presets import WORKLOADS, preset
from chipmap.instances.dataflow.shipped import SHIPPED
from chipmap.methods.dataflow.chain import auto
from chipmap.process.memory import collect_seldom
from chipmap.records import InputError
from chipmap.result import TraceEvent
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.checker import check

#: What is asked: CPU seconds to the first mapping, its gap, and kernels up to which.
SECONDS, GAP, KERNELS = 0.5, 0.5, 1000
#: CPU seconds that a run may take: so many times its limit, and so many more.
TIMES, MORE = 1.1, 1.0
STEPS = ("forward", "prefill", "decode")
Make = Callable[[], DataflowInstance]


class Seen(NamedTuple):
    """A run: kernels; CPU seconds to the first mapping and in all, and whether that is past the limit; gaps by the best
    bound of all: of the first mapping, of the best one within :data:`SECONDS`, and of the last one; how it ended, with
    infeasibility told apart."""

    kernels: int
    after: float | None
    took: float
    late: bool
    gap_first: float | None
    gap_soon: float | None
    gap_last: float | None
    reason: str

    @property
    def misses(self) -> bool:
        """Whether it isn't what is asked."""
        if self.late:
            return True
        if self.after is None:
            return self.reason not in ("infeasible", "refused")
        proved = self.gap_last == 0
        return self.after > SECONDS or (proved and (self.gap_soon is None or self.gap_soon > GAP))


def instances() -> Iterator[tuple[str, Make]]:
    """Names of the rows, and what makes their instances."""
    for name in SHIPPED:
        yield f"`{name}`", lambda name=name: read(name)  # type: ignore[misc]
    for name, (generator, _) in WORKLOADS.items():
        for step in STEPS if "step" in generator.parameters() else ("",):
            given: dict[str, Any] = {"step": step} if step else {}
            for machine, sizes in (("h100-sxm", [8]), ("sn40l", [16])):
                words = f"{name}, {step or 'as it is'}, {machine}"
                yield words, lambda n=name, m=machine, s=sizes, g=given: preset(n, machine=m, sizes=s, **g)  # type: ignore[misc]
        if "backward" in generator.parameters():
            more = {"backward": True, "batch": 64}
            for machine, sizes in (("h100-sxm", [8, 8]), ("sn40l", [16])):
                words = f"{name}, both directions, {machine}"
                yield words, lambda n=name, m=machine, s=sizes, g=more: preset(n, machine=m, sizes=s, **g)  # type: ignore[misc]
    for machine in MACHINES:
        yield f"llama3-8b decode, {machine}", lambda m=machine: preset("llama3-8b", machine=m, step="decode", batch=16)  # type: ignore[misc]
    for experts in (16, 64, 128, 256):
        yield f"{experts} experts, fused", lambda e=experts: moe(experts=e, sizes=[8], micro_batch=1, **GLAM)  # type: ignore[misc]
        one = {"active": 8, "stacked": False, "batch": 64, "micro_batch": 1, **GPU}
        yield f"{experts} experts, one by one", lambda e=experts, g=one: moe(experts=e, sizes=[8, 8], **g)  # type: ignore[misc]
    large = {"hidden": 25_600, "heads": 160, "layers": 128, "batch": 3072, **SN30}
    for both in (False, True):
        yield f"GPT3 1T, backward {both}, 8 x 128", lambda b=both: gpt(backward=b, micro_batch=1, **large)  # type: ignore[misc]
        yield f"GPT3 1T, backward {both}, micro-batch free", lambda b=both: gpt(backward=b, **large)  # type: ignore[misc]
    for depth in (18, 34, 50, 101, 152):
        yield f"ResNet-{depth}", lambda d=depth: resnets(depth=d, sizes=[8])  # type: ignore[misc]
    for kernels in (100, 200, 300, 500, 700, 1000):
        for fused in (True, False):
            words = f"random, {kernels:,} kernels, {'fused' if fused else 'one by one'}"
            yield words, lambda k=kernels, f=fused: random_graph(k, fused=f)  # type: ignore[misc]


def gap(objective: int | None, bound: int | None) -> float | None:
    """(objective - bound) / objective."""
    return None if objective is None or bound is None else max(0, objective - bound) / objective


def seen(instance: DataflowInstance, limit: float) -> Seen:
    """``dataflow/auto`` in this process, for so many CPU seconds (:func:`main` sets the clock)."""
    gc.collect()
    began, heard = time.process_time(), list[tuple[float, int]]()

    def listener(event: TraceEvent, _: Run) -> None:
        if event.event == "solution":
            heard.append((time.process_time() - began, event.value))

    run = Run(instance, SolveOptions(time_limit=limit, threads=1), check, listener=listener, started=began)
    try:
        reason: str = auto(instance, run).reason
    except InputError:
        reason = "refused"  # numbers that pass 64 bits
    took, kernels = time.process_time() - began, len(instance.workload.kernels) * instance.mapped_layers
    late = took > TIMES * limit + MORE
    if not heard:
        return Seen(kernels, None, took, late, None, None, None, reason)
    after, first = heard[0]
    lower = run.lower.value if run.lower else None
    soon = min((value for seconds, value in heard if seconds <= SECONDS), default=None)
    return Seen(kernels, after, took, late, gap(first, lower), gap(soon, lower), run.gap, reason)


def percent(value: float | None) -> str:
    """A share as the table has it."""
    return "" if value is None else f"{100 * value:.3g} %"


def row(name: str, one: Seen) -> str:
    """A line of the table."""
    after = "" if one.after is None else f"{one.after:.2f}"
    gaps = " | ".join(map(percent, (one.gap_first, one.gap_soon, one.gap_last)))
    miss = "**misses**" if one.misses else ""
    return f"| {name} | {one.kernels:,} | {after} | {gaps} | {one.took:.2f} | {one.reason} | {miss} |"


def measured(only: list[str], limit: float) -> Iterator[tuple[str, Seen]]:
    """What was seen of each instance; those of more kernels, and what a generator refuses, are left out."""
    for name, make in instances():
        if only and not any(word in name for word in only):
            continue
        try:
            instance = make()
        except InputError as error:
            print(f"{name} left out: {error}", file=sys.stderr)
            continue
        if len(instance.workload.kernels) * instance.mapped_layers > KERNELS and "256 experts" not in name:
            continue
        one = seen(instance, limit)
        print(row(name, one), file=sys.stderr, flush=True)
        yield name, one


def main() -> int:
    """Measure, and write or print the page; 1 where an instance misses what is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time-limit", type=float, default=10.0)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    load_compiled()
    collect_seldom()
    time.monotonic = time.process_time  # deadlines count what this process computes
    found = list(measured(args.only, args.time_limit))
    ready = [one for _, one in found if one.after is not None]
    proved = [one.gap_soon for one in ready if one.gap_last == 0 and one.gap_soon is not None]
    misses = sum(one.misses for _, one in found)
    lines = [
        "# First mappings\n",
        f"`python -m benchmarks.dataflow_first --time-limit {args.time_limit:g}`, Python {platform.python_version()}, "
        f"{platform.machine()}, one thread, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores. CPU seconds.\n",
        f"{len(found)} instances, {len(ready)} with a mapping; the first one stands after at most "
        f"{max((one.after or 0 for one in ready), default=0):.2f} s. Of {len(proved)} proved ones the gap of the best "
        f"mapping of half a second is at most {percent(max(proved, default=0))}. Limits are passed by at most "
        f"{max(0.0, max((one.took for _, one in found), default=0) - args.time_limit):.2f} s. **{misses}** miss half a "
        "second, a gap of 50 % or their limit.\n",
        "Gaps are by the best bound of the whole run: of the *first* mapping, of the best in half a second (*soon*), "
        "of the *last*. Larger instances, and what generators refuse, are left out.\n",
        "| instance | kernels | first mapping | first gap | soon | last | all | ended | |",
        "|---|--:|--:|--:|--:|--:|--:|---|---|",
        *(row(name, one) for name, one in found),
    ]
    page = "\n".join(lines) + "\n"
    if args.out:
        args.out.write_text(page)
    print(page)
    return int(misses > 0)


if __name__ == "__main__":
    sys.exit(main())
