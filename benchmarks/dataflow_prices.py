"""Rounds of the cover by partitions from first prices and partitions: tuned, a sibling's, predicted, true.

    python -m benchmarks.dataflow_prices [--training 12] [--held-out 10] [--rounds 80] [--schemes] [--out FILE]
        [--noise SHARE ...]

Instances: 16 to 20 unlike kernels, some of them joined, on two chips whose SRAM holds one to four of them, with about
as much time for reading weights as for compute. There column generation needs most rounds: in graphs whose SRAM holds
many kernels the linear program over sums of partitions is the end already (see the page on wide graphs). With
``--schemes`` 10 to 14 matrix products, each of which may be sharded in several ways. Left out are instances on which
single kernels as first partitions need fewer than 20 questions, or the linear program over sums comes within 1% of the
bound's end, and those without a mapping. Held-out instances have seeds of their own.

A question is one pricing program; each gives a bound. Counted are the questions until the bound is within 1%, 0.1% and
0.001% of the best one of all ways, those of a proposal included. Without a beam search:

- *before*: missing columns cost 1e6 units (a layer's compute is 1000), no partitions to begin with;
- *penalty 3e3*: the same with 3e3;
- *single kernels*: these as first partitions, smoothing 0.7, and 0.5 beside it; all further ways begin so, too;
- *sibling's prices*: those at which the same kernels with 10% more bandwidth ended, as a proposal scaled to
  feasibility by at most three questions (``PartitionBound.propose``);
- *sibling's partitions*: all that its cover had, with the times that they take here;
- *predicted prices*: a proposal of a ridge regression (:mod:`chipmap.learned.prices`) trained on other instances;
  *halfway*: not scaled, but halfway to the first prices up to three times; *centre*: as the centre of smoothing
  instead of the best prices, until it is the better one;
- *true prices*: those of the end itself, as a proposal: what a perfect prediction would give;
- *grown at ... prices*: the n or 3n partitions that a beam search finds cheapest at first prices (those of the linear
  program over sums), predicted or true ones. No question is asked for them.

With *beam* the search is also made at the cover's own prices, until it finds nothing cheaper, before each question:
what ``dataflow/auto`` does.

``--noise``: true prices times exp(share · normal), as a proposal and for growing: how exact a prediction has to be.
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
from chipmap.heuristics.dataflow.cover.compact import first_prices
from chipmap.heuristics.dataflow.cover.grown import Growing, quickest
from chipmap.heuristics.dataflow.cover.pricing import Floats, Prices, partitions_of
from chipmap.heuristics.dataflow.symmetric.classes import classes
from chipmap.instances.dataflow.generators import explicit
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.problem import DataflowProblem, dataflow_problem
from chipmap.learned.prices import Described, Ridge, described, fitted
from chipmap.solvers.repeated import Repeated

#: What a proposal may ask; shares of the best bound; penalty of the regression; fewest questions of an instance.
QUESTIONS, SHARES, PENALTY, LEAST = 3, (0.99, 0.999, 0.99999), 0.3, 20
#: The way that others are compared with.
TUNED = "single kernels"
#: First seeds; where the linear program over sums comes so near, an instance is left out; seconds for one bound.
TRAINING, HELD_OUT, NEAR, SECONDS = 1003, 5001, 0.99, 1800.0
#: Prices for a cover that has answered its first question.
Priced = Callable[[PartitionBound], Floats]
#: What is done then, within a deadline; returns the bounds of the questions that it asked.
Begin = Callable[[PartitionBound, Deadline], list[float]]


def made(seed: int, faster: float = 1.0, schemes: bool = False) -> DataflowProblem:
    """A problem; ``faster``: times its bandwidth of DRAM; ``schemes``: with several for each kernel."""
    return products(seed, faster) if schemes else packed(seed, faster)


def products(seed: int, faster: float) -> DataflowProblem:
    """Matrix products with all schemes."""
    random = Random(seed)
    kernels: dict[str, dict[str, Any]] = {}
    for i in range(random.choice((10, 12, 14))):
        sizes = {
            "M": random.randrange(96, 513, 8),
            "K": random.randrange(96, 513, 8),
            "N": random.randrange(64, 257, 8),
        }
        kernels[f"k{i}"] = {"kind": "gemm", **sizes, "weights": True}
    joined = [i for i in range(1, len(kernels)) if random.random() < 0.5]
    edges = [[f"k{random.randrange(max(0, i - 6), i)}", f"k{i}"] for i in joined]
    chip = {"sizes": [2], "chip": "sn10", "batch": 4, "mode": "physical", "link_gbps": random.choice((5.0, 25.0))}
    chip |= {"sram_bytes": random.choice((300_000, 400_000, 500_000)), "memory_gbps": faster * random.uniform(100, 250)}
    degrees = {"tensor": 2, "dimensions": ["tensor"]}
    instance = explicit(name=f"products-{seed}", kernels=kernels, edges=edges, degrees=degrees, **chip)
    return dataflow_problem(instance, allowed_degrees(instance)[0])


def packed(seed: int, faster: float) -> DataflowProblem:
    """Kernels of one scheme, one to four of which fit the SRAM."""
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
        begin: Begin = lambda cover, limit: [],
        *,
        kind: type[PartitionBound] = PartitionBound,
        missing: float = column_generation.MISSING,
        smooth: float = column_generation.SMOOTH,
        beam: bool = False,
    ) -> None:
        begun, usual = time.process_time(), (column_generation.MISSING, column_generation.SMOOTH)
        column_generation.MISSING, column_generation.SMOOTH = missing, smooth
        try:
            self.cover = cover = kind(classes(problem), None, Repeated)
            if not beam:
                cover.growing = None
            limit = Deadline.after(SECONDS)
            cover.run(0, limit, lambda _: None)
            self.bounds = [cover.bound]
            if not cover.infeasible:
                self.bounds += begin(cover, limit)
            heard: list[float] = []
            if not cover.done:
                cover.run(rounds, limit, lambda _: heard.append(cover.bound))
            self.bounds += heard[2:]
        finally:
            column_generation.MISSING, column_generation.SMOOTH = usual
        self.seconds = time.process_time() - begun

    def questions(self, best: float) -> list[int | None]:
        """After how many questions the bound was within each of :data:`SHARES` of ``best``."""
        return [next((n + 1 for n, b in enumerate(self.bounds) if b >= share * best), None) for share in SHARES]


def flat(cover: PartitionBound, covers: Floats) -> Prices:
    """Prices of kernels alone."""
    return Prices(covers, dict.fromkeys(cover.matches, 0.0), dict.fromkeys(cover.phases, 0.0))


def scaled(priced: Priced) -> Begin:
    """A proposal scaled to feasibility."""

    def begin(cover: PartitionBound, limit: Deadline) -> list[float]:
        first = cover.bound
        asked = cover.propose(priced(cover), QUESTIONS, limit)
        return [first] * (asked - 1) + [cover.bound] * (asked > 0)

    return begin


def halfway(priced: Priced) -> Begin:
    """A proposal that goes halfway to the best prices until its bound is better than theirs."""

    def begin(cover: PartitionBound, limit: Deadline) -> list[float]:
        bounds, prices = list[float](), flat(cover, priced(cover))
        while len(bounds) < QUESTIONS and (not bounds or cover.best is not prices):
            prices = column_generation._between(cover.best, prices, 0.5) if bounds else prices
            cover._ask(prices, prices, limit)
            bounds.append(cover.bound)
        return bounds

    return begin


def centred(priced: Priced, rounds: int) -> Begin:
    """Smoothing round a proposal, until prices next to it are the best ones or no partition is cheaper than the
    cover's."""

    def begin(cover: PartitionBound, limit: Deadline) -> list[float]:
        bounds, centre = list[float](), flat(cover, priced(cover))
        while len(bounds) < rounds:
            _, prices = cover.master()
            asked = column_generation._between(centre, prices, column_generation.SMOOTH)
            added = cover._ask(asked, prices, limit)
            bounds.append(cover.bound)
            if not added or cover.best is asked:
                break
        return bounds

    return begin


