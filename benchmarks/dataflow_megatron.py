"""GPT from 22B to 1T on A100 as published, by the family's model at the published settings, and asked freely.

Korthikanti et al., *Reducing Activation Recomputation in Large Transformer Models* (2022), table 5: iteration times.

MFU and HFU (its section 6) beside those that Megatron-LM's README states for the selective runs; of the others the MFU
that the published seconds give, by the same count of FLOP.

    python benchmarks/dataflow_megatron.py [--markdown] [--time-limit 60] [--curves]

Machine figures are those of data sheets. Products are computed in blocks (``BLOCKS``: what their sizes reach is a
guess that isn't fitted). One number is fitted: the utilisation of the chip's peak, on the two rows of the 22B model
alone. ``--curves`` fits it for other guesses, and prints the errors of all rows for each. The optimiser's step, which
the family doesn't count, is its bytes over the rate of DRAM. Exit code 1 where a mapping isn't proved to be the best,
or a free one is slower than a published setting.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from chipmap.instances.dataflow.instance import DataflowInstance

#: Bytes of DRAM and GB/s of it; GB/s of a chip on NVLink and InfiniBand (eight links of 200 Gbit/s for eight chips), in
#: each direction. The chip is `a100` with 312 TFLOP/s.
DRAM, DRAM_RATE, NVLINK, INFINIBAND, TFLOPS = 80 * 10**9, 2039.0, 300.0, 25.0, 312.0
#: Weights stream through a GPU kernel, while C2 holds those of a partition whole: no limit of SRAM.
SRAM = 10**12
#: What the paper recomputes selectively (its figure 3), and what need be: the second product's output is kept anyway.
ATTENTION, CORE = ("MHA1", "Softmax", "Dropout1", "MHA2"), ("MHA1", "Softmax", "Dropout1")
#: Forward kernels outside the transformer's layers, which full recomputation leaves alone.
ENDS = ("Embed", "Head", "Logits")
#: An A100's 108 multiprocessors compute blocks of these sizes at these shares of what the largest reach, each after the
#: time of so many terms of a sum: twice what a multiprocessor holds of two operands, 32 terms of each.
UNITS, BLOCKS, START = 108, ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.92)), 64
#: MFU and HFU of the runs with selective recomputation, in percent, as README.md of NVIDIA/Megatron-LM has them.
STATED = {"22B": (41.5, 43.7), "175B": (51.4, 52.8), "530B": (56.0, 57.0), "1T": (56.3, 57.0)}
#: Products that are split by what they sum up, in tensor parallelism.
BY_SUMS = ("Proj", "FFN1", "FFN0_b", "QKV_b", "Head_b")
TOKENS, WORDS = 2048, 51_200


class Model(NamedTuple):
    """A model of the paper's table 3, and how it was run."""

    name: str
    hidden: int
    heads: int
    layers: int
    chips: tuple[int, ...]
    batch: int
    micro_batch: int
    chunks: int | None


class Row(NamedTuple):
    """An iteration of the paper's table 5: seconds, with full or selective recomputation (and sequences split)."""

    model: Model
    recompute: str
    seconds: float


SMALL = Model("22B", 6144, 64, 48, (8,), 4, 4, None)
LARGE = Model("175B", 12_288, 96, 96, (8, 8), 64, 1, 3)
LARGER = Model("530B", 20_480, 128, 105, (8, 35), 280, 1, 3)
LARGEST = Model("1T", 25_600, 160, 128, (8, 64), 512, 1, None)
ROWS = (
    Row(SMALL, "full", 1.42),
    Row(SMALL, "selective", 1.10),
    Row(LARGE, "full", 18.13),
    Row(LARGE, "selective", 13.75),
    Row(LARGER, "full", 49.05),
    Row(LARGER, "selective", 37.83),
    Row(LARGEST, "full", 94.42),
    Row(LARGEST, "selective", 71.49),
)


class Curve(NamedTuple):
    """What products reach of the chip's peak: blocks, the terms before one begins, and the utilisation of all."""

    blocks: tuple[tuple[int, int, float], ...]
    start: int
    utilisation: float


