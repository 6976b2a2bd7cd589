"""PaLM on TPU v4 as published, beside the data sheet's limit and a prediction.

Source: Pope et al., *Efficiently Scaling Transformer Inference*, 2022 (arXiv 2211.05102), tables 2 and 3 and section
4.4: prompts of 2,048 tokens, or contexts of as many, and the time of a token. Each row of the tables states a time and
a share of the peak: 2 · parameters · tokens / (chips · peak · time), which ``test_profiles`` asks for.

    python benchmarks/dataflow_palm.py [--fit] [--markdown FILE]

The rows of PaLM 62B fit the profile of ``tpu-v4-typical`` (``--fit``, seconds); those of PaLM 540B judge it. Layers
are those of the paper: the FFN beside the attention, one head of keys, heads of 540B padded to 64. Attention of decode
steps is split by samples, of prefills by heads; products of weights by rows and by terms over all chips. The paper's
weights are split in two ways at once, so its collectives are more and shorter.

Exit code 1 where the data sheet's limit is slower than a measured row.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from chipmap.instances.dataflow import DataflowInstance
    from chipmap.instances.dataflow.profiles import Profile
    from chipmap.instances.dataflow.system import System

ROOT = Path(__file__).resolve().parents[1]
MACHINE = "tpu-v4"
#: The fields of :class:`benchmarks.dataflow_static_batches.Sizes`.
SIZES = {
    "PaLM 62B": (8192, 32, 1, 256, 32_768, 64, True, True),
    "PaLM 540B": (18_432, 64, 1, 256, 73_728, 118, True, True),
}
#: Parameters as published, in 10⁹: what the shares of the peak count.
PARAMETERS = {"PaLM 62B": 62.5, "PaLM 540B": 540.35}
#: Where the fit begins: shares of products, attention, DRAM and links; nanoseconds of a launch, a start, a pass: as in
#: :mod:`benchmarks.dataflow_static_fit`. Weight of a number's distance from there.
SHARES, TIMES, NEAR = (0.6, 0.3, 0.85, 0.5), (4e3, 1e4, 3e5), 0.1
#: Nanoseconds of a step of a ring, as *How to Scale Your Model* (Austin et al., 2025) says of a hop. Not fitted.
LATENCY = 1e3


class Row(NamedTuple):
    """A published row: torus, samples, new tokens of each, context, format of weights, milliseconds of a pass, and the
    share of the peak in percent (0: not stated)."""

    model: str
    torus: tuple[int, ...]
    batch: int
    tokens: int
    context: int
    weights: str
    measured: float
    share: int

    @property
    def decodes(self) -> bool:
        """Whether the pass is one of 64 decode steps, of which the paper states the sum."""
        return self.context > 0


#: A decode step's context is that of the middle one of 64.
ROWS = (
    Row("PaLM 62B", (4, 2, 2), 1, 2048, 0, "int8", 160.0, 36),
    Row("PaLM 62B", (4, 2, 2), 32, 1, 2080, "int8", 730 / 64, 8),
    Row("PaLM 62B", (2, 2, 2), 512, 1, 2080, "bf16", 5100 / 64, 37),
    Row("PaLM 540B", (4, 4, 4), 1, 2048, 0, "int8", 290.0, 43),
    Row("PaLM 540B", (4, 4, 4), 64, 1, 2080, "int8", 28.5, 14),
    Row("PaLM 540B", (4, 4, 4), 64, 1, 2080, "bf16", 36.9, 0),
    Row("PaLM 540B", (4, 4, 4), 512, 1, 2080, "bf16", 6000 / 64, 33),
)


def share_of_peak(row: Row) -> float:
    """The share of the peak, in percent, that the row's time comes to."""
    flop = 2e9 * PARAMETERS[row.model] * row.batch * row.tokens
    return 100 * flop / (prod(row.torus) * 275e12 * row.measured / 1000)


