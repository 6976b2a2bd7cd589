"""Static batches of TensorRT-LLM on H100 and A100 as published, beside the data sheet's limit and a prediction.

Source: NVIDIA, *Performance of TensorRT-LLM*, docs/source/performance.md of github.com/NVIDIA/TensorRT-LLM at commit
77d24b5 (tables "Peak Throughput", v0.6.1, and "Low Latency", v0.5). All rates are output tokens per second and GPU.

    python benchmarks/dataflow_static_batches.py [--fit]

One static batch is a prefill of all prompts and then a decode step for each further token. So a row's rate is output
tokens / (prefill + all decode steps). First tokens are prefills of one prompt. Half the rows of each machine
fit its profile (``--fit``, three seconds: :mod:`benchmarks.dataflow_static_fit`); the others judge it. The shipped
profile is that of ``--fit``.
Exit code 1 where the data sheet's limit is slower than a measured row.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from chipmap.instances.dataflow.instance import DataflowInstance
    from chipmap.instances.dataflow.system import System

ROOT = Path(__file__).resolve().parents[1]
MACHINES = {"H100": "h100-sxm", "A100": "a100-80gb"}
FORMATS = {"H100": "fp8", "A100": "fp16"}


class Sizes(NamedTuple):
    """A decoder: hidden size, query heads and key heads of so many numbers, rows of the FFN, layers; whether the FFN
    has a gate, and whether it runs beside the attention, so that both share one sum."""

    hidden: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    layers: int
    gated: bool
    beside: bool


SIZES = {
    "GPT-J 6B": Sizes(4096, 16, 16, 256, 16_384, 28, False, True),
    "LLaMA 7B": Sizes(4096, 32, 32, 128, 11_008, 32, True, False),
    "LLaMA 70B": Sizes(8192, 64, 8, 128, 28_672, 80, True, False),
    "Falcon 180B": Sizes(14_848, 232, 8, 64, 59_392, 80, False, True),
}


class Row(NamedTuple):
    """A published row: what ran, and output tokens/s per GPU, or with ``output`` 1 milliseconds to a first token."""

    machine: str
    model: str
    batch: int
    tensor: int
    prompt: int
    output: int
    measured: float


def _rows(machine: str, model: str, *rows: tuple[int, int, int, int, float]) -> list[Row]:
    return [Row(machine, model, *one) for one in rows]


#: (batch, tensor parallelism, prompt, output, output tokens/s per GPU), or (1, …, 1, ms to the first token).
ROWS = [
    *_rows("H100", "GPT-J 6B", (1024, 1, 128, 128, 26_150), (120, 1, 128, 2048, 8_011), (64, 1, 2048, 128, 2_551)),
    *_rows("H100", "GPT-J 6B", (64, 1, 2048, 2048, 3_327)),
    *_rows("H100", "LLaMA 7B", (768, 1, 128, 128, 19_694), (112, 1, 128, 2048, 6_818), (80, 1, 2048, 128, 2_244)),
    *_rows("H100", "LLaMA 7B", (48, 1, 2048, 2048, 2_740)),
    *_rows("H100", "LLaMA 70B", (1024, 2, 128, 128, 2_657), (480, 4, 128, 2048, 1_486), (96, 2, 2048, 128, 306)),
    *_rows("H100", "LLaMA 70B", (64, 2, 2048, 2048, 547)),
    *_rows("H100", "Falcon 180B", (1024, 4, 128, 128, 987), (1024, 8, 128, 2048, 724), (64, 4, 2048, 128, 112)),
    *_rows("H100", "Falcon 180B", (64, 4, 2048, 2048, 264)),
    *_rows("H100", "GPT-J 6B", (1, 1, 128, 1, 7), (1, 1, 2048, 1, 29)),
    *_rows("H100", "LLaMA 7B", (1, 1, 128, 1, 7), (1, 1, 2048, 1, 36)),
    *_rows("H100", "LLaMA 70B", (1, 4, 128, 1, 26), (1, 4, 2048, 1, 109)),
    *_rows("H100", "Falcon 180B", (1, 8, 128, 1, 27), (1, 8, 2048, 1, 205)),
    *_rows("A100", "GPT-J 6B", (512, 1, 128, 128, 6_374), (120, 2, 128, 2048, 2_192), (60, 1, 2048, 128, 670)),
    *_rows("A100", "GPT-J 6B", (64, 2, 2048, 2048, 903)),
    *_rows("A100", "LLaMA 7B", (384, 1, 128, 128, 5_586), (60, 1, 128, 2048, 1_928), (52, 1, 2048, 128, 591)),
    *_rows("A100", "LLaMA 7B", (64, 2, 2048, 2048, 782)),
    *_rows("A100", "LLaMA 70B", (1280, 4, 128, 128, 670), (240, 4, 128, 2048, 525), (120, 4, 2048, 128, 79)),
    *_rows("A100", "Falcon 180B", (1024, 8, 128, 128, 232), (128, 8, 128, 2048, 180)),
    *_rows("A100", "GPT-J 6B", (1, 1, 128, 1, 12), (1, 1, 2048, 1, 129)),
    *_rows("A100", "LLaMA 7B", (1, 1, 128, 1, 16), (1, 1, 2048, 1, 133)),
    *_rows("A100", "LLaMA 70B", (1, 4, 128, 1, 47), (1, 4, 2048, 1, 377)),
    *_rows("A100", "Falcon 180B", (1, 8, 128, 1, 61), (1, 8, 2048, 1, 509)),
]


@cache
def step(machine: str, model: str, tensor: int, batch: int, tokens: int, context: int) -> tuple[DataflowInstance, Any]:
    """A pass of ``tokens`` new tokens of each sample after ``context`` others, as an engine's kernels compute it; and
    its mapping: heads and rows are split, sums are all-reduced, each kernel runs by itself."""
    from chipmap.instances.dataflow.generators import explicit
    from chipmap.instances.dataflow.instance import DataflowSolution, Degrees

    kernels, edges, schemes = layer(SIZES[model], tokens, context, 2, tensor)
    named = FORMATS[machine]
    degrees = Degrees(tensor=tensor, pipeline=1, data=1, dimensions=("tensor",))
    made = explicit(
        kernels=kernels, edges=edges, carries=((list(kernels)[-1], "Norm1"),), layers=SIZES[model].layers,
        word_bytes=2, tokens=tokens, machine=MACHINES[machine], sizes=(tensor,), degrees=degrees, batch=batch,
        micro_batch=batch, schemes=schemes, utilisation=1.0, purpose="decode" if context else "prefill",
        weight_format=named, activation_format=named, cache_format=named, dram_bytes=10**15,
    )  # fmt: skip
    order = [one.name for one in made.workload.kernels]
    mapping = DataflowSolution.make(
        instance=made.name, degrees=degrees, micro_batch=batch, schemes=tuple(schemes[one] for one in order),
        partitions=tuple(range(len(order))), stages=(),
    )  # fmt: skip
    return made, mapping


def layer(size: Sizes, tokens: int, context: int, word: int, tensor: int) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Kernels of a layer, edges, and how each is split. Norms and attention are fused as engines fuse them.

    A sum over chips is a kernel of its own, behind the products whose parts it adds up: an engine of 2023 runs nothing
    meanwhile. It is a product without FLOP and weights that is split by its terms.
    """
    rows, inner = (size.heads + 2 * size.kv_heads) * size.head, size.heads * size.head
    flop = 2 * inner * tokens * (2 * context + tokens)
    fetch = 2 * size.kv_heads * size.head * context * word
    cached = {"fetch_bytes": fetch, "fetch_outer": size.kv_heads if fetch and size.kv_heads < size.heads else 0}
    kernels: dict[str, Any] = {
        "Norm1": {"kind": "elementwise", "M": size.hidden, "N": tokens},
        "QKV": {"kind": "gemm", "M": rows, "K": size.hidden, "N": tokens, "weights": True},
        "Attend": {"kind": "gemm", "outer": size.heads, "M": size.head, "K": context + tokens, "N": tokens,
                   "flop": flop, **cached},
        "Proj": {"kind": "gemm", "M": size.hidden, "K": inner, "N": tokens, "weights": True},
    }  # fmt: skip
    edges = [("Norm1", "QKV"), ("QKV", "Attend"), ("Attend", "Proj")]
    first = "Norm1"
    if not size.beside:
        kernels["Norm2"], first = {"kind": "elementwise", "M": size.hidden, "N": tokens}, "Norm2"
        edges.append(("Proj", "Norm2"))
    wide = size.ffn * (1 + size.gated)
    kernels["FFN0"] = {"kind": "gemm", "M": wide, "K": size.hidden, "N": tokens, "weights": True}
    kernels["Act"] = {"kind": "elementwise", "M": size.ffn, "N": tokens, "flop_per_element": 1 + size.gated}
    kernels["FFN1"] = {"kind": "gemm", "M": size.hidden, "K": size.ffn, "N": tokens, "weights": True}
    edges += [(first, "FFN0"), ("FFN0", "Act"), ("Act", "FFN1")]
    kernels["Add"] = {"kind": "elementwise", "M": size.hidden, "N": tokens}
    edges.append(("FFN1", "Add"))
    if size.beside:
        kernels["Add"] |= {"adds": ("Proj", "FFN1")}
        edges.append(("Proj", "Add"))
    if tensor > 1:
        kernels, edges = _with_sums(size, tokens, kernels, edges)
    split = {"QKV": "M", "Attend": "OUTER", "Proj": "K", "FFN0": "M", "Act": "M", "FFN1": "K", "Sum1": "K", "Sum2": "K"}
    return kernels, tuple(edges), {name: split.get(name, "NONE") for name in kernels}


