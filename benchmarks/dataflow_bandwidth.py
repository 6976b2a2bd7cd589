"""Llama3 70B decodes on eight H100: tokens per second by batch, beside what the DRAM's rate allows at most.

    python -m benchmarks.dataflow_bandwidth [--markdown] [--machine h100-sxm]

A step reads all weights and the caches of all samples once, each chip an eighth of them: no mapping decodes more than
batch · chips · rate / (weights + batch · cache) tokens per second. The last columns are the same machine with
assumptions of what data sheets don't say (:data:`ASSUMED`), against the same bound. A second table puts published
measurements (:data:`MEASURED`) beside the same columns for their own numbers of chips, formats and lengths. Exit code 1
where a mapping isn't proved optimal, or a mapping or a measurement exceeds its bound.
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


class Measured(NamedTuple):
    """A published rate of decoding: H100s, samples at a time, tokens of prompt and answer, size of the vocabulary,
    tokens per second (all chips), and where it is published."""

    chips: int
    batch: int
    prompt: int
    answer: int
    words: int
    tokens_per_s: float
    source: str


_NIM = "NVIDIA, NIM LLM benchmarking, Performance: Llama-3.3-70b-instruct, NIM 1.8.0, 2 x H100 80G, fp8, TP2"
_TRT = "NVIDIA, TensorRT-LLM 0.6.1, docs/source/performance.md: H100 (FP8), LLaMA 70B"
#: Weights in fp8. NIM: 1 / latency between tokens, so without the prefill; TensorRT-LLM: output tokens per second and
#: GPU, times GPUs, which includes the prefill's time. NIM's format of the cache isn't given: fp8 is the higher bound.
MEASURED = (
    Measured(2, 1, 5000, 500, 128256, 1000 / 18.58, _NIM),
    Measured(2, 1, 500, 2000, 128256, 1000 / 18.91, _NIM),
    Measured(2, 64, 2048, 2048, 32000, 2 * 547.0, _TRT),
    Measured(4, 480, 128, 2048, 32000, 4 * 1486.0, _TRT),
)


def measured_instance(one: Measured, assumed: bool = False) -> DataflowInstance:
    """The decode step of a measurement in the middle of its answers."""
    formats: dict[str, Any] = {"weight_format": "fp8", "cache_format": "fp8", "words": one.words}
    context = one.prompt + one.answer // 2
    return instance_of(one.batch, assumed=assumed, sizes=[one.chips], context=context, **formats)


def print_measured() -> bool:
    """Print the table of published measurements; whether all is sound."""
    print("\n| chips | batch | prompt, answer | measured, tokens/s | bound | of it | sheet | of it | assumed | of it |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    sound = True
    for one in MEASURED:
        plain, slow = (step_of(measured_instance(one, assumed)) for assumed in (False, True))
        bound = plain.bound_per_s
        sound = sound and plain.proved and slow.proved and max(one.tokens_per_s, plain.tokens_per_s) <= bound
        rates = [one.tokens_per_s, plain.tokens_per_s, slow.tokens_per_s]
        of = [f"{rate:,.1f} | {100 * rate / bound:.1f} %" for rate in rates]
        measured, share = of[0].split(" | ")
        lengths = f"{one.prompt:,}, {one.answer:,}"
        print(f"| {one.chips} | {one.batch} | {lengths} | {measured} | {bound:,.1f} | {share} | {of[1]} | {of[2]} |")
    print("\n" + "\n".join(f"- {source}." for source in dict.fromkeys(one.source for one in MEASURED)))
    return sound


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
    return 0 if print_measured() and sound else 1


if __name__ == "__main__":
    sys.exit(main())
