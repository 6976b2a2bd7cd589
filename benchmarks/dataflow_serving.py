"""Serving Llama3 on 16 SN40L: DFModel's figures 20 and 21, with the published figures beside ours.

    python benchmarks/dataflow_serving.py [--markdown] [--out FOLDER] [--acceptance 0.5 0.7 0.9] [--windows 1 2 4 8]

Without ``--markdown`` only deviations are told; ``--out`` writes figure 21 as ``speculation.csv`` and
``speculation.png`` (figure 20: ``chipmap bench dataflow/serving --plots FOLDER``). Exit code 1 where a published figure
is missed by more than ``TOLERANCE`` or a mapping isn't proved optimal.
"""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.dataflow_speculation import Speculation

ROOT = Path(__file__).resolve().parents[1]
SPLITS = ((16, 1), (8, 2), (4, 4), (2, 8), (1, 16))
#: Tensor x pipeline -> microseconds of the published runs: to the first token, per output token.
PUBLISHED: dict[tuple[int, int], tuple[float | None, float | None]] = {
    (16, 1): (87_042.894, 841.894),
    (4, 4): (89_863.300, 2_210.829),
    (2, 8): (None, 4_305.163),
}
#: Decode tokens per second at 16 x 1 in the paper's text.
TEXT = 1188.0
TOLERANCE = 1e-4
#: Samples in service: the published runs' batch.
BATCH = 16_384
DRAFTS = ("llama-68m", "llama3-8b", "llama3-70b")
TARGET = "llama3-405b"


def published_instance(step: str) -> Any:
    """The published run's instance, but that Add2 leaves its rows split, so that chips hand on a share each."""
    from chipmap.inputs.reading import read

    instance: Any = read(f"dataflow/llama3-8b-{step}-sn40l-16")
    return instance.replace(task=instance.task.replace(schemes={**instance.task.schemes, "Add2": "M"}))


def real(model: str, step: str = "decode", tokens: int = 1, **task: Any) -> Any:
    """A Llama as it is, on 16 SN40L in a ring."""
    from benchmarks.dataflow_speculation import verification
    from chipmap.instances.dataflow.shipped import RESIDUAL

    system = {"chip": "sn40l", "sizes": [16], "memory_gbps": 1638.4, "link_gbps": 50.0, "latency_ns": 150.0}
    ring = {"degrees": {"tensor": 16, "dimensions": ["tensor"]}}
    return verification(model, tokens, step=step, purpose=step, **system, **ring, **RESIDUAL, **task)


def row(*cells: Any) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(str(cell) for cell in cells)} |"


def figure_20() -> tuple[list[str], int]:
    """Latencies and throughput by tensor x pipeline, for the published run and for the model as it is; misses."""
    from chipmap.bench.dataflow.serving import serve, staged

    kinds = {
        "published input, mode dfmodel": (published_instance("prefill"), published_instance("decode")),
        "as it is, mode physical": (real("llama3-8b", "prefill", 4096), real("llama3-8b")),
        "as it is, mode physical, no overlap": (
            real("llama3-8b", "prefill", 4096, overlap=False),
            real("llama3-8b", overlap=False),
        ),
    }
    lines, bad = [], 0
    for name, (prefill, decode) in kinds.items():
        lines += ["", f"### {name}", ""]
        lines += [row("TP x PP", "TTFT us", "published", "TPOT us", "published", "prefill tokens/s", "decode tokens/s")]
        lines += ["|---|--:|--:|--:|--:|--:|--:|"]
        for split in SPLITS:
            first, each = (serve(staged(one, *split, batch=BATCH)) for one in (prefill, decode))
            wanted = PUBLISHED.get(split, (None, None)) if prefill.mode == "dfmodel" else (None, None)
            for ours, paper in zip((first, each), wanted, strict=True):
                bad += not ours.optimal or (paper is not None and abs(ours.latency_us / paper - 1) > TOLERANCE)
            said = ["" if paper is None else f"{paper:,.3f}" for paper in wanted]
            cells = (f"{first.latency_us:,.3f}", said[0], f"{each.latency_us:,.3f}", said[1])
            lines.append(
                row(f"{split[0]} x {split[1]}", *cells, f"{first.tokens_per_s:,.0f}", f"{each.tokens_per_s:,.1f}")
            )
            if split == (16, 1) and prefill.mode == "dfmodel":
                bad += abs(each.tokens_per_s / TEXT - 1) > 1e-3
    return lines, bad


