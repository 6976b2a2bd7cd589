"""Prefill in pieces, with decoding beside it: what the size of a piece costs and saves.

    python -m benchmarks.dataflow_pieces [--out FILE]

Llama3 70B on eight H100, a prompt of 4,096 tokens, alone and with 64 samples that decode after 4,096 tokens each.
Beside that: what both take one after the other. CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from chipmap.bench.dataflow.pieces import prefill_in_pieces
from chipmap.bench.dataflow.serving import serve
from chipmap.instances.dataflow.generators import llama

MACHINE: dict[str, Any] = {
    "model": "llama3-70b",
    "machine": "h100-sxm",
    "sizes": [8],
    "degrees": {"tensor": 8, "dimensions": ["tensor"]},
}
PROMPT, BESIDE, CONTEXT = 4096, 64, 4096
PIECES = (4096, 2048, 1024, 512, 256)


def page() -> str:
    """The page."""
    began = time.process_time()
    alone = serve(llama(**MACHINE, step="decode", context=CONTEXT, batch=BESIDE, micro_batch=BESIDE))
    lines = [
        "| piece, tokens | pieces | alone: TTFT, ms | with decoding: TTFT, ms | TPOT, ms | longest step, ms | "
        "decoded tokens/s | one after the other, ms | proved |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for piece in PIECES:
        plain = prefill_in_pieces(PROMPT, piece, **MACHINE)
        mixed = prefill_in_pieces(PROMPT, piece, BESIDE, CONTEXT, **MACHINE)
        apart = plain.ttft_us + len(plain.pieces) * alone.latency_us
        times = [plain.ttft_us, mixed.ttft_us, mixed.tpot_us, max(one.step_us for one in mixed.pieces)]
        cells = [f"{piece:,}", f"{len(plain.pieces)}", *(f"{one / 1000:,.3f}" for one in times)]
        cells += [f"{mixed.beside * 1e6 / mixed.tpot_us:,.0f}", f"{apart / 1000:,.3f}"]
        cells += ["yes" if plain.optimal and mixed.optimal and alone.optimal else "no"]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    took, head = time.process_time() - began, f"Python {platform.python_version()}, {platform.machine()}"
    text = [
        "# Prefill in pieces\n",
        f"`python -m benchmarks.dataflow_pieces`, {head}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, "
        f"{took:.1f} CPU seconds. Llama3 70B on eight H100, a prompt of {PROMPT:,} tokens, {BESIDE} samples that "
        f"decode after {CONTEXT:,} tokens each. A decode step of these alone takes {alone.latency_us / 1000:,.3f} ms. "
        "[What is counted](../../docs/families/dataflow-serving.md#prefill-in-pieces).\n",
    ]
    return "\n".join([*text, *lines]) + "\n"


def main() -> int:
    """Measure, and write or print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    text = page()
    if args.out:
        args.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