def instance(model: Model, curve: Curve) -> DataflowInstance:
    """The model on its chips, with everything free that the family can choose."""
    from chipmap.inputs.reading import generate

    sizes = {"hidden": model.hidden, "heads": model.heads, "kv_heads": model.heads, "ffn": 4 * model.hidden}
    layer = {"model": "", "layers": model.layers, "words": WORDS, "tokens": TOKENS, "gated": False, "dropout": True}
    asked = {"recompute": None, "selective": list(CORE), "schedule": "interleaved", "overlap": False}
    made: Any = generate(
        "dataflow-llama",
        name=f"GPT {model.name}",
        **{**sizes, **layer, **asked, "step": "forward", "backward": True, "ends": True},
        **{"chip": "a100", "sizes": list(model.chips), "topology": "switch", "memory_gbps": DRAM_RATE},
        **{
            "dram_bytes": DRAM,
            "sram_bytes": SRAM,
            "batch": model.batch,
            "utilisation": curve.utilisation,
            "purpose": "training",
        },
    )
    rates = (NVLINK, INFINIBAND)
    network = tuple(one.replace(bytes_per_ns=rate) for one, rate in zip(made.system.network, rates, strict=False))
    own: dict[str, Any] = {"tiles": 0, "lanes": 0, "stages": 0, "ghz": 0.0, "tflops": TFLOPS}
    own |= {"units": UNITS, "blocks": curve.blocks, "block_start": curve.start} if curve.blocks else {}
    system = made.system.replace(network=network, chip=made.system.chip.replace(**own))
    found: DataflowInstance = made.replace(system=system, workload=_joined(made.workload, model))
    return found


def _joined(workload: Any, model: Model) -> Any:
    """One product for the gradient of what queries, keys and values read, as the published code has it: its sum over
    chips is one collective instead of three."""
    parts = ("Q_b", "K_b", "V_b")
    first = next(one for one in workload.kernels if one.name == parts[0])
    joint = first.replace(name="QKV_b", K=3 * model.hidden)
    kernels = [joint if one is first else one for one in workload.kernels if one.name not in parts[1:]]
    kernels = [one.replace(adds=()) if parts[0] in one.adds else one for one in kernels]
    edges = [tuple("QKV_b" if name in parts else name for name in edge) for edge in workload.edges]
    return workload.replace(kernels=tuple(kernels), edges=tuple(dict.fromkeys(edges)))


def as_published(row: Row, curve: Curve) -> DataflowInstance:
    """The row's degrees, micro-batch, chunks and recomputation. Without sequence parallelism what isn't attention or a
    product is whole on each chip, and sums are all-reduces. Such a tensor crosses to the next stage in eighths, one on
    each chip's link, and is gathered over NVLink (Narayanan et al., *Efficient Large-Scale Language Model Training on
    GPU Clusters*, 2021, section 4.1)."""
    from chipmap.instances.dataflow.instance import Degrees

    model, made = row.model, instance(row.model, curve)
    degrees = Degrees(tensor=8, dimensions=("tensor",))
    if len(model.chips) > 1:
        degrees = Degrees(tensor=8, pipeline=model.chips[1], dimensions=("tensor", "pipeline"))
        if row.recompute == "full":
            near, far = made.system.network
            far = far.replace(bytes_per_ns=1 / (1 / (8 * INFINIBAND) + 7 / 8 / NVLINK))
            made = made.replace(system=made.system.replace(network=(near, far)))
    kernels = made.workload.kernels
    if row.recompute == "full":
        kernels = tuple(one.replace(schemes=_whole(one, 4 * model.hidden)) for one in kernels)
    layer = tuple(one.name for one in kernels if one.phase == "forward" and one.name not in ENDS)
    again = layer if row.recompute == "full" else ATTENTION
    plan = {"micro_batch": model.micro_batch, "chunks": model.chunks or 1}
    task = made.task.replace(degrees=degrees, recompute="selective", selective=again, **plan)
    return made.replace(task=task, workload=made.workload.replace(kernels=kernels))


def _whole(kernel: Any, ffn: int) -> tuple[str, ...]:
    """The schemes of tensor parallelism alone: pairs of products, the first split by rows, the second by sums."""
    if kernel.outer > 1 or kernel.update or kernel.schemes:
        return tuple(kernel.schemes)
    if kernel.kind == "gemm":
        return ("K",) if kernel.name in BY_SUMS else ("M",)
    return ("M",) if ffn == kernel.M else ("NONE",)