@cache
def step(row: Row) -> tuple[DataflowInstance, Any]:
    """The pass and its mapping: each kernel by itself, all chips in one group."""
    from benchmarks.dataflow_static_batches import Sizes, layer
    from chipmap.instances.dataflow.generators import explicit
    from chipmap.instances.dataflow.instance import DataflowSolution, Degrees

    chips, size = prod(row.torus), Sizes(*SIZES[row.model])
    kernels, edges, schemes = layer(size, row.tokens, row.context, 2, chips)
    if row.decodes:
        kernels["Attend"] |= {"schemes": ("B",)}
        schemes["Attend"] = "B"
    degrees = Degrees(tensor=chips, pipeline=1, data=1, dimensions=tuple("tensor" for _ in row.torus))
    made = explicit(
        kernels=kernels, edges=edges, carries=((list(kernels)[-1], "Norm1"),), layers=size.layers,
        word_bytes=2, tokens=row.tokens, machine=MACHINE, sizes=row.torus, degrees=degrees, batch=row.batch,
        micro_batch=row.batch, schemes=schemes, utilisation=1.0, purpose="decode" if row.decodes else "prefill",
        weight_format=row.weights, activation_format="bf16", cache_format="bf16", tensor_dimensions=len(row.torus),
        dram_bytes=10**15,
    )  # fmt: skip
    order = [one.name for one in made.workload.kernels]
    mapping = DataflowSolution.make(
        instance=made.name, degrees=degrees, micro_batch=row.batch, schemes=tuple(schemes[one] for one in order),
        partitions=tuple(range(len(order))), stages=(),
    )  # fmt: skip
    return made, mapping


def milliseconds(row: Row, system: System) -> float:
    """Milliseconds of the pass on a machine, by the checker."""
    from chipmap.validation.dataflow.checker import check

    instance, mapping = step(row)
    found = check(instance.replace(system=system), mapping)
    assert found.feasible and found.objective is not None, found.violations
    return found.objective / 1e9


def fitted(rows: tuple[Row, ...] = ROWS[:3]) -> Profile:
    """The profile with the least squares of log(predicted / measured) over some rows, and a hundredth of those of each
    number's distance from where it began; to three digits."""
    import numpy as np
    from scipy.optimize import least_squares

    from chipmap.instances.dataflow.machines import machine
    from chipmap.instances.dataflow.profiles import Profile

    def profile(x: Any, digits: int = 15) -> Profile:
        shares = [float(1 / (1 + (1 / start - 1) * np.exp(-by))) for start, by in zip(SHARES, x, strict=False)]
        times = [float(start * np.exp(by)) for start, by in zip(TIMES, x[len(SHARES) :], strict=True)]
        products, attention, memory, links = shares
        launch, start, late = times
        # a cache is read as weights are, and attention with it is one product more
        every = (products, attention, attention, memory, 1.0, links, launch, start, late, LATENCY)
        return Profile(*(float(f"{one:.{digits}g}") for one in every))

    def errors(x: Any) -> Any:
        by = profile(x)
        off = [np.log(milliseconds(row, by.on(machine(MACHINE, row.torus))) / row.measured) for row in rows]
        return np.array([*off, *(NEAR * x)])

    best: Any = least_squares(errors, np.zeros(len(SHARES) + len(TIMES)), diff_step=1e-3, max_nfev=50)
    return profile(best.x, 3)


def table(rows: tuple[Row, ...]) -> list[str]:
    """Lines of a table of some rows."""
    from chipmap.instances.dataflow.machines import machine

    heads = ["model", "chips", "pass", "batch", "weights", "published, ms", "data sheet", "predicted", "error"]
    lines = [f"| {' | '.join(heads)} |", "|---|--:|---|--:|---|--:|--:|--:|--:|"]
    for row in rows:
        sheet, said = (milliseconds(row, machine(f"{MACHINE}{more}", row.torus)) for more in ("", "-typical"))
        what = "decode" if row.decodes else f"prefill of {row.tokens:,}"
        times = [f"{one:.1f}" for one in (row.measured, sheet, said)]
        cells = [row.model, " x ".join(map(str, row.torus)), what, str(row.batch), row.weights, *times]
        lines.append(f"| {' | '.join(cells)} | {said / row.measured - 1:+.1%} |")
    return lines


def main() -> int:
    """Print the rows, or write them; with --fit the profile."""
    from chipmap.instances.dataflow.machines import machine

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fit", action="store_true", help="fit the profile anew and print it")
    parser.add_argument("--markdown", type=Path)
    args = parser.parse_args()
    if args.fit:
        print(fitted())
    lines = [
        "# PaLM on TPU v4: published, limit by the data sheet, predicted",
        "",
        "`python benchmarks/dataflow_palm.py`. Milliseconds of a pass. [Typical",
        "profiles](../../docs/families/dataflow-machines.md#typical-profiles) say what is fitted, and the source.",
    ]
    for half, rows in (("fit", ROWS[:3]), ("judge", ROWS[3:])):
        lines += ["", f"Rows to {half}:", "", *table(rows)]
    print("\n".join(lines))
    if args.markdown:
        args.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return any(milliseconds(row, machine(MACHINE, row.torus)) > row.measured for row in ROWS)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
