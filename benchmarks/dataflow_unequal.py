"""Llama3-70B on 4 H100 and 8 A100: unequal stages beside equal ones and beside either group alone.

``python -m benchmarks.dataflow_unequal`` writes ``benchmarks/results/dataflow-unequal.md``. Groups are linked by
25 GB/s per chip, as between machines; all rates are those of data sheets.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from chipmap.inputs.reading import generate
from chipmap.methods.dataflow.chain import auto
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.checker import check

RESULT = Path(__file__).parent / "results" / "dataflow-unequal.md"
H100, A100 = "h100-sxm-4", "a100-80gb-8"
STEPS: dict[str, dict[str, Any]] = {
    "prefill, 8 sequences": {"purpose": "prefill", "batch": 8},
    "prefill, 32 sequences": {"purpose": "prefill", "batch": 32},
    "decode step, 64 sequences": {"purpose": "decode", "batch": 64},
    "decode step, 512 sequences": {"purpose": "decode", "batch": 512},
}
#: How the stages are asked for; none: as is best.
SPLITS: dict[str, list[dict[str, Any]]] = {
    "free": [],
    "two equal stages": [{"group": H100, "layers": 40}, {"group": A100, "layers": 40}],
    "three stages of four chips, equal": [
        {"group": H100, "tensor": 4, "layers": 27},
        {"group": A100, "tensor": 4, "layers": 27},
        {"group": A100, "tensor": 4, "layers": 26},
    ],
}


def solved(**parameters: Any) -> tuple[Run, float]:
    """The run of ``dataflow/auto``, and its CPU seconds."""
    instance: Any = generate("dataflow-llama", **{"model": "llama3-70b", **parameters})
    run = Run(instance, SolveOptions(time_limit=600.0, threads=1), check)
    started = time.process_time()
    auto(instance, run)
    return run, time.process_time() - started


def row(what: str, how: str, run: Run, seconds: float) -> str:
    """A line of the table."""
    if run.best is None:
        return f"| {what} | {how} | none fits | | | | {seconds:.1f} |"
    solution: Any = run.best.solution
    stages = [f"{one.layers} on {one.tensor} {one.group.split('-')[0].upper()}" for one in solution.stage_groups]
    said = ", ".join(stages) or solution.degrees.text
    proof = "proved" if run.gap == 0 else f"gap {run.gap}"
    instance: Any = run.instance
    time_, rate = (run.upper or 0) / 1e9, run.best.certificate.figures["samples_per_s"] * instance.workload.tokens
    return f"| {what} | {how} | {said} | {time_:.2f} | {rate:,.0f} | {proof} | {seconds:.1f} |"


def main() -> None:
    """All steps, splits and groups."""
    lines = ["| step | stages | layers and chips | ms | tokens/s | | CPU s |", "|---|---|---|--:|--:|---|--:|"]
    both = {"machine": "h100-sxm", "sizes": [4], "others": [A100], "between_gbps": 25.0, "between_ns": 2000.0}
    solved(**both, purpose="prefill", batch=1)  # compiles
    for what, step in STEPS.items():
        for how, asked in SPLITS.items():
            lines.append(row(what, how, *solved(**both, **step, stage_groups=asked)))
            print(lines[-1], flush=True)
        for how, machine in (("4 H100 alone", ("h100-sxm", [4])), ("8 A100 alone", ("a100-80gb", [8]))):
            lines.append(row(what, how, *solved(machine=machine[0], sizes=machine[1], **step)))
            print(lines[-1], flush=True)
    RESULT.write_text("# Llama3-70B on 4 H100 and 8 A100\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
