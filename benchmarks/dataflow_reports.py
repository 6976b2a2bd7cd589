"""Training as published: Llama3 on H100 and DeepSeek-V3 on H800, as published and asked freely.

    python -m benchmarks.dataflow_reports [--markdown] [--time-limit 60]

Sources: NVIDIA, *Megatron Bridge performance summary*, DGX-H100, containers 25.09 and 25.11 (Llama3 70B, FP8:
1,619 and 1,602 tokens/s and chip); DeepSeek-AI, *DeepSeek-V3 Technical Report* (2024), sections 1, 3 and 4.2.

Nothing is fitted here: the share of the peak that products reach is :data:`UTILISATION`, which
``benchmarks.dataflow_megatron`` fits on A100s. Exit code 1 where a mapping isn't proved to be the best of its question.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
from typing import Any, Literal, NamedTuple

from benchmarks.dataflow_megatron import Solved, parts, solved
from chipmap.instances.dataflow.formats import Format
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.presets import preset
from chipmap.instances.dataflow.workload import Kernel, Workload

#: Of the peak, fitted on the iterations of GPT 22B on A100 (``benchmarks/results/dataflow-megatron.md``).
UTILISATION = 0.670
#: Forward kernels that one fused attention kernel replaces; those of the backward phase begin alike.
CORE = ("MHA1", "Softmax", "MHA2")
#: FlashAttention keeps no scores: its backward phase has five products where the forward one has two (Dao 2023).
BACKWARD_PRODUCTS = 5 / 2
#: Recomputed in DeepSeek-V3 (section 3.2.3): norms, and what is made of the latents.
RECOMPUTED = ("Norm1", "Norm2", "Q_up", "K_up", "V_up", "Experts_Act", "Shared_Act")


#: Of 132 SMs of an H800, 20 move tokens in DeepSeek-V3 (section 3.2.2), which leaves this share.
COMPUTING = 112 / 132
#: DeepSeek-V3 sends a token to eight experts, but to four nodes at most (section 2.1.2).
NODES = 8 / 4


class Report(NamedTuple):
    """A published run.

    ``low`` and ``high`` are the published tokens per second and chip. ``groups`` names what each network dimension is
    for: (chips, parallelism, whether it lies on NVLink); ``paired`` does so where it runs two passes at once.
    ``slots``: layers of the fullest stage times stages, where the layers don't divide. ``flop`` counts those of the
    model for a token, by the report's own convention; ``format`` is that of the products.
    """

    name: str
    model: str
    machine: str
    groups: tuple[tuple[int, str, bool], ...]
    batch: int
    tokens: int
    chunks: int
    slots: int
    format: Format
    low: float
    high: float
    flop: float
    recompute: str = "none"
    paired: tuple[tuple[int, str, bool], ...] = ()


def dense_flop(hidden: int, kv_rows: int, ffn: int, layers: int, words: int, tokens: int) -> float:
    """Model FLOP of a token, forward and backward: six for each parameter of a product, and the products of attention
    with the half of the scores that isn't masked."""
    parameters = layers * (2 * hidden**2 + 2 * hidden * kv_rows + 3 * hidden * ffn) + hidden * words
    return 6.0 * parameters + 6.0 * layers * hidden * tokens


def latent_flop(layers: int, tokens: int) -> float:
    """The same of DeepSeek-V3 with its multi-token module: a layer has 37 · 10⁹ / 61 parameters in use, about, counted
    from its sizes (a dense layer has as many as nine experts)."""
    queries = 7168 * 1536 + 1536 * 128 * 192
    keys = 7168 * 576 + 512 * 128 * 256
    experts = 9 * 3 * 7168 * 2048 + 256 * 7168
    parameters = layers * (queries + keys + 128 * 128 * 7168 + experts)
    ends = 2 * 7168 * 129_280 + 2 * 7168 * 7168
    return 6.0 * (parameters + ends) + 3.0 * layers * 128 * (192 + 128) * tokens


_HOURS = 180e3
REPORTS: tuple[Report, ...] = (
    Report(
        "Llama3 70B, 64 H100, FP8",
        "llama3-70b",
        "h100-sxm",
        ((4, "tensor", True), (2, "data", True), (8, "pipeline", False)),
        *(128, 8192, 5, 80, "fp8", 1602.0, 1619.0),
        dense_flop(8192, 1024, 28_672, 80, 128_256, 8192),
    ),
    Report(
        "DeepSeek-V3, 2,048 H800, FP8",
        "deepseek-v3",
        "h800-sxm",
        ((8, "expert", True), (8, "expert", False), (2, "data", False), (16, "pipeline", False)),
        *(15_360, 4096, 1, 64, "fp8"),
        *(1e12 / (_HOURS * 3600),) * 2,
        latent_flop(62, 4096),
        "selective",
        ((8, "expert", True), (8, "expert", False), (4, "data", False), (8, "pipeline", False)),
    ),
)