def optimizer_seconds(model: Model) -> float:
    """Adam in mixed precision: a gradient read, a parameter written, and twelve bytes of state read and written, for
    each parameter on a chip (all weights of products, embedding and head)."""
    parameters = 12 * model.layers * model.hidden**2 + 2 * WORDS * model.hidden
    return parameters / math.prod(model.chips) * (2 * 2 + 2 * 12) / (DRAM_RATE * 1e9)


class Solved(NamedTuple):
    """Seconds of the batch, its least bound, the mapping, its certificate, and CPU seconds."""

    seconds: float
    bound: float
    mapping: Any
    certificate: Any
    spent: float


def solved(one: DataflowInstance, limit: float) -> Solved:
    """What ``dataflow/auto`` finds and proves. Raises SystemExit where it finds nothing."""
    from chipmap.methods.dataflow.chain import auto
    from chipmap.run import Run, SolveOptions
    from chipmap.validation.dataflow.checker import check

    began, run = time.process_time(), Run(one, SolveOptions.make(threads=1, time_limit=limit), check)
    auto(one, run)
    if run.best is None or run.lower is None or run.best.objective is None:
        raise SystemExit(f"{one.name}: no mapping")
    found = run.best.objective * 1e-12, run.lower.value * 1e-12
    return Solved(*found, run.best.solution, run.best.certificate, time.process_time() - began)


def error_of(row: Row, curve: Curve, limit: float) -> float:
    """How much longer the row takes by the model than published, over what was published."""
    return (solved(as_published(row, curve), limit).seconds + optimizer_seconds(row.model)) / row.seconds - 1


def fitted(blocks: tuple[tuple[int, int, float], ...], start: int, limit: float) -> Curve:
    """The utilisation, in thousandths, with the least sum of squared relative errors of the 22B rows."""

    def error(thousandths: int) -> float:
        curve = Curve(blocks, start, thousandths / 1000)
        return sum(error_of(row, curve, limit) ** 2 for row in ROWS if row.model is SMALL)

    low, high = 400, 1000  # all terms but compute stay as they are, so that the error has one least value
    while high - low > 2:
        middle = (low + high) // 2
        low, high = (middle, high) if error(middle) > error(middle + 1) else (low, middle + 1)
    return Curve(blocks, start, min(range(low, high + 1), key=error) / 1000)


def parts(one: DataflowInstance, found: Solved) -> list[float]:
    """Seconds of the batch by what they go to: compute, DRAM, network, the bubble, transfers, in this order."""
    terms, degrees = found.certificate.terms, found.mapping.degrees
    rounds = one.task.batch / (degrees.data * found.mapping.micro_batch)
    stage = one.workload.layers / degrees.pipeline * rounds * 1e-12
    bubble = (degrees.pipeline - 1) / (found.mapping.chunks * rounds)
    kinds = [terms[name] * stage for name in ("T1", "T2", "T3")]
    return [*kinds, sum(kinds) * bubble, terms["T5"] * 1e-12]


def utilisations(row: Row, found: Solved, whole: float) -> str:
    """Cells with published and modelled MFU and HFU, in percent."""
    of_model = [100 * found.certificate.figures[name] * found.seconds / whole for name in ("mfu", "hfu")]
    mfu, hfu = STATED[row.model.name]
    told = f"{mfu} / {hfu}"
    if row.recompute == "full":
        reference = next(one for one in ROWS if one.model is row.model and one.recompute == "selective")
        told = f"{mfu * reference.seconds / row.seconds:.1f} by the seconds"
    return f"{told} | {of_model[0]:.1f} / {of_model[1]:.1f}"


