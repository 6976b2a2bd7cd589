"""C5 on BERT-large: the optimum under H = liveness, and rejection sampling for as long.

    python -m benchmarks.ring_oracle [--sram MIB,MIB,…] [--seconds S] [--markdown FILE]

At each SRAM the optimum without H is put to H; then ``ring/auto`` runs with H; then rejection sampling gets the same
time (at least S seconds): exact slicings of random topological orders, of which the checker with H keeps the best.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import time
from pathlib import Path
from typing import Any

import chipmap
from chipmap.heuristics.engines.ideals import bits, prefixes
from chipmap.heuristics.ring.programs.flow_graph import FlowGraph
from chipmap.heuristics.ring.programs.program import Programs
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import ring_problem
from chipmap.validation.ring.oracles import liveness

NAME = "ring/bert-large-36"
MIB = 2**20


def random_order(graph: FlowGraph, chooser: random.Random) -> list[int]:
    """A random topological order: any ready operation comes next."""
    missing = [graph.producers[v].bit_count() for v in range(graph.n)]
    ready = [v for v in range(graph.n) if not missing[v]]
    order = []
    while ready:
        v = ready.pop(chooser.randrange(len(ready)))
        order.append(v)
        for w in bits(graph.readers[v]):
            missing[w] -= 1
            if not missing[w]:
                ready.append(w)
    return order


def sampled(instance: RingInstance, seconds: float) -> dict[str, Any]:
    """Rejection sampling for ``seconds``: samples, how many H accepts, the best of these."""
    contraction = contract(instance)
    programs = Programs(ring_problem(contraction.instance))
    chooser, began = random.Random(0), time.monotonic()
    samples = valid = accepted = 0
    best: int | None = None
    while time.monotonic() - began < seconds:
        order = random_order(programs.graph, chooser)
        result = programs.solve("path", prefixes([order], programs.graph.n))
        samples += 1
        if result.chips is None:
            continue
        valid += 1
        certificate = chipmap.check(instance, contraction.lift(RingSolution(chips=result.chips)), oracle=liveness)
        if certificate.feasible and certificate.objective is not None:
            accepted += 1
            best = certificate.objective if best is None else min(best, certificate.objective)
    return {"samples": samples, "valid": valid, "accepted": accepted, "best": best}


def microseconds(ticks: int | None) -> str:
    """Ticks of 10 ps in us."""
    return "none" if ticks is None else f"{ticks / 1e5:,.2f}"


def line(base: RingInstance, mib: float, least: float) -> str:
    """One row of the table."""
    instance = base.replace(package=base.package.replace(sram_bytes=int(mib * MIB)))
    free = chipmap.solve(instance, options=chipmap.SolveOptions(time_limit=120))
    verdict = "no mapping"
    if free.solution is not None:
        certificate = chipmap.check(instance, RingSolution.make(**free.solution), oracle=liveness)
        verdict = "accepted" if certificate.feasible else f"rejected ({len(certificate.violations)} chips)"
    result = chipmap.solve(instance, options=chipmap.SolveOptions(time_limit=120), oracle=liveness)
    told = result.provenance["oracle"]
    seconds = max(least, result.seconds)
    sample = sampled(instance, seconds)
    cells = (
        f"{mib:g}",
        microseconds(free.objective),
        verdict,
        result.status,
        microseconds(result.objective),
        microseconds(result.bound),
        f"{result.seconds:.1f}",
        f"{told['rejected']} of {told['asked']}",
        f"{told['blocks_rejected']:,} of {told['blocks_asked']:,}",
        f"{seconds:.1f}",
        str(sample["samples"]),
        str(sample["valid"]),
        str(sample["accepted"]),
        microseconds(sample["best"]),
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sram", default="66,65,64,63,62", metavar="MIB,MIB,…")
    parser.add_argument("--seconds", type=float, default=5.0, help="least time for sampling")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    base = chipmap.read(NAME)
    assert isinstance(base, RingInstance)
    chipmap.solve(base, oracle=liveness)  # compiled code is ready
    lines = [
        "| SRAM, MiB | optimum without H, us | H says | with H | period, us | bound, us | s | mappings rejected | "
        "blocks rejected | sampling, s | samples | within C1 to C4 | accepted by H | best, us |",
        "|" + " --: | --: | --- | --- |" + " --: |" * 10,
    ]
    for text in arguments.sram.split(","):
        lines.append(line(base, float(text), arguments.seconds))
        print(lines[-1], flush=True)
    if arguments.markdown:
        head = (
            f"`python -m benchmarks.ring_oracle` on {os.cpu_count()} cores, Python {platform.python_version()}: "
            f"`{NAME}` (C1 to C4, grade boundary), H = `{liveness.__class__.__module__}:liveness` {liveness.VERSION}. "
            "Sampling: exact slicings of random topological orders under the path rule, for as long as `ring/auto` "
            "took with H, and at least the time shown.\n\n"
        )
        text = "# C5 on BERT-large: optimum under H, and rejection sampling\n\n" + head + "\n".join(lines) + "\n"
        arguments.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
