"""Random instances of family ``ring`` in all cost modes and memory grades: is any bound above the optimum?

Each instance has up to seven operations (views, shared constants, inputs and dead ones among them), up to four chips,
and random constraints with C1 always in force (``tests/ring/random_instances.py``); pins, groups and forbidden chips
occur. Half of them are denser graphs on smaller packages instead. In grade ``full`` C2 is in force and there are no
groups, as the programs ask for. Brute force over all mappings, judged by the checker alone, gives the optimum. It is
held against

- every bound of ``ring/bounds``, of ``ring/exact`` and of ``ring/auto``, each under its own name: at most the optimum;
- what these methods call infeasible: no mapping is valid;
- the programs over ideals: free <= n1 <= optimum <= path (no mapping counts as infinite);
- ``ring/auto`` and ``ring/exact``: their objective is the optimum.

    python -m benchmarks.ring_random [--instances 3000] [--first SEED] [--markdown FILE]

Exit code 1 if anything differs; each difference is printed with its seed.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from chipmap.heuristics.engines.ideals import all_ideals
from chipmap.heuristics.ring.programs.program import Programs, Rule
from chipmap.instances.ring import Package, RingInstance
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import ring_problem
from chipmap.methods.ring.chain import auto
from chipmap.methods.ring.programs import bounds, exact
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force, count
from chipmap.validation.ring.checker import check
from tests.ring.random_instances import LABELS, random_instance

MODES = ("period", "sum", "sum_forward")
GRADES = ("boundary", "full")
#: Mappings that brute force tries at most; larger instances are drawn anew.
MOST = 1100
RULES: tuple[Rule, ...] = ("free", "n1", "path")
METHODS = {"ring/bounds": bounds, "ring/exact": exact, "ring/auto": auto}


@dataclass
class Tally:
    """What a bound did: instances with a mapping for which it was given, how often it was the optimum, its shares."""

    given: int = 0
    tight: int = 0
    shares: float = 0.0


@dataclass
class Group:
    """The instances of one cost mode and grade."""

    instances: int = 0
    feasible: int = 0
    mappings: int = 0
    strict: int = 0
    bounds: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))


def instance_of(seed: int) -> RingInstance:
    """The instance of a seed: its cost mode and grade in turn, everything else at random."""
    random = Random(seed)
    grade = GRADES[seed // len(MODES) % len(GRADES)]
    while True:
        labels = tuple(
            label
            for label in LABELS
            if label == "C1" or (label != "C3" and grade == "full") or random.random() < (0.8 if label == "C3" else 0.7)
        )
        fields: dict[str, Any] = {"constraints": labels, "cost_mode": MODES[seed % len(MODES)], "memory_grade": grade}
        if grade == "full":  # groups aren't merged there, and the programs don't take those
            fields["together"] = ()
        made = random_instance(random, operations=7, chips=4, **fields)
        if random.random() < 0.5:
            made = made.replace(**dense(random), time_ns=None, pins=(), together=(), forbidden=())
        if 8 <= count(made) <= MOST:
            return made


def dense(random: Random) -> dict[str, Any]:
    """A graph and a package where C3, links and memory all cost something: four to seven operations, many flows."""
    n, chips = random.choice(((4, 4), (5, 4), (5, 3), (6, 3), (6, 3), (7, 2)))
    edges = [(u, v) for u in range(n) for v in range(u + 1, n) if random.random() < 0.35]
    graph = OperationGraph(
        name="dense",
        operations=tuple(
            Operation(name=f"op{v}", kind="k", flop=random.randint(1, 30), weight_bytes=random.randrange(40))
            for v in range(n)
        ),
        tensors=tuple(Tensor(producer=u, readers=(v,), bytes=random.randrange(20)) for u, v in edges),
    )
    sram = random.choice((60, 100, 150, 10**6))
    link = random.choice((None, 0.5, 1.0, 2.0))
    return {
        "graph": graph,
        "package": Package(
            chips=chips, flop_per_ns=1.0, sram_bytes=sram, sram_bytes_per_ns=50.0, link_bytes_per_ns=link
        ),
    }


def differences(instance: RingInstance, group: Group) -> Iterator[str]:
    """What is wrong, in words; the group's tallies grow."""
    best, _ = brute_force(instance, check)
    group.instances += 1
    group.feasible += best is not None
    group.mappings += count(instance)
    optimum = inf if best is None else best
    found = dict(zip(RULES, _programs(instance), strict=True))
    order = [found["free"], found["n1"], optimum, found["path"]]
    group.strict += order[1] < optimum < order[3]
    if order != sorted(order):
        yield f"free, n1, optimum, path are {order}"
    for name, method in METHODS.items():
        run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
        method(instance, run)
        if run.proved_infeasible and best is not None:
            yield f"{name} calls it infeasible, the optimum is {best}"
        strongest: dict[str, int] = {}
        for bound in run.bounds:
            strongest[bound.source] = max(bound.value, strongest.get(bound.source, 0))
        for source, value in strongest.items():
            if value > optimum:
                yield f"{name}: {source} says {value}, the optimum is {best}"
            if best is not None and name == "ring/bounds":
                tally = group.bounds[source]
                tally.given += 1
                tally.tight += value == best
                tally.shares += value / best if best else 1.0
        if run.best is not None and run.best.objective < optimum:
            yield f"{name} has {run.best.objective}, the optimum is {best}"
        closed = name == "ring/auto" or (
            name == "ring/exact" and not any(note.kind == "left out" for note in run.notes)
        )
        if closed and (run.upper != best or (best is None and not run.proved_infeasible)):
            yield f"{name} ends with {run.upper}, the optimum is {best}"