def published_rows(curve: Curve, limit: float) -> tuple[list[str], dict[Row, Solved], bool]:
    """Lines of the first table, what was solved, and whether all is proved."""
    lines, known, sound = list[str](), dict[Row, Solved](), True
    for row in ROWS:
        one = as_published(row, curve)
        found = known[row] = solved(one, limit)
        sound = sound and found.seconds == found.bound
        step = optimizer_seconds(row.model)
        whole = found.seconds + step
        each = " | ".join(f"{part:.3f}" for part in (*parts(one, found), step))
        what = "full" if row.recompute == "full" else "selective, sequences split"
        shares = utilisations(row, found, whole)
        error = f"{100 * (whole / row.seconds - 1):+.1f} %"
        lines.append(f"| {row.model.name} | {what} | {row.seconds:.2f} | {whole:.2f} | {error} | {shares} | {each} |")
    return lines, known, sound


def free_rows(curve: Curve, known: dict[Row, Solved], limit: float) -> tuple[list[str], bool]:
    """Lines of the second table, and whether each is proved and no slower than a published setting."""
    lines, sound = list[str](), True
    for model in (SMALL, LARGE):
        found = solved(instance(model, curve), limit)
        best = min(one.seconds for row, one in known.items() if row.model is model)
        sound = sound and found.seconds == found.bound and found.seconds <= best
        mapping, step = found.mapping, optimizer_seconds(model)
        plan = f"{mapping.micro_batch} | {mapping.chunks} | {mapping.recompute}"
        held = found.certificate.figures["dram_bytes"] / 1e9
        lines.append(
            f"| {model.name} | {best + step:.2f} | {found.seconds + step:.2f} | {mapping.degrees.text} | {plan} "
            f"| {held:.1f} | {'proved' if found.seconds == found.bound else 'open'} | {found.spent:.1f} |"
        )
    return lines, sound


def _said(curve: Curve) -> str:
    if not curve.blocks:
        return "All products reach it."
    listed = ", ".join(f"{rows} × {columns} ({share:g})" for rows, columns, share in curve.blocks)
    return f"Blocks on {UNITS} units: {listed}; a block begins after {curve.start} terms."


def curves(limit: float) -> int:
    """Print the errors of all rows for guesses of the blocks, each fitted on the 22B rows."""
    names = " | ".join(f"{row.model.name} {row.recompute}" for row in ROWS)
    print(f"| share of 128 × 128 | start | utilisation | {names} | largest |\n|--:|--:|--:|{'--:|' * (len(ROWS) + 1)}")
    guesses = [((), 0)] + [((*BLOCKS[:2], (128, 128, share)), k) for share in (0.9, 0.92, 0.95) for k in (0, 64, 128)]
    for blocks, start in guesses:
        curve = fitted(blocks, start, limit)
        errors = [100 * error_of(row, curve, limit) for row in ROWS]
        share = f"{blocks[-1][2]} | {start}" if blocks else "no blocks | "
        cells = " | ".join(f"{one:+.1f} %" for one in errors)
        print(f"| {share} | {curve.utilisation:.3f} | {cells} | {max(map(abs, errors)):.1f} % |", flush=True)
    return 0


def main() -> int:
    """Print both tables; 1 if something isn't proved, or a free mapping is slower than a published setting."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--curves", action="store_true", help="the errors of all rows for other guesses of the blocks")
    args = parser.parse_args()
    if args.curves:
        return curves(args.time_limit)
    curve = fitted(BLOCKS, START, args.time_limit)
    published, known, proved = published_rows(curve, args.time_limit)
    free, better = free_rows(curve, known, args.time_limit)
    if args.markdown:
        version = f"Python {platform.python_version()}, {platform.machine()}"
        print("# GPT 22B to 1T on A100: published iterations and the model's\n")
        print(f"`python benchmarks/dataflow_megatron.py --markdown`, {version}, one thread.\n")
    print(f"Utilisation fitted on the two 22B rows: {curve.utilisation:.3f}. {_said(curve)}\n")
    seconds = "compute | DRAM | network | bubble | transfers | Adam"
    print(
        f"| model | recomputation | published, s | model, s | error | MFU / HFU published, % | model, % | {seconds} |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    print("\n".join(published))
    plan = "degrees | micro-batch | chunks | recomputation"
    print(f"\n| model | best published setting, s | free, s | {plan} | GB of DRAM | status | CPU s |")
    print("|---|--:|--:|---|--:|--:|---|--:|---|--:|")
    print("\n".join(free))
    return 0 if proved and better else 1


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main())
