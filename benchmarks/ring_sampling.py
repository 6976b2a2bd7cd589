"""SAMPLE and FIX on BERT-large's encoder and 36 chips: valid partitions per second, beside CP-SAT solved anew.

    python -m benchmarks.ring_sampling [--samples 2000] [--cpsat 5] [--markdown FILE]

C1 to C3, uniform distribution, a random order for every sample, one core; the time includes the way back to the
original operations. Every sample goes to the checker (not timed). FIX gets uniform random candidates. CP-SAT gets the
contracted instance without objective, a random hint, a random seed and randomised search, one worker; building its
model is not timed.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from pathlib import Path

import numpy as np

from benchmarks.ring_lifting import BatchLift
from chipmap.heuristics.ring.sampling.kernel import FELL_BACK
from chipmap.heuristics.ring.sampling.propagate import SampleRule
from chipmap.heuristics.ring.sampling.sample_fix import Sampler, Samples
from chipmap.inputs.reading import read
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.instances.ring.contraction import Contraction, contract
from chipmap.instances.ring.problem import IntArray, ring_problem
from chipmap.validation.ring.checker import check

NAME = "ring/bert-large-36"
ROUNDS = 5
SECONDS = 60.0


def draw(sampler: Sampler, mode: str, count: int, first: int) -> Samples:
    """``count`` samples, or fixed random candidates."""
    if mode == "SAMPLE":
        return sampler.sample(count, seed=1, first=first)
    candidates = np.random.default_rng(first).integers(sampler.problem.chips, size=(count, sampler.problem.n))
    return sampler.fix(candidates, seed=1, first=first)


def measure(contraction: Contraction, rule: SampleRule, mode: str, samples: int) -> tuple[float, list[str]]:
    """(CPU seconds per valid partition, a row of the table)."""
    sampler, lift = Sampler(ring_problem(contraction.instance), rule), BatchLift(contraction)
    lift(draw(sampler, mode, 2, 0).chips)  # compiles
    wall, cpu, lifted, valid, fell_back = [], [], [], 0, 0
    for part in range(ROUNDS):
        started, worked = time.perf_counter(), time.process_time()
        made = draw(sampler, mode, samples // ROUNDS, part * samples)
        lifted.append(lift(made.chips[made.valid]))
        wall.append((time.perf_counter() - started) / max(1, len(lifted[-1])))
        cpu.append((time.process_time() - worked) / max(1, len(lifted[-1])))
        valid += len(lifted[-1])
        fell_back += int((made.status == FELL_BACK).sum())
    rows = np.concatenate(lifted)
    certificates = [check(contraction.original, RingSolution(chips=tuple(row))) for row in rows.tolist()]
    accepted = sum(certificate.feasible for certificate in certificates)
    used = np.array([certificate.figures["chips_used"] for certificate in certificates])
    distinct = len(np.unique(rows, axis=0))
    quantiles = ", ".join(f"{q:.0f}" for q in np.quantile(used, (0, 0.1, 0.5, 0.9, 1)))
    rate, best = 1 / statistics.median(wall), 1 / min(wall)
    return statistics.median(cpu), [
        f"{mode}, `{rule}`",
        f"{rate:,.0f} (best {best:,.0f})",
        f"{1 / statistics.median(cpu):,.0f}",
        f"{valid} of {ROUNDS * (samples // ROUNDS)}",
        f"{fell_back}",
        f"{accepted} of {valid}",
        f"{distinct / max(1, valid):.1%}",
        quantiles,
    ]


def cpsat(contraction: Contraction, count: int) -> tuple[list[float], list[IntArray]]:
    """(CPU seconds, mapping) of ``count`` solves by CP-SAT; infinite where :data:`SECONDS` did not suffice."""
    from ortools.sat.python import cp_model

    from chipmap.formulations.ring.cpsat import RingCpChoices, build

    seconds, found = [], []
    for seed in range(count):
        model = build(contraction.instance, RingCpChoices(objective="feasible"))
        random = np.random.default_rng(seed)
        for variable in model.variables.chip:
            model.native.add_hint(variable, int(random.integers(contraction.instance.package.chips)))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.randomize_search = True
        solver.parameters.max_time_in_seconds = SECONDS
        worked = time.process_time()
        status = solver.solve(model.native)
        spent = time.process_time() - worked
        solved = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        seconds.append(spent if solved else float("inf"))
        if solved:
            found.append(np.array([solver.value(variable) for variable in model.variables.chip]))
    return seconds, found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--cpsat", type=int, default=5, metavar="SOLVES")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    instance = read(NAME)
    assert isinstance(instance, RingInstance)
    contraction = contract(instance.replace(constraints=("C1", "C2", "C3")))
    head = "what|valid partitions/s, wall|per CPU second|valid|fell back on `path`|accepted by the checker|distinct"
    columns = [*head.split("|"), "chips used: min, 10%, median, 90%, max"]
    lines = ["| " + " | ".join(columns) + " |", "| --- |" + " --: |" * (len(columns) - 1)]
    cost: dict[SampleRule, float] = {}
    rules: tuple[SampleRule, ...] = ("path", "full")
    for mode in ("SAMPLE", "FIX"):
        for rule in rules:
            spent, row = measure(contraction, rule, mode, arguments.samples)
            if mode == "SAMPLE":
                cost[rule] = spent
            lines.append("| " + " | ".join(row) + " |")
    if arguments.cpsat:
        seconds, found = cpsat(contraction, arguments.cpsat)
        used = sorted(int(chips.max()) + 1 for chips in found)
        median = statistics.median(seconds)
        ratios = " and ".join(f"{median / cost[rule]:,.0f} (`{rule}`)" for rule in cost)
        lines.append(
            f"\nCP-SAT solved anew, {len(seconds)} times with a random hint: {len(found)} within {SECONDS:g} s, median "
            f"{median:.2f} CPU s a partition, chips used {used}. SAMPLE is faster by factors of {ratios}."
        )
    load = f"{os.cpu_count()} cores (one used, load {os.getloadavg()[0]:.1f} at the end)"
    load += f", Python {platform.python_version()}"
    print("\n".join(lines))
    if arguments.markdown:
        options = f"--samples {arguments.samples} --cpsat {arguments.cpsat}"
        title = "# SAMPLE and FIX: BERT-large's encoder on 36 chips, C1 to C3"
        size = f"{len(contraction.original.graph.operations)} operations, {len(contraction.groups)} contracted"
        text = (
            f"{title}\n\n`python -m benchmarks.ring_sampling {options}` on {load}. {size}.\n\n"
            + "\n".join(lines)
            + "\n"
        )
        arguments.markdown.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