def instance(report: Report, utilisation: float = UTILISATION, **task: Any) -> DataflowInstance:
    """The report's model on its chips with everything free that the family can choose, but for ``task``.

    Products run at the peak of the report's format, attention at that of bf16, which all bytes have as well. Replicas
    share out the optimiser's state, whose step is counted.
    """
    shape = {"tokens": report.tokens, "backward": True, "ends": True, "step": "forward", "layers": report.slots}
    asked = {"schedule": "interleaved", "overlap": False, "shard": "optimizer", "optimizer_step": True}
    routed = {"divide": True, "predict": 0} if report.model.startswith("deepseek") else {}
    made = preset(
        report.model,
        machine=report.machine,
        sizes=[size for size, _, _ in report.groups],
        batch=report.batch,
        utilisation=utilisation,
        **{**shape, **asked, **routed, "recompute": None, "selective": RECOMPUTED if routed else (), **task},
    )
    fastest = made.system.network[0]
    network = tuple(
        one.replace(bytes_per_ns=fastest.bytes_per_ns) if near else one
        for one, (_, _, near) in zip(made.system.network, report.groups, strict=True)
    )
    if routed:  # a token goes to experts on four nodes at most: half as many copies as experts leave a node
        network = tuple(one.replace(bytes_per_ns=NODES * one.bytes_per_ns) if use == "expert" and not near else one
                        for one, (_, use, near) in zip(network, report.groups, strict=True))  # fmt: skip
    peaks = made.system.chip.peaks
    slow = peaks[report.format] / peaks["bf16"]
    chip = made.system.chip.replace(tflops=peaks[report.format], peaks={})
    system = made.system.replace(chip=chip, network=network)
    workload = _flash(made.workload, slow)
    return made.replace(name=report.name, system=system, workload=_exchanged(workload) if routed else workload)


def as_published(report: Report, utilisation: float = UTILISATION, **task: Any) -> DataflowInstance:
    """The report's degrees, micro-batches of one sequence, its chunks and what it recomputes."""
    sizes: dict[str, int] = {}
    for size, use, _ in report.groups:
        sizes[use] = sizes.get(use, 1) * size
    sizes["data"] = sizes.get("data", 1) * sizes.get("expert", 1)
    uses: Any = tuple(use for _, use, _ in report.groups)
    degrees = Degrees(**sizes, dimensions=uses)
    plan = {"micro_batch": 1, "chunks": report.chunks, "recompute": report.recompute}
    made = instance(report, utilisation, **{"degrees": degrees, **plan, **task})
    divided = {kernel.name: "E" for kernel in made.workload.kernels if "E" in kernel.schemes}
    return made.replace(task=made.task.replace(schemes=divided))


def in_pairs(report: Report, share: float = 1.0) -> DataflowInstance:
    """The report's settings where its stages run two passes at once, and this ``share`` of a chip computes."""
    return as_published(report._replace(groups=report.paired), share * UTILISATION, schedule="dualpipe-v", chunks=None)


def _flash(workload: Workload, slow: float) -> Workload:
    """The workload with attention as one kernel in each direction that keeps no scores and leaves out masked ones.

    ``slow``: the peak of products over that of attention; as a machine has one peak here, attention has so many times
    its FLOP.
    """
    kernels = {kernel.name: kernel for kernel in workload.kernels}
    scores, values = kernels["MHA1"], kernels["MHA2"]
    inner = (scores.K + values.M) / values.M / 2 * workload.tokens
    forward = values.replace(name="Attention", K=round(slow * inner))
    made = _made_by(workload, scores, values)
    output = sum(kernels[name].outer * kernels[name].M for name in made) * workload.tokens * workload.word_bytes
    again = round(slow * BACKWARD_PRODUCTS * inner)
    backward = values.replace(name="Attention_b", K=again, phase="backward", output_bytes=output)
    return _replaced(workload, {False: forward, True: backward})


def _made_by(workload: Workload, scores: Kernel, values: Kernel) -> list[str]:
    """What attention reads: queries, keys and values, whose gradients its backward kernel makes."""
    readers = {scores.name, values.name}
    found = [source for source, reader in workload.edges if reader in readers and source not in CORE]
    return list(dict.fromkeys(found))