def grown(priced: Priced, times: int) -> Begin:
    """So many times n partitions that are cheap at these prices."""

    def begin(cover: PartitionBound, limit: Deadline) -> list[float]:
        count = times * len(cover.sizes)
        cover.add(Growing(cover.classes, cover.unit).best(flat(cover, priced(cover)), count, limit))
        return []

    return begin


def taken(other: PartitionBound) -> Begin:
    """The partitions of another cover of the same kernels."""

    def begin(cover: PartitionBound, limit: Deadline) -> list[float]:
        of, n = cover.classes.of(), cover.classes.problem.n
        for _, part in other.columns:
            inside, chosen, number = dict(part.kernels), quickest(cover.classes), list[int]()
            for v in range(n):
                option = next((o for c, o in inside if c == of[v]), None)
                number.append(v + 1 if option is None else 0)
                chosen[v] = chosen[v] if option is None else option
            numbers = {p: i for i, p in enumerate(sorted(set(number)))}
            cover.add(partitions_of(cover.classes, cover.unit, [numbers[p] for p in number], chosen)[:1])
        return []

    return begin


def first(cover: PartitionBound) -> Floats:
    """The prices of the linear program over sums of partitions."""
    found = first_prices(cover.pricing, cover.sizes, cover.matches, cover.most)
    assert found is not None
    return found.covers


