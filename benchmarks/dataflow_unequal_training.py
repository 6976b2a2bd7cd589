"""A training step of Llama3-8B on 8 H100 and 8 A100: unequal stages beside equal ones and beside either group alone.

``python -m benchmarks.dataflow_unequal_training`` writes ``benchmarks/results/dataflow-unequal-training.md``. Groups
are linked by 25 GB/s per chip, as between machines; all rates are those of data sheets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.dataflow_unequal import row, solved

RESULT = Path(__file__).parent / "results" / "dataflow-unequal-training.md"
H100, A100 = "h100-sxm-8", "a100-80gb-8"
STEP: dict[str, Any] = {"model": "llama3-8b", "purpose": "training", "backward": True, "batch": 16, "micro_batch": 1}
#: How the stages are asked for; none: as is best.
SPLITS: dict[str, list[dict[str, Any]]] = {
    "two equal stages": [{"group": H100, "layers": 16}, {"group": A100, "layers": 16}],
    "two stages, layers free": [{"group": H100, "tensor": 8}, {"group": A100, "tensor": 8}],
    "free": [],
}


def main() -> None:
    """All splits and groups."""
    lines = ["| step | stages | layers and chips | ms | tokens/s | | CPU s |", "|---|---|---|--:|--:|---|--:|"]
    both = {"machine": "h100-sxm", "sizes": [8], "others": [A100], "between_gbps": 25.0, "between_ns": 2000.0}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("8 H100 alone", {"machine": "h100-sxm", "sizes": [8]}),
        ("8 A100 alone", {"machine": "a100-80gb", "sizes": [8]}),
        *((how, {**both, "stage_groups": asked}) for how, asked in SPLITS.items()),
    ]
    for how, parameters in cases:
        lines.append(row("16 sequences", how, *solved(**STEP, **parameters)))
        print(lines[-1], flush=True)
        RESULT.write_text("# A training step on 8 H100 and 8 A100\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