def _replaced(workload: Workload, new: dict[bool, Kernel]) -> Workload:
    """``workload`` with the kernel that ``new`` has for each phase in place of all of attention's."""

    def name_of(name: str) -> str:
        if name in CORE:
            return new[False].name
        return new[True].name if name.startswith(tuple(f"{one}_" for one in CORE)) else name

    names = {kernel.name: name_of(kernel.name) for kernel in workload.kernels}
    kernels = {names[kernel.name]: kernel for kernel in workload.kernels}
    kernels.update({one.name: one for one in new.values()})
    edges = dict.fromkeys((names[a], names[b]) for a, b in workload.edges if names[a] != names[b])
    for name, kernel in kernels.items():
        kernels[name] = kernel.replace(operand=names.get(kernel.operand, ""))
    return workload.replace(kernels=tuple(kernels.values()), edges=tuple(edges))


def _exchanged(workload: Workload) -> Workload:
    """DeepSeek-V3's exchanges of tokens: one for each direction and phase. Dispatch and what it leaves are in FP8, and
    so are gradients on their way to the last products of experts (section 3.3.3); what comes back is in bf16.

    In the family each reader pays for its own change of layout. Here what arrives is a kernel of its own that all of
    them read, and the gradients of the two products that read it are added up before they go back. Routers' weights
    are multiplied before an expert's last product, so that the output of that isn't kept.
    """
    kernels = {kernel.name: kernel for kernel in workload.kernels}
    like, half = kernels["Experts_Act"], workload.word_bytes // 2
    size = kernels["Dispatch"].M * like.N

    def copy(name: str, phase: Literal["forward", "backward"], output: int) -> Kernel:
        return like.replace(name=name, M=kernels["Dispatch"].M, phase=phase, flop_per_element=0, output_bytes=output)

    kernels["Dispatch"] = kernels["Dispatch"].replace(output_bytes=size * half)
    kernels["Experts_In"] = copy("Experts_In", "forward", size * half)
    kernels["Combine_b1"] = kernels["Combine_b1"].replace(output_bytes=size * half)
    kernels["Experts_Out_b"] = copy("Experts_Out_b", "backward", size * half)
    kernels["Experts_In_b"] = copy("Experts_In_b", "backward", size * workload.word_bytes)
    edges = [("Dispatch", "Experts_In"), ("Experts_In_b", "Dispatch_b")]
    gradients = [a for a, b in workload.edges if b == "Experts_Down_b"]
    edges += [(one, "Experts_Out_b") for one in gradients]
    for a, b in workload.edges:
        if a == "Dispatch":
            edges.append(("Experts_In", b))
        elif b == "Dispatch_b":
            edges.append((a, "Experts_In_b"))
        elif a in gradients and b.startswith("Experts_Down"):
            edges.append(("Experts_Out_b", b))
        elif a != "Experts_Down" or b == "Combine":
            edges.append((a, b))
    kernels["Experts_In_b"] = kernels["Experts_In_b"].replace(adds=kernels["Dispatch_b"].adds)
    kernels["Dispatch_b"] = kernels["Dispatch_b"].replace(adds=())
    for name, kernel in kernels.items():
        if kernel.operand == "Dispatch":
            kernels[name] = kernel.replace(operand="Experts_In")
    return workload.replace(kernels=tuple(kernels.values()), edges=tuple(dict.fromkeys(edges)))


def rate_of(report: Report, seconds: float) -> float:
    """Tokens per second and chip of a batch that takes so many seconds."""
    return report.batch * report.tokens / seconds / math.prod(size for size, _, _ in report.groups)


class Read(NamedTuple):
    """What is told of a run: tokens per second and chip, hours of a chip for 10¹² tokens, MFU in percent of the
    format's peak."""

    rate: float
    hours: float
    mfu: float


def read(report: Report, rate: float, peak: float) -> Read:
    """The figures of so many tokens per second and chip."""
    return Read(rate, 1e12 / rate / 3600, 100 * rate * report.flop / (1e12 * peak))


def cells(one: Read) -> str:
    """The figures as cells of a table."""
    return f"{one.rate:,.0f} | {one.hours / 1000:,.1f} | {one.mfu:.1f}"


def hidden(one: DataflowInstance, found: Solved) -> float:
    """Seconds of the batch if the network's transfers ran beside compute and memory all the time: of T1 + T2 and T3
    the longer instead of their sum. No schedule of the family does that; it ends the range."""
    compute, memory, network, bubble, moved = parts(one, found)
    rest = found.seconds - (compute + memory + network + bubble + moved)
    longer = max(compute + memory, network)
    stretch = 1 + bubble / (compute + memory + network)
    return longer * stretch + moved + rest


