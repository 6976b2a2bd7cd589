"""Rounds of the cover by partitions from several first prices: none, tuned, a sibling's, predicted, and the true ones.

    python -m benchmarks.dataflow_prices [--training 12] [--held-out 8] [--rounds 80] [--out FILE]

Instances: 16 to 20 unlike kernels, some of them joined, on two chips whose SRAM holds one to three of them, with about
as much time for reading weights as for compute. There column generation needs most rounds: in graphs whose SRAM holds
many kernels the linear program over sums of partitions is the end already (see the page on wide graphs). Left out are
instances on which that program comes within 1% of the bound's end, and those without a mapping. Held-out instances
have seeds of their own.

A question is one pricing program; each gives a bound. Counted are the questions until the bound is within 1%, 0.1% and
0.001% of the best one of all ways, those of the proposal included:

- *before*: missing columns cost 1e6 units (a layer's compute is 1000), no partitions to begin with;
- *penalty 3e3*: the same with 3e3;
- *tuned*: single kernels as first partitions (what ``dataflow/auto`` does), smoothing 0.7, and 0.5 beside it;
- *sibling*: tuned, with the prices at which the same kernels with 10% more bandwidth ended, as a proposal;
- *predicted*: tuned, with the prices of a ridge regression (:mod:`chipmap.learned.prices`) trained on other instances;
- *true*: tuned, with the prices of the end itself: what a perfect prediction would give.

Proposals are scaled to feasibility by at most three questions (``PartitionBound.propose``).
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from chipmap.deadline import Deadline
from chipmap.heuristics.dataflow.cover import column_generation
from chipmap.heuristics.dataflow.cover.column_generation import PartitionBound
from chipmap.heuristics.dataflow.cover.pricing import Floats
from chipmap.heuristics.dataflow.symmetric.classes import classes
from chipmap.instances.dataflow.generators import explicit
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.problem import DataflowProblem, dataflow_problem
from chipmap.learned.prices import Described, Ridge, described, fitted
from chipmap.solvers.repeated import Repeated

#: What a proposal may ask; shares of the best bound; penalty of the regression.
QUESTIONS, SHARES, PENALTY = 3, (0.99, 0.999, 0.99999), 0.3
#: First seeds; where the linear program over sums comes so near, an instance is left out; seconds for one bound.
TRAINING, HELD_OUT, NEAR, SECONDS = 1003, 5001, 0.99, 1800.0
#: Proposes prices for a cover.
Proposal = Callable[[PartitionBound], Floats]


def made(seed: int, faster: float = 1.0) -> DataflowProblem:
    """A problem; ``faster``: times its bandwidth of DRAM."""
    random = Random(seed)
    kernels: dict[str, dict[str, Any]] = {
        f"k{i}": {
            "flop": random.randint(10**7, 10**9),
            "output_bytes": random.choice((0, 10_000, 20_000)),
            "weight_bytes": random.randint(30_000, 260_000),
            "schemes": ["M"],
        }
        for i in range(random.choice((16, 18, 20)))
    }
    joined = [i for i in range(1, len(kernels)) if random.random() < 0.3]
    edges = [[f"k{random.randrange(max(0, i - 6), i)}", f"k{i}"] for i in joined]
    sram, share = random.choice((180_000, 205_000, 240_000)), random.uniform(0.4, 1.2)

    def problem(gbps: float) -> DataflowProblem:
        small: dict[str, Any] = {"sizes": [2], "chip": "sn10", "batch": 4, "mode": "physical", "sram_bytes": sram}
        degrees = {"tensor": 2, "dimensions": ["tensor"]}
        name = f"packed-{seed}"
        instance = explicit(name=name, kernels=kernels, edges=edges, memory_gbps=gbps, degrees=degrees, **small)
        return dataflow_problem(instance, allowed_degrees(instance)[0])

    one = problem(40.0)
    compute, stream = (sum(getattr(choice[0], field) for choice in one.options) for field in ("compute", "stream"))
    return problem(40.0 * stream / compute / share * faster)


class Plain(PartitionBound):
    """Without partitions to begin with."""

    def add_single_kernels(self) -> None:
        """None."""


class Trace:
    """The bound after each question, and the cover; ``seconds`` of CPU."""

    def __init__(
        self,
        problem: DataflowProblem,
        rounds: int,
        kind: type[PartitionBound] = PartitionBound,
        missing: float = column_generation.MISSING,
        smooth: float = column_generation.SMOOTH,
        proposal: Proposal | None = None,
    ) -> None:
        begun, usual = time.process_time(), (column_generation.MISSING, column_generation.SMOOTH)
        column_generation.MISSING, column_generation.SMOOTH = missing, smooth
        try:
            self.cover = cover = kind(classes(problem), None, Repeated)
            limit = Deadline.after(SECONDS)
            cover.run(0, limit, lambda _: None)
            self.bounds = [cover.bound]
            if proposal is not None and not cover.infeasible:
                asked = cover.propose(proposal(cover), QUESTIONS, limit)
                self.bounds += [self.bounds[0]] * (asked - 1) + [cover.bound] * (asked > 0)
            heard: list[float] = []
            cover.run(rounds, limit, lambda _: heard.append(cover.bound))
            self.bounds += heard[2:]
        finally:
            column_generation.MISSING, column_generation.SMOOTH = usual
        self.seconds = time.process_time() - begun

    def questions(self, best: float) -> list[int | None]:
        """After how many questions the bound was within each of :data:`SHARES` of ``best``."""
        return [next((n + 1 for n, b in enumerate(self.bounds) if b >= share * best), None) for share in SHARES]


def instances(first: int, rounds: int) -> Iterator[tuple[int, DataflowProblem, Trace]]:
    """Seeds whose bound needs rounds, with the tuned way's."""
    for seed in range(first, first + 1000):
        problem = made(seed)
        trace = Trace(problem, rounds)
        if not trace.cover.infeasible and trace.bounds[0] < NEAR * trace.bounds[-1] < column_generation.MISSING:
            yield seed, problem, trace


