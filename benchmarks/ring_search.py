"""Samples to a throughput: the paper's search strategies over greedy (tables 2 and 3, figures 5 and 6).

    python -m benchmarks.ring_search --csv FILE [--samples 4000] [--seeds 3] [--markdown FILE] [--plot FILE]
    python -m benchmarks.ring_search --table CSV [CSV ...] [--markdown FILE] [--plot FILE]
    python -m benchmarks.ring_search --tune

Table 3 and figure 6: BERT-large's encoder, under C1 to C4 and under C1 to C3. Table 2 and figure 5: the geometric mean
over the other shipped networks, under C1 to C4. The baseline is greedy's mapping; the optimum is ``ring/auto``'s, where
proved.

The data join by their file format: a CSV with the columns ``instance``, ``constraints`` (``C1+C2+C3+C4``), ``method``,
``seed``, ``samples`` (of the whole run), ``sample`` and ``ticks``: a line per run for its first sample, for each sample
that is better than all before it, and for its last one, with the best objective so far in ticks of 10 ps (empty while
nothing valid is found). Methods ``greedy`` and ``optimum`` have one line. A run that is in the file is not made again.
A learned policy writes the same columns under a name of its own, and ``--table`` takes its file beside this one's.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import platform
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.ring_curves import best_so_far, draw_curves, geomean, improvement, sparse, threshold_table
from chipmap.heuristics.ring.greedy import greedy
from chipmap.heuristics.ring.sampling.evaluate import INVALID, Evaluator
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import Annealing, Policy, Uniform, search
from chipmap.inputs.reading import read
from chipmap.instances.ring import RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.run import SolveOptions
from chipmap.solve import solve

ALL, STATIC = "C1+C2+C3+C4", "C1+C2+C3"
BERT = "ring/bert-large-36"
OTHERS = tuple(
    f"ring/{name}"
    for name in ("resnet18-12", "unet-12", "resnet50-36", "densenet121-36", "chain-36", "random-12", "gpt2-36")
)
CASES = ((BERT, ALL), *((name, ALL) for name in OTHERS), (BERT, STATIC))
POLICIES: dict[str, Callable[[RingProblem, int, int], Policy]] = {
    "random": lambda problem, seed, samples: Uniform(),
    "annealing": lambda problem, seed, samples: Annealing(problem.n, problem.chips, seed, samples),
}
#: Seconds for the proof of an optimum.
PROOF = 120.0
COLUMNS = ("instance", "constraints", "method", "seed", "samples", "sample", "ticks")
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Key(NamedTuple):
    """One run."""

    instance: str
    constraints: str
    method: str
    seed: int


Runs = dict[Key, Integers]


def problem_of(name: str, constraints: str) -> RingProblem:
    """The contracted problem under these constraints."""
    instance = read(name)
    assert isinstance(instance, RingInstance)
    return ring_problem(contract(instance.replace(constraints=tuple(constraints.split("+")))).instance)


def load(paths: Iterable[Path]) -> Runs:
    """Best objective so far after each sample, per run."""
    points: dict[Key, list[tuple[int, int]]] = {}
    lengths: dict[Key, int] = {}
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                key = Key(row["instance"], row["constraints"], row["method"], int(row["seed"]))
                points.setdefault(key, []).append((int(row["sample"]), int(row["ticks"] or INVALID)))
                lengths[key] = int(row["samples"])
    return {key: best_so_far(found, lengths[key]) for key, found in points.items()}


def measure(path: Path, samples: int, seeds: int) -> None:
    """Make the runs that the file lacks, one after the other."""
    done = load([path]) if path.exists() else {}
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if not done:
            writer.writerow(COLUMNS)
        for seed, (name, constraints) in itertools.product(range(seeds), CASES):
            sampler = Sampler(problem_of(name, constraints))
            problem = sampler.problem
            for method in ("greedy", "optimum", *POLICIES):
                key = Key(name, constraints, method, seed)
                if key in done or (method not in POLICIES and seed):
                    continue
                if method in POLICIES:
                    policy = POLICIES[method](problem, seed, samples)
                    values = [value for _, value in search(sampler, policy, seed, samples)]
                else:
                    values = _one(method, problem)
                for sample, ticks in sparse(values):
                    writer.writerow((*key, len(values), sample, "" if ticks >= INVALID else ticks))
                file.flush()


def _one(method: str, problem: RingProblem) -> list[int]:
    """Greedy's objective, or the proved optimum; INVALID where there is none."""
    if method == "greedy":
        chips = greedy(problem)
        return [INVALID if chips is None else int(Evaluator(problem)(np.array([chips]))[0])]
    result = solve(problem.instance, "ring/auto", SolveOptions(time_limit=PROOF))
    return [result.objective if result.status == "optimal" and result.objective is not None else INVALID]