def _with_sums(size: Sizes, tokens: int, kernels: dict[str, Any], edges: Any) -> tuple[dict[str, Any], Any]:
    """The layer with its sums over chips as kernels: one behind each product that is split by its terms, or one for
    both where the FFN runs beside the attention."""
    reader = {"Proj": "Sum2" if size.beside else "Sum1", "FFN1": "Sum2"}
    made: dict[str, Any] = {}
    for name, fields in kernels.items():
        made[name] = fields | ({"output_bytes": 0} if name in reader else {})
        if name in reader and (name == "FFN1" or not size.beside):
            shape = {"M": size.hidden, "K": size.hidden, "N": tokens, "flop": 0, "weight_bytes": 0}
            made[reader[name]] = {"kind": "gemm", "weights": True, **shape}
    made["Add"].pop("adds", None)
    through = [(maker, reader.get(maker, maker), after) for maker, after in edges]
    found = [
        pair for maker, summed, after in through for pair in ((maker, summed), (summed, after)) if len({*pair}) > 1
    ]
    return made, list(dict.fromkeys(found))


def seconds(row: Row, system: System, tokens: int, context: int) -> float:
    """Seconds of a pass on a machine, by the checker."""
    from chipmap.validation.dataflow.checker import check

    instance, mapping = step(row.machine, row.model, row.tensor, row.batch, tokens, context)
    found = check(instance.replace(system=system), mapping)
    assert found.feasible and found.objective is not None, found.violations
    return found.objective / 1e12