def matching(report: Report, one: DataflowInstance, found: Solved) -> float | None:
    """The share of the peak at which this mapping would have the published rate (the mean of both figures), if any."""
    compute, memory, network, bubble, _ = parts(one, found)
    stretch = 1 + bubble / (compute + memory + network)
    published = rate_of(report, 1.0) / ((report.low + report.high) / 2)
    left = compute + (published - found.seconds) / stretch
    return UTILISATION * compute / left if left > 0 else None


#: What is asked freely about each report: what is said of it, whether degrees are the solver's as well, and the task.
QUESTIONS: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "llama3-70b": ("degrees and chunks free", True, {"recompute": "none", "micro_batch": 1}),
    "deepseek-v3": (
        "micro-batch, chunks, recomputation free",
        False,
        {"recompute": None, "chunks": None, "micro_batch": None},
    ),
}


def standing(found: Solved) -> str:
    """Whether nothing is faster, or how much faster it could be at most."""
    gap = 1 - found.bound / found.seconds
    return "proved" if gap == 0 else f"gap {100 * gap:.1f} %"


def row_of(report: Report, limit: float) -> tuple[list[str], list[str], bool]:
    """Lines of the first and of the second table for a report, and whether all is proved."""
    one = as_published(report)
    found, peak = solved(one, limit), one.system.chip.tflops or 0.0
    proved = found.seconds == found.bound
    told = [read(report, rate, peak) for rate in dict.fromkeys((report.low, report.high))]
    lines = [f"| {report.name} | published | | {cells(each)} | | |" for each in told]

    def line(what: str, seconds: float, state: str, spent: str = "") -> str:
        figures = cells(read(report, rate_of(report, seconds), peak))
        return f"| | {what} | {seconds:.2f} | {figures} | {state} | {spent} |"

    lines.append(line("as published", found.seconds, standing(found), f"{found.spent:.1f}"))
    lines.append(line("its network hidden", hidden(one, found), "arithmetic"))
    if report.paired:  # DualPipe: twice as many replicas of half as many stages
        for computing, said in ((1.0, ""), (COMPUTING, ", 20 of 132 SMs move tokens")):
            both = solved(in_pairs(report, computing), limit)
            held, proved = both.certificate.figures["dram_bytes"] / 1e9, proved and both.seconds == both.bound
            what = f"`dualpipe-v`{said}: {held:.1f} GB of DRAM"
            lines.append(line(what, both.seconds, standing(both), f"{both.spent:.1f}"))
    what, degrees, task = QUESTIONS[report.model]
    other = solved((instance if degrees else as_published)(report, **task), limit)
    mapping, proved = other.mapping, proved and other.seconds == other.bound
    plan = f"{mapping.degrees.text}, micro-batch {mapping.micro_batch}, chunks {mapping.chunks}, {mapping.recompute}"
    lines.append(line(f"{what}: {plan}", other.seconds, standing(other), f"{other.spent:.1f}"))
    compute, memory, network, bubble, moved = parts(one, found)
    terms = found.certificate.terms
    ends = [terms["T6"] * 1e-12, terms["T8"] * 1e-12]
    spent = [compute * UTILISATION, compute * (1 - UTILISATION), memory, network, bubble, moved, *ends]
    share = matching(report, one, found)
    shares = " | ".join(f"{part:.2f}" for part in spent)
    held = found.certificate.figures["dram_bytes"] / 1e9
    return lines, [f"| {report.name} | {shares} | {held:.1f} | {'none' if share is None else f'{share:.3f}'} |"], proved


def main() -> int:
    """Print both tables; 1 if something isn't proved."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--time-limit", type=float, default=60.0)
    args = parser.parse_args()
    found = [row_of(report, args.time_limit) for report in REPORTS]
    if args.markdown:
        version = f"Python {platform.python_version()}, {platform.machine()}"
        print("# Training as published: Llama3 70B on 64 H100, DeepSeek-V3 on 2,048 H800\n")
        print(f"`python -m benchmarks.dataflow_reports --markdown`, {version}, one thread. Nothing is fitted: products")
        print(f"reach {UTILISATION} of their peak, the share that GPT 22B has on A100.\n")
    print("| run | | batch, s | tokens/s and chip | thousand chip hours for 10¹² tokens | MFU, % | status | CPU s |")
    print("|---|---|--:|--:|--:|--:|---|--:|")
    print("\n".join(line for lines, _, _ in found for line in lines))
    seconds = "compute at the peak | what products lose | DRAM | network | bubble | transfers | sums | Adam"
    print(f"\n| as published, s | {seconds} | GB of DRAM | share of the peak that matches |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    print("\n".join(line for _, lines, _ in found for line in lines))
    return 0 if all(proved for _, _, proved in found) else 1


if __name__ == "__main__":
    sys.exit(main())