def instances(start: int, rounds: int, schemes: bool) -> Iterator[tuple[int, DataflowProblem, Trace]]:
    """Seeds whose bound needs rounds, with the trace of :data:`TUNED`."""
    for seed in range(start, start + 1000):
        problem = made(seed, schemes=schemes)
        if len(classes(problem).kernels) < problem.n:
            continue
        trace = Trace(problem, rounds)
        begun, end = trace.bounds[0], trace.bounds[-1]
        wanted = begun < NEAR * end < column_generation.MISSING and len(trace.bounds) >= LEAST
        if wanted and not trace.cover.infeasible:
            yield seed, problem, trace


def trained(count: int, rounds: int, schemes: bool) -> tuple[Ridge, str]:
    """The model of so many training instances, and how well it fits them."""
    examples: list[tuple[Described, Floats]] = []
    for seed, _, trace in islice(instances(TRAINING, rounds, schemes), count):
        table = described(trace.cover)
        assert table is not None
        examples.append((table, trace.cover.best.covers))
        print(f"training seed {seed}: {len(trace.bounds)} questions, {trace.seconds:.1f} CPU s", flush=True)
    model = fitted(examples, PENALTY)
    told = np.concatenate([prices / table.unit for table, prices in examples])
    said = np.concatenate([model.covers(table) / table.unit for table, _ in examples])
    spread = float(((told - told.mean()) ** 2).sum())
    words = f"R² {1 - float(((told - said) ** 2).sum()) / spread:.3f} on the {count} training instances"
    print(words, flush=True)
    return model, words


def compared(seed: int, problem: DataflowProblem, tuned: Trace, model: Ridge, given: Arguments) -> dict[str, Trace]:
    """All ways on a held-out instance."""
    rounds, normal = given.rounds, np.random.default_rng(seed)

    def predicted(cover: PartitionBound) -> Floats:
        table = described(cover)
        assert table is not None
        return model.covers(table)

    def ends(cover: PartitionBound) -> Floats:
        return tuned.cover.best.covers

    def noisy(share: float) -> Priced:
        wrong = ends(tuned.cover) * np.exp(share * normal.standard_normal(problem.n))
        return lambda cover: wrong

    def trace(begin: Begin, beam: bool = False) -> Trace:
        return Trace(problem, rounds, begin, beam=beam)

    other = Trace(made(seed, faster=1.1, schemes=given.schemes), rounds).cover
    ways = {
        "before": Trace(problem, rounds, kind=Plain, missing=1e6),
        "penalty 3e3": Trace(problem, rounds, kind=Plain, missing=3e3),
        "single kernels, smoothing 0.5": Trace(problem, rounds, smooth=0.5),
        TUNED: tuned,
        "sibling's prices": trace(scaled(lambda cover: other.best.covers * (other.unit / cover.unit))),
        "sibling's partitions": trace(taken(other)),
        "predicted prices": trace(scaled(predicted)),
        "predicted prices, halfway": trace(halfway(predicted)),
        "predicted prices, centre": trace(centred(predicted, rounds)),
        "true prices": trace(scaled(ends)),
    }
    for times in (1, 3):
        by_name: dict[str, Priced] = {"first": first, "predicted": predicted, "true": ends}
        for name, priced in by_name.items():
            ways[f"grown at {name} prices, {times}n"] = trace(grown(priced, times))
    ways["beam"] = Trace(problem, rounds, beam=True)
    ways["beam, predicted prices"] = trace(scaled(predicted), True)
    ways["beam, grown at predicted prices, 3n"] = trace(grown(predicted, 3), True)
    ways["beam, true prices"] = trace(scaled(ends), True)
    for share in given.noise:
        priced = noisy(share)
        ways[f"true prices, noise {share:.1%}"] = trace(scaled(priced))
        ways[f"grown at true prices, 3n, noise {share:.1%}"] = trace(grown(priced, 3))
    return ways