def rate(row: Row, system: System) -> float:
    """What the row measures, on ``system``: output tokens/s per GPU, or milliseconds to the first token.

    Steps take about linearly longer with the context: Simpson's rule over the first, the middle and the last.
    """
    first = seconds(row, system, row.prompt, 0)
    if row.output == 1:
        return 1000 * first
    last = row.prompt + row.output - 1
    each = [seconds(row, system, 1, at) for at in (row.prompt, (row.prompt + last) // 2, last)]
    whole = first + (row.output - 1) * (each[0] + 4 * each[1] + each[2]) / 6
    return row.batch * row.output / whole / row.tensor


def halves(machine: str) -> tuple[list[Row], list[Row]]:
    """A machine's rows to fit and to judge: alternate ones, beginning with the other half every four rows."""
    mine = [row for row in ROWS if row.machine == machine]
    fit, judge = ([row for i, row in enumerate(mine) if (i + i // 4) % 2 == half] for half in (0, 1))
    return fit, judge


def faster(row: Row, system: System) -> float:
    """How many times as fast as measured the row is on ``system``."""
    found = rate(row, system)
    return found / row.measured if row.output > 1 else row.measured / found


def main() -> int:
    """Print all rows; with --fit the profiles."""
    from chipmap.instances.dataflow.machines import machine as made

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="fit both profiles anew and print them")
    args = parser.parse_args()
    slower = 0
    if args.fit:
        from benchmarks.dataflow_static_fit import fitted

        print(*fitted().items(), sep="\n")
    for name, machine in MACHINES.items():
        for half, rows in zip(("fit", "judge"), halves(name), strict=True):
            print(f"\n{name}, half to {half}:\n")
            print("| model | batch | TP | in | out | measured | data sheet | predicted | predicted speed / measured |")
            print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
            errors = []
            for row in rows:
                limit, typical = (made(f"{machine}{more}", (row.tensor,)) for more in ("", "-typical"))
                slower += faster(row, limit) < 1
                errors.append(abs(faster(row, typical) - 1))
                said = [f"{one:,.1f}" if row.output == 1 else f"{one:,.0f}" for one in
                        (row.measured, rate(row, limit), rate(row, typical))]  # fmt: skip
                cells = [row.model, f"{row.batch:,}", row.tensor, f"{row.prompt:,}", f"{row.output:,}", *said]
                print(f"| {' | '.join(map(str, cells))} | {faster(row, typical):.2f} |")
            print(f"\nerror: median {100 * median(errors):.1f}%, worst {100 * max(errors):.1f}%")
    return slower > 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