def trained(count: int, rounds: int) -> Ridge:
    """The model of so many training instances."""
    examples: list[tuple[Described, Floats]] = []
    for seed, _, trace in islice(instances(TRAINING, rounds), count):
        table = described(trace.cover)
        assert table is not None
        examples.append((table, trace.cover.best.covers))
        print(f"training seed {seed}: {len(trace.bounds)} questions, {trace.seconds:.1f} CPU s", flush=True)
    model = fitted(examples, PENALTY)
    told = np.concatenate([prices / table.unit for table, prices in examples])
    said = np.concatenate([model.covers(table) / table.unit for table, _ in examples])
    spread = float(((told - told.mean()) ** 2).sum())
    print(f"fitted: R² {1 - float(((told - said) ** 2).sum()) / spread:.3f} on the training instances", flush=True)
    return model


def compared(seed: int, problem: DataflowProblem, tuned: Trace, model: Ridge, rounds: int) -> dict[str, Trace]:
    """All ways on a held-out instance."""

    def predicted(cover: PartitionBound) -> Floats:
        table = described(cover)
        assert table is not None
        return model.covers(table)

    other = Trace(made(seed, faster=1.1), rounds).cover
    true = tuned.cover.best.covers
    return {
        "before": Trace(problem, rounds, Plain, 1e6),
        "penalty 3e3": Trace(problem, rounds, Plain, 3e3),
        "tuned, smoothing 0.5": Trace(problem, rounds, smooth=0.5),
        "tuned": tuned,
        "sibling": Trace(problem, rounds, proposal=lambda cover: other.best.covers * (other.unit / cover.unit)),
        "predicted": Trace(problem, rounds, proposal=predicted),
        "true": Trace(problem, rounds, proposal=lambda _: true),
    }


def table(found: dict[str, list[tuple[Trace, float]]]) -> list[str]:
    """Means over the instances, and how often a way needed fewer or more questions to 0.1% than the tuned one."""
    lines = ["| first prices | to 1% | to 0.1% | to 0.001% | end | partitions | CPU s | fewer, more than tuned |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, traces in found.items():
        counts = [trace.questions(best) for trace, best in traces]
        cells = []
        for column in zip(*counts, strict=True):
            known = [one for one in column if one is not None]
            lost = f" ({len(column) - len(known)} never)" if len(known) < len(column) else ""
            cells.append((f"{np.mean(known):.1f}" if known else "") + lost)
        end = np.mean([trace.bounds[-1] / best for trace, best in traces])
        columns = np.mean([len(trace.cover.columns) for trace, _ in traces])
        against = [(a[1] or 10**6, b[1] or 10**6) for a, b in zip(counts, _tuned(found), strict=True)]
        fewer, more = sum(a < b for a, b in against), sum(a > b for a, b in against)
        seconds = np.mean([trace.seconds for trace, _ in traces])
        lines.append(f"| {name} | {' | '.join(cells)} | {end:.5f} | {columns:.0f} | {seconds:.2f} | {fewer}, {more} |")
    return lines


def _tuned(found: dict[str, list[tuple[Trace, float]]]) -> list[list[int | None]]:
    return [trace.questions(best) for trace, best in found["tuned"]]


def write(out: Path, given: str, found: dict[str, list[tuple[Trace, float]]]) -> None:
    """The page, of the held-out instances so far."""
    count = len(found["tuned"])
    command = f"python -m benchmarks.dataflow_prices {given} --held-out {count}"
    head = f"`{command}`: Python {platform.python_version()}, one thread of {os.cpu_count()} cores, load average at "
    head += (
        f"the end {os.getloadavg()[0]:.1f}. Means over {count} held-out instances; what is counted, the benchmark says."
    )
    out.write_text(
        "\n".join(["# First prices of the cover by partitions", "", head, "", *table(found), ""]), encoding="utf-8"
    )


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", type=int, default=12)
    parser.add_argument("--held-out", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    model = trained(arguments.training, arguments.rounds)
    found: dict[str, list[tuple[Trace, float]]] = {}
    rows = []
    for seed, problem, tuned in islice(instances(HELD_OUT, arguments.rounds), arguments.held_out):
        ways = compared(seed, problem, tuned, model, arguments.rounds)
        best = max(trace.bounds[-1] for trace in ways.values())
        for name, trace in ways.items():
            found.setdefault(name, []).append((trace, best))
        after = f"{ways['predicted'].bounds[QUESTIONS] / best:.3f}"
        counts = ", ".join(f"{name} {trace.questions(best)}" for name, trace in ways.items())
        rows.append(
            f"- seed {seed}, {problem.n} kernels, first {tuned.bounds[0] / best:.3f}, predicted {after}: {counts}"
        )
        print(rows[-1], flush=True)
        print("\n".join(table(found)), flush=True)
        if arguments.out:
            write(arguments.out, f"--training {arguments.training} --rounds {arguments.rounds}", found)


if __name__ == "__main__":
    main()
