"""What splitting the head gains: GPT-2, Llama 3.2 1B and Qwen2 0.5B on 36 chips.

In each the product with the word table takes several times the average work per chip and binds alone. It is split by
output features (``chipmap convert INSTANCE --split head.mm:N``) in 2, 4, 8 parts and as many as make a part as short as
the average; each instance is solved to the proof or to the limit, and its mapping checked. The logits leave the network
in parts: nothing computes with them.

    python -m benchmarks.ring_split [--limit SECONDS] [--threads N] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
from pathlib import Path
from typing import Any

from chipmap.inputs.reading import generate
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.ring.splitting import split
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve

HEAD = "head.mm"
TICKS_PER_US = 100_000
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT-2": ("gpt2", {"sram_mib": 1024.0}),
    "Llama 3.2 1B": ("decoder", {}),
    "Qwen2 0.5B": (
        "decoder",
        {
            "layers": 24,
            "hidden": 896,
            "heads": 14,
            "kv_heads": 2,
            "intermediate": 4864,
            "vocabulary": 151936,
            "style": "qwen2",
        },
    ),
}


def cpu() -> float:
    """CPU seconds of this process and its ended children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def row(
    name: str, instance: RingInstance, parts: int, whole: Result | None, options: SolveOptions
) -> tuple[Result, str]:
    """Solve the instance with its head in so many parts (1: as it is); the result and the row."""
    changed = instance if parts == 1 else split(instance, [HEAD], parts).instance
    problem = ring_problem(changed)
    before = cpu()
    result = solve(changed, options=options, isolate=True)
    spent = cpu() - before
    average = problem.total_ticks / problem.chips
    value = f"{result.objective / TICKS_PER_US:,.1f}" if result.objective is not None else "-"
    gain = ""
    if whole is not None and whole.objective and result.objective is not None:
        gain = f"{whole.objective / result.objective:.2f}"
    standing = "proved" if result.status == "optimal" else f"gap {result.gap:.2%}" if result.gap is not None else "-"
    used = int(result.certificate.figures["chips_used"]) if result.certificate else 0
    cells = (name, str(parts), value, f"{(result.objective or 0) / average:.3f}", gain, standing, str(used))
    return result, "| " + " | ".join((*cells, f"{spent:.1f}")) + " |\n"


def main() -> None:
    """Solve all and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    options = SolveOptions(time_limit=arguments.limit, threads=arguments.threads)
    load, rows = os.getloadavg()[0], ""
    for name, (generator, fields) in MODELS.items():
        instance = generate(generator, **fields)
        assert isinstance(instance, RingInstance)
        problem = ring_problem(instance)
        enough = -(-int(problem.ticks.max()) * problem.chips // problem.total_ticks)
        whole: Result | None = None
        for parts in sorted({1, 2, 4, 8, enough}):
            found, text = row(name, instance, parts, whole, options)
            whole = whole or found
            print(text, end="", flush=True)
            rows += text
    page = (
        "# Splitting the head of a language model\n\n"
        f"`python -m benchmarks.ring_split --limit {arguments.limit:g} --threads {arguments.threads}` on "
        f"{os.cpu_count()} cores, Python {platform.python_version()}, load {load:.1f} to {os.getloadavg()[0]:.1f}. 36 "
        "chips of 1 GiB, 512 tokens. The head is split by output features; its logits leave the network in parts. "
        "*Gain*: the unsplit instance's period over this one's; *of average*: in units of all work / chips.\n\n"
        "| network | parts | period us | of average | gain | standing | chips used | CPU s |\n"
        "|---|--:|--:|--:|--:|---|--:|--:|\n" + rows
    )
    if arguments.markdown:
        arguments.markdown.write_text(page)
    else:
        print(page)


if __name__ == "__main__":
    main()