def gains(runs: Runs, cases: Iterable[tuple[str, str]]) -> dict[str, Floats]:
    """Improvement over greedy, per method the geometric mean over ``cases`` and the seeds that all of them have."""
    cases = list(cases)
    methods = list(dict.fromkeys(key.method for key in runs if key.method not in ("greedy", "optimum")))
    found = {}
    for method in methods:
        seeds = [{k.seed for k in runs if (k.instance, k.constraints, k.method) == (*case, method)} for case in cases]
        common = set.intersection(*seeds)
        curves = [
            improvement(runs[Key(*case, method, seed)], int(runs[Key(*case, "greedy", 0)][0]))
            for case in cases
            for seed in sorted(common)
        ]
        if curves:
            shortest = min(len(curve) for curve in curves)
            found[f"{method} ({len(common)} seeds)"] = geomean([curve[:shortest] for curve in curves])
    return found


def levels(means: dict[str, Floats]) -> list[float]:
    """Thresholds that tell the methods apart: shares of the best value that any of them reaches."""
    best = max(float(curve[-1]) for curve in means.values())
    return sorted({round(best * share - 0.005, 2) for share in (0.8, 0.9, 0.95, 0.98, 1.0)})


def table(title: str, runs: Runs, cases: list[tuple[str, str]]) -> list[str]:
    """Samples to thresholds, where the curves end, and what there is to gain."""
    means = gains(runs, cases)
    if not means:
        return []
    rows = threshold_table(means, levels(means), next(iter(means)))
    lines = [f"\n## {title}\n", "| " + " | ".join(rows[0]) + " |", "| --- |" + " --: |" * (len(rows[0]) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows[1:]]
    shares = (1, 10, 100, 1000)
    for name, curve in means.items():
        steps = ", ".join(f"{curve[s - 1]:.3f} after {s}" for s in (*shares, len(curve)) if s <= len(curve))
        lines.append(f"\n{name}: best of N over greedy {steps}.")
    proved = [_over_greedy(runs, case, "optimum") for case in cases]
    known = [gain for gain in proved if gain is not None]
    if len(known) == len(cases):
        lines.append(f"\nThe optimum (proved by `ring/auto`) is {geomean([np.array([g]) for g in known])[0]:.3f}.")
    return lines


def _over_greedy(runs: Runs, case: tuple[str, str], method: str) -> float | None:
    value, base = runs.get(Key(*case, method, 0)), runs[Key(*case, "greedy", 0)]
    return None if value is None or int(value[0]) >= INVALID else int(base[0]) / int(value[0])


def each(runs: Runs) -> list[str]:
    """A row per instance: the best of all samples of each method, and the optimum."""
    methods = list(dict.fromkeys(key.method for key in runs if key.method not in ("greedy", "optimum")))
    lines = ["\n## Instance by instance, best of all samples over greedy, geometric mean over seeds\n"]
    lines += ["| instance | constraints | " + " | ".join(methods) + " | optimum |"]
    lines += ["| --- | --- |" + " --: |" * (len(methods) + 1)]
    for name, constraints in dict.fromkeys((key.instance, key.constraints) for key in runs):
        case = (name, constraints)
        cells = []
        for method in methods:
            ends = [
                improvement(runs[key], int(runs[Key(*case, "greedy", 0)][0]))[-1:]
                for key in runs
                if key[:3] == (*case, method)
            ]
            cells.append(f"{geomean(ends)[0]:.3f} ({len(ends)})" if ends else "n/a")
        gain = _over_greedy(runs, case, "optimum")
        cells.append("not proved" if gain is None else f"{gain:.3f}")
        lines.append(f"| {name} | {constraints} | " + " | ".join(cells) + " |")
    return [*lines, "\nIn brackets: seeds."]


def tables(runs: Runs) -> list[str]:
    """All tables that the runs allow."""
    have = {(key.instance, key.constraints) for key in runs}
    others = [(name, ALL) for name in OTHERS if (name, ALL) in have]
    lines = [
        "\nImprovement: greedy's period / the best period so far, so throughput over greedy's; greedy is 1. Below 1, "
        "greedy is better. Cells: samples needed, and by which factor that is fewer than the first method needs. Every "
        "sample obeys the constraints named: SAMPLE propagates C1 to C4 (memory in grade `boundary`).",
    ]
    for constraints in (ALL, STATIC):
        if (BERT, constraints) in have:
            lines += table(
                f"BERT-large's encoder on 36 chips under {constraints} (as table 3)", runs, [(BERT, constraints)]
            )
    if others:
        lines += table(f"Geometric mean over {len(others)} other networks under {ALL} (as table 2)", runs, others)
    return [*lines, *each(runs)]


def draw(runs: Runs, path: Path) -> None:
    """Figures 5 and 6: best of N over greedy."""
    have = {(key.instance, key.constraints) for key in runs}
    panels = {f"BERT-large, {c}": gains(runs, [(BERT, c)]) for c in (ALL, STATIC) if (BERT, c) in have}
    others = [(name, ALL) for name in OTHERS if (name, ALL) in have]
    if others:
        panels[f"geometric mean of {len(others)} networks, {ALL}"] = gains(runs, others)
    draw_curves(panels, "samples", "throughput over greedy", path)


def tune() -> list[str]:
    """Annealing's parameters on ResNet-18 and 12 chips, 1,500 samples, seeds that the tables don't use."""
    problem = problem_of("ring/resnet18-12", ALL)
    sampler, seeds, samples = Sampler(problem), range(100, 104), 1500
    baseline = _one("greedy", problem)[0]

    def score(make: Callable[[int], Policy]) -> float:
        values = [[value for _, value in search(sampler, make(seed), seed, samples)] for seed in seeds]
        return float(geomean([improvement(run, baseline)[-1:] for run in values])[0])

    lines = ["| share | sharpness | hot | cold | improvement |", "| --: | --: | --: | --: | --: |"]
    lines.append(f"| random search |  |  |  | {score(lambda seed: Uniform()):.4f} |")
    for share, sharpness, (hot, cold) in itertools.product(
        (0.01, 0.05, 0.2), (4.0, 32.0), ((0.2, 0.01), (0.05, 0.002), (1e-6, 1e-6))
    ):
        value = score(
            lambda seed, s=share, k=sharpness, h=hot, c=cold: Annealing(  # type: ignore[misc]
                sampler.problem.n, problem.chips, seed, samples, s, k, h, c
            )
        )
        lines.append(f"| {share:g} | {sharpness:g} | {hot:g} | {cold:g} | {value:.4f} |")
    return lines


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--csv", type=Path, metavar="FILE", help="where the runs go; those that are there stay")
    parser.add_argument("--table", type=Path, metavar="CSV", nargs="+", help="measure nothing, show these files")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--tune", action="store_true")
    arguments = parser.parse_args()
    if arguments.tune:
        print("\n".join(tune()))
        return
    if not arguments.table and not arguments.csv:
        parser.error("give --csv, --table or --tune")
    if not arguments.table:
        measure(arguments.csv, arguments.samples, arguments.seeds)
    runs = load(arguments.table or [arguments.csv])
    lines = tables(runs)
    print("\n".join(lines))
    if arguments.markdown:
        options = f"--samples {arguments.samples} --seeds {arguments.seeds}"
        where = f"{os.cpu_count()} cores, Python {platform.python_version()}"
        head = f"# Samples to a throughput\n\n`python -m benchmarks.ring_search {options}` on {where}.\n"
        arguments.markdown.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    if arguments.plot:
        draw(runs, arguments.plot)


if __name__ == "__main__":
    main()