def figure_21(acceptances: list[float], windows: list[int]) -> tuple[list[Speculation], dict[str, float], int]:
    """Tokens per second of the 405B model with each draft model, by window and acceptance; microseconds of a token of
    each model alone; mappings not proved."""
    from benchmarks.dataflow_speculation import Speculation, published_rate, sequence_rate, tree_rate
    from chipmap.bench.dataflow.serving import serve

    settings: dict[str, Any] = {"mode": "dfmodel", "all_reduce_factor": 2, "overlap": False}
    passes: dict[tuple[str, int], float] = {}
    bad = 0

    def time(model: str, tokens: int) -> float:
        nonlocal bad
        if (model, tokens) not in passes:
            made = serve(real(model, tokens=tokens, **settings))
            passes[model, tokens] = made.latency_us
            bad += not made.optimal
        return passes[model, tokens]

    alone = time(TARGET, 1)
    rates = []
    for draft in DRAFTS:
        for window in windows:
            levels = [time(draft, 2**level) for level in range(window)]
            checked, tree = time(TARGET, window + 1), time(TARGET, 2 ** (window + 1) - 1)
            for a in acceptances:
                step = time(draft, 1)
                found = (
                    published_rate(window, a, step, alone),
                    sequence_rate(window, a, step, checked),
                    published_rate(window, a, step, alone, tree=True),
                    tree_rate(a, levels, tree),
                )
                rates.append(Speculation(draft, window, a, *found))
    return rates, {model: time(model, 1) for model in (*DRAFTS, TARGET)}, bad


def print_figure_21(rates: list[Speculation], steps: dict[str, float]) -> None:
    """Figure 21 as a Markdown table."""
    alone = steps[TARGET]
    print(f"\nAlone the target takes {alone:,.1f} us per token: {1e6 / alone:.1f} tokens/s.\n")
    print(row("draft", "t_draft us", "K", "a", "sequence: published", "expected", "tree: published", "expected"))
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for one in rates:
        cells = (f"{rate:.1f}" for rate in one[3:])
        print(row(one.draft, f"{steps[one.draft]:,.1f}", one.window, one.acceptance, *cells))


def write_figure_21(rates: list[Speculation], steps: dict[str, float], folder: Path) -> None:
    """Figure 21 as CSV and PNG in ``folder``."""
    from benchmarks.dataflow_speculation import draw

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "speculation.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*rates[0]._fields, "draft_us", "target_us"])
        writer.writerows([*one, steps[one.draft], steps[TARGET]] for one in rates)
    draw(rates, 1e6 / steps[TARGET], folder / "speculation.png")


def main() -> int:
    """Print the tables, or what deviates; 1 if something does."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--out", type=Path, help="folder for figure 21 as CSV and PNG")
    parser.add_argument("--acceptance", type=float, nargs="+", default=[0.5, 0.7, 0.9])
    parser.add_argument("--windows", type=int, nargs="+", default=[1, 2, 4, 8])
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    latencies, missed = figure_20()
    rates, steps, unproved = figure_21(args.acceptance, args.windows)
    if args.markdown:
        print("\n".join(["## Figure 20: Llama3 8B", *latencies, "", f"## Figure 21: a draft for {TARGET}"]))
        print_figure_21(rates, steps)
    if args.out is not None:
        write_figure_21(rates, steps, args.out)
    print(f"\n{missed} figures missed or unproved in figure 20, {unproved} mappings unproved in figure 21.")
    return int(missed + unproved > 0)


if __name__ == "__main__":
    raise SystemExit(main())
