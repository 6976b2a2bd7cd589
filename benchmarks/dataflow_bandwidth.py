"""Llama3 70B decodes on eight H100: tokens per second by batch, beside what the DRAM's rate allows at most.

    python -m benchmarks.dataflow_bandwidth [--markdown] [--machine h100-sxm]

A step reads all weights and the caches of all samples once, each chip an eighth of them: no mapping decodes more than
batch · chips · rate / (weights + batch · cache) tokens per second. The last columns are the same machine with
assumptions of what data sheets don't say (:data:`ASSUMED`), against the same bound. Exit code 1 where a mapping isn't
proved optimal, or exceeds its bound.
"""

from __future__ import annotations

import argparse
import platform
import sys
from fractions import Fraction
from typing import Any, NamedTuple

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.presets import preset
from chipmap.instances.dataflow.sizes import chip_weights, fetch_bytes
from chipmap.run import SolveOptions
from chipmap.solve import solve

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: A share of the DRAM's rate, nanoseconds of a launch, shares of the peak by FLOP (Calculon's of an A100), and compute,
#: memory and network one after the other.
ASSUMED = "0.85 of the DRAM's rate, launches of 2 us, Calculon's shares of the peak, no overlap"


class Step(NamedTuple):
    """A decode step: microseconds, tokens per second, what the bound says of these, and whether the mapping is proved
    optimal."""

    tpot_us: float
    tokens_per_s: float
    bound_per_s: float
    proved: bool


def instance_of(batch: int, machine: str = "h100-sxm", assumed: bool = False, **parameters: Any) -> DataflowInstance:
    """A decode step of Llama3 70B for ``batch`` samples of 4,096 tokens, embedding and head included, in bf16."""
    utilisation = {"utilisation": 1.0, "overlap": not assumed}
    step = preset("llama3-70b", machine=machine, batch=batch, ends=True, **utilisation, **parameters)
    if not assumed:
        return step
    shares = ((0.0, 0.1), (1e9, 0.6), (16e9, 0.9), (128e9, 0.95))
    chip = step.system.chip.replace(launch_ns=2000.0, efficiency=shares)
    return step.replace(system=step.system.replace(chip=chip, memory=step.system.memory.replace(efficiency=0.85)))


def most_tokens_per_s(instance: DataflowInstance) -> float:
    """Tokens per second at which DRAM at its full rate reads weights once per step, and each sample's cache."""
    workload, system = instance.workload, instance.system
    each = [(chip_weights(kernel, instance, Fraction(1)), fetch_bytes(kernel, instance)) for kernel in workload.kernels]
    weights, cache = (float(sum(column)) * workload.layers for column in zip(*each, strict=True))
    batch = instance.task.batch
    return float(batch * system.chips * system.memory.bytes_per_ns * 1e9 / (weights + batch * cache))


def step_of(instance: DataflowInstance) -> Step:
    """The fastest mapping of a step."""
    result = solve(instance, None, SolveOptions.make(warm_start="none", threads=1, time_limit=60.0))
    figures = result.certificate.figures if result.certificate is not None else {}
    proved = result.status == "optimal"
    return Step(figures.get("tpot_us", 0.0), figures.get("tokens_per_s", 0.0), most_tokens_per_s(instance), proved)


def main() -> int:
    """Print the table; 1 where something isn't as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--machine", default="h100-sxm")
    given, sound = parser.parse_args(), True
    if given.markdown:
        print("# Llama3 70B decodes on eight H100: the bound by bandwidth\n")
        print(
            f"`python -m benchmarks.dataflow_bandwidth --markdown`, Python {platform.python_version()}, bf16, contexts"
        )
        print(f"of 4,096 tokens, all mappings proved optimal. Assumed on the right: {ASSUMED}.\n")
    print("| batch | step us | tokens/s | bound | of the bound | assumed: step us | tokens/s | of the bound |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for batch in BATCHES:
        steps = [step_of(instance_of(batch, given.machine, assumed)) for assumed in (False, True)]
        sound = sound and all(one.proved and 0 < one.tokens_per_s <= one.bound_per_s for one in steps)
        plain, slow = steps
        cells = [f"{batch}", f"{plain.tpot_us:,.1f}", f"{plain.tokens_per_s:,.1f}", f"{plain.bound_per_s:,.1f}"]
        cells += [f"{100 * plain.tokens_per_s / plain.bound_per_s:.1f} %", f"{slow.tpot_us:,.1f}"]
        cells += [f"{slow.tokens_per_s:,.1f}", f"{100 * slow.tokens_per_s / slow.bound_per_s:.1f} %"]
        print(f"| {' | '.join(cells)} |", flush=True)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