def _programs(instance: RingInstance) -> Iterator[float]:
    """The values of the rules free, n1 and path; without C3 all are those of free."""
    problem = ring_problem(contract(instance).instance)
    programs = Programs(problem)
    ideals = all_ideals(programs.graph.producers)
    for rule in RULES:
        value = programs.solve(rule if problem.has("C3") else "free", ideals).value
        yield inf if value is None else value


def page(groups: dict[tuple[str, str], Group], wrong: int, first: int, load: float) -> str:
    """The tables, with how they were made."""
    total = sum(group.instances for group in groups.values())
    used = resource.getrusage(resource.RUSAGE_SELF)
    text = (
        "# Bounds of family ring against brute force\n\n"
        f"`python -m benchmarks.ring_random --instances {total} --first {first}`, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores, load {load:.1f} to {os.getloadavg()[0]:.1f}, "
        f"{used.ru_utime + used.ru_stime:,.0f} CPU seconds.\n\n"
        f"{total:,} random instances with {sum(group.mappings for group in groups.values()):,} mappings in all; "
        f"what is compared, is in the benchmark. **Differences: {wrong}.** *n1 < optimum < path*: where only the "
        "exact program tells.\n\n"
        "| cost mode | grade of C4 | instances | with a mapping | mappings | n1 < optimum < path |\n"
        "|---|---|--:|--:|--:|--:|\n"
    )
    for (mode, grade), group in groups.items():
        cells = (group.instances, group.feasible, group.mappings, group.strict)
        text += f"| {mode} | {grade} | " + " | ".join(f"{cell:,}" for cell in cells) + " |\n"
    text += "\nBounds of `ring/bounds`, over instances with a mapping: how often each was given, how often it was the "
    text += (
        "optimum, and its mean share of the optimum (a bound that `ring/bounds` needn't improve on isn't given).\n\n"
    )
    text += "| bound | " + " | ".join(MODES) + " |\n|---|" + "--:|" * len(MODES) + "\n"
    for source in sorted({source for group in groups.values() for source in group.bounds}):
        text += f"| {source} | " + " | ".join(_cell(groups, mode, source) for mode in MODES) + " |\n"
    return text


def _cell(groups: dict[tuple[str, str], Group], mode: str, source: str) -> str:
    tallies = [group.bounds[source] for (of, _), group in groups.items() if of == mode and source in group.bounds]
    given = sum(tally.given for tally in tallies)
    if not given:
        return "-"
    tight, share = sum(tally.tight for tally in tallies), sum(tally.shares for tally in tallies) / given
    return f"{given:,}; {tight:,}; {share:.1%}"


def main() -> int:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0, metavar="SEED")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    load, wrong = os.getloadavg()[0], 0
    groups = {(mode, grade): Group() for mode in MODES for grade in GRADES}
    try:
        for seed in range(arguments.first, arguments.first + arguments.instances):
            instance = instance_of(seed)
            for words in differences(instance, groups[instance.cost_mode, instance.memory_grade]):
                wrong += 1
                print(f"seed {seed} ({instance.cost_mode}, {instance.memory_grade}): {words}", flush=True)
            if seed % 100 == 99:
                print(f"{seed + 1 - arguments.first} compared", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("stopped: the page is of what was compared", file=sys.stderr)
    text = page(groups, wrong, arguments.first, load)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    else:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