def table(found: dict[str, list[tuple[Trace, float]]]) -> list[str]:
    """Means over the instances, and against :data:`TUNED`: the ratio of the mean questions to 0.1%, and how often fewer
    or more."""
    lines = ["| way | to 1% | to 0.1% | to 0.001% | against tuned | fewer, more | end | partitions | CPU s |"]
    lines.append("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    tuned = [trace.questions(best)[1] or 10**6 for trace, best in found[TUNED]]
    for name, traces in found.items():
        counts = [trace.questions(best) for trace, best in traces]
        cells = []
        for column in zip(*counts, strict=True):
            known = [one for one in column if one is not None]
            lost = f" ({len(column) - len(known)} never)" if len(known) < len(column) else ""
            cells.append((f"{np.mean(known):.1f}" if known else "") + lost)
        end = np.mean([trace.bounds[-1] / best for trace, best in traces])
        columns = np.mean([len(trace.cover.columns) for trace, _ in traces])
        own = [one[1] or 10**6 for one in counts]
        fewer, more = (
            sum(a < b for a, b in zip(own, tuned, strict=True)),
            sum(a > b for a, b in zip(own, tuned, strict=True)),
        )
        ratio = f"{np.mean(own) / np.mean(tuned) - 1:+.0%}" if max(*own, *tuned) < 10**6 else ""
        cells += [ratio, f"{fewer}, {more}", f"{end:.5f}", f"{columns:.0f}"]
        seconds = np.mean([trace.seconds for trace, _ in traces])
        lines.append(f"| {name} | {' | '.join(cells)} | {seconds:.2f} |")
    return lines


class Arguments(argparse.Namespace):
    """The command line."""

    training: int
    held_out: int
    rounds: int
    schemes: bool
    noise: list[float]
    out: Path | None


def write(given: Arguments, words: str, found: dict[str, list[tuple[Trace, float]]]) -> None:
    """The page, of the held-out instances so far."""
    if given.out is None:
        return
    count = len(found[TUNED])
    command = f"python -m benchmarks.dataflow_prices --training {given.training} --held-out {count}"
    command += f" --rounds {given.rounds}" + " --schemes" * given.schemes
    command += f" --noise {' '.join(f'{share:g}' for share in given.noise)}" if given.noise else ""
    head = f"`{command}`: Python {platform.python_version()}, one thread of {os.cpu_count()} cores, load average at "
    head += f"the end {os.getloadavg()[0]:.1f}. Means over {count} held-out instances; what is counted, the benchmark "
    head += f"says. The regression: {words}."
    title = "# First prices of the cover by partitions"
    given.out.write_text("\n".join([title, "", head, "", *table(found), ""]), encoding="utf-8")


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--training", type=int, default=12)
    parser.add_argument("--held-out", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--schemes", action="store_true", help="matrix products of several schemes")
    parser.add_argument("--noise", type=float, nargs="+", default=[], metavar="SHARE", help="wrong true prices")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(namespace=Arguments())
    model, words = trained(given.training, given.rounds, given.schemes)
    found: dict[str, list[tuple[Trace, float]]] = {}
    for seed, problem, tuned in islice(instances(HELD_OUT, given.rounds, given.schemes), given.held_out):
        ways = compared(seed, problem, tuned, model, given)
        best = max(trace.bounds[-1] for trace in ways.values())
        for name, trace in ways.items():
            found.setdefault(name, []).append((trace, best))
        counts = ", ".join(f"{name} {trace.questions(best)}" for name, trace in ways.items())
        print(f"- seed {seed}, {problem.n} kernels, first {tuned.bounds[0] / best:.3f}: {counts}", flush=True)
        print("\n".join(table(found)), flush=True)
        write(given, words, found)


if __name__ == "__main__":
    main()
