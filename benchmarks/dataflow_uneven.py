"""Pipelines whose stages have unequal numbers of layers: Llama 3 405B as published, and twelve networks asked freely.

    python -m benchmarks.dataflow_uneven [--markdown] [--time-limit 60]

Source: Dubey et al., *The Llama 3 Herd of Models* (2024), section 3.3 and table 4: 400 TFLOP/s on each of 16,384 H100,
430 on each of 8,192. Nothing is fitted: the share of the peak that products reach is that of
``benchmarks.dataflow_reports``. Exit code 1 where a mapping isn't proved, or a published run has none.
"""

from __future__ import annotations

import argparse
import platform
import sys
from typing import Any

from benchmarks.dataflow_megatron import Solved, solved
from benchmarks.dataflow_reports import UTILISATION, _flash, dense_flop
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees, Schedule
from chipmap.instances.dataflow.presets import preset

#: Sequences of a batch, their tokens; stages and their chunks; model FLOP of a token.
BATCH, TOKENS, STAGES, CHUNKS = 2048, 8192, 16, 8
FLOP = dense_flop(16_384, 1024, 53_248, 126, 128_256, TOKENS)
#: One layer less in the first and the last stage: a layer in each chunk, none in the first and the last.
LAYERS = (0, *[1] * 126, 0)
#: Replicas, and published TFLOP/s of a chip.
PUBLISHED = ((128, 400.0), (64, 430.0))
GPT = {"22B": (6144, 64, 48), "175B": (12_288, 96, 96), "530B": (20_480, 128, 105), "1T": (25_600, 160, 128)}
PRESETS = (
    *("llama3-8b", "llama3-70b", "llama3-405b", "mixtral-8x7b"),
    *("mixtral-8x22b", "qwen3-30b", "qwen3-235b", "llama4-scout"),
)


def published(replicas: int, schedule: Schedule, overlap: bool = False, free: bool = False) -> DataflowInstance:
    """Llama 3 405B on 8 x 16 x ``replicas`` H100: ZeRO-1, no recomputation, one sequence at a time."""
    plan: dict[str, Any] = {"schedule": schedule, "chunks": CHUNKS, "stage_layers": None if free else LAYERS}
    asked = {"shard": "optimizer", "recompute": "none", "micro_batch": 1, "overlap": overlap, "optimizer_step": True}
    named: Any = ("tensor", "pipeline", "data")
    degrees = Degrees(tensor=8, pipeline=STAGES, data=replicas, dimensions=named)
    sizes = {"sizes": [8, STAGES, replicas], "batch": BATCH, "tokens": TOKENS, "utilisation": UTILISATION}
    shape = {"step": "forward", "backward": True, "staged_ends": True, "machine": "h100-sxm", "degrees": degrees}
    made = preset("llama3-405b", **{**plan, **asked, **sizes, **shape})
    return made.replace(workload=_flash(made.workload, 1.0))


def network(name: str, stages: int, even: bool = False) -> DataflowInstance:
    """One of the twelve networks on 8 x ``stages`` H100 without a limit of DRAM, eight micro-batches for each stage."""
    shape: dict[str, Any] = {"backward": True, "staged_ends": True, "step": "forward", "tokens": 4096}
    named: Any = ("tensor", "pipeline")
    asked = {"degrees": Degrees(tensor=8, pipeline=stages, dimensions=named), "micro_batch": 1, "batch": 8 * stages}
    where = {"machine": "h100-sxm", "sizes": [8, stages], "overlap": False, "utilisation": UTILISATION}
    if name in GPT:
        hidden, heads, layers = GPT[name]
        own = {"hidden": hidden, "heads": heads, "kv_heads": heads, "ffn": 4 * hidden, "layers": layers}
        shape |= {"gated": False, "model": "", "words": 51_200, **own}
    made = preset("llama3-8b" if name in GPT else name, **{**shape, **asked, **where})
    made = made.replace(system=made.system.replace(memory=made.system.memory.replace(capacity_bytes=None)))
    layers = made.workload.layers
    counts = tuple((layers + s) // stages for s in range(stages)) if even else None
    return made.replace(task=made.task.replace(stage_layers=counts))


def tflops(found: Solved, replicas: int) -> float:
    """Model TFLOP/s of a chip."""
    return BATCH * TOKENS * FLOP / found.seconds / (8 * STAGES * replicas) / 1e12


def published_rows(limit: float) -> tuple[list[str], bool]:
    """Lines of the first table, and whether all is proved and within 7% of what was published."""
    lines, sound = list[str](), True
    schedules: tuple[Schedule, ...] = ("interleaved", "interleaved-lean")
    for replicas, told in PUBLISHED:
        for schedule in schedules:
            for overlap in (False, True):
                said = f"| {8 * STAGES * replicas:,} | {schedule} | {'all' if overlap else 'none'} | {told:.0f}"
                try:
                    found = solved(published(replicas, schedule, overlap), limit)
                except SystemExit:
                    lines.append(f"{said} | no mapping | | | | |")
                    sound = sound and schedule == "interleaved"
                    continue
                rate, held = tflops(found, replicas), found.certificate.figures["dram_bytes"] / 1e9
                proved = found.seconds == found.bound
                sound = sound and proved and (overlap or abs(rate / told - 1) <= 0.07)
                error = f"{100 * (rate / told - 1):+.1f} %"
                state = "proved" if proved else "open"
                lines.append(f"{said} | {rate:.0f} | {error} | {found.seconds:.2f} | {held:.1f} | {state} |")
    return lines, sound


def network_rows(limit: float) -> tuple[list[str], bool]:
    """Lines of the second table, and whether all is proved."""
    lines, sound = list[str](), True
    for name in (*GPT, *PRESETS):
        cells = [name]
        for stages in (4, 8, 16):
            free, even = solved(network(name, stages), limit), solved(network(name, stages, even=True), limit)
            counts = free.mapping.stage_layers
            sound = sound and free.seconds == free.bound and free.seconds <= even.seconds
            inner = sorted(set(counts[1:-1]))
            between = f"{inner[0]}" if len(inner) == 1 else f"{inner[0]} to {inner[-1]}"
            gain = f"{100 * (even.seconds / free.seconds - 1):.1f} %"
            cells += [f"{counts[0]}, {between}, {counts[-1]}", gain, f"{free.spent:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines, sound


def main() -> int:
    """Print both tables; 1 if something isn't proved, or a published run has no mapping."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--time-limit", type=float, default=60.0)
    args = parser.parse_args()
    if args.markdown:
        version = f"Python {platform.python_version()}, {platform.machine()}"
        print("# Stages with unequal numbers of layers\n")
        print(f"`python -m benchmarks.dataflow_uneven --markdown`, {version}, one thread.\n")
    first, fits = published_rows(args.time_limit)
    rates = "published, TFLOP/s | model, TFLOP/s | error"
    print(f"| H100 | schedule | overlap | {rates} | batch, s | GB of DRAM | status |")
    print("|--:|---|---|--:|--:|--:|--:|--:|---|")
    print("\n".join(first), flush=True)
    second, proved = network_rows(args.time_limit)
    each = " | ".join(f"{stages} stages: layers | gain | CPU s" for stages in (4, 8, 16))
    print(f"\n| network | {each} |\n|---{'|---|--:|--:' * 3}|")
    print("\n".join(second))
    return 0 if fits and proved else 1


if __name__ == "__main__":
    sys.exit(main())
