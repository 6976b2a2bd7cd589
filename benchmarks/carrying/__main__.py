"""Whether the rule of each role can be learned, when a plan of a smaller graph is carried over (family ``placement``).

    python -m benchmarks.carrying learn FOLDER [--seeds 2]     evaluated proposals of all training pairs
    python -m benchmarks.carrying judge FOLDER [--first 0] [--seeds 3] [--seconds 2.5]
    python -m benchmarks.carrying chain FOLDER [--seeds 3]     the chain on 50,000 operations, a minute of CPU a run
    python -m benchmarks.carrying table FOLDER

One thread. Siblings are placed for so many CPU seconds of the process; everything else counts evaluations. Each
command goes on where it was stopped. Each held-out pair is judged by what pairs of the other architectures taught.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.carrying import chain, ways
from benchmarks.carrying.pairs import HELD_OUT, TRAINING, Carried, Pair, carried_over, finished, turn_of
from benchmarks.carrying.proposals import Searched
from benchmarks.placement_siblings import step_of, whole
from chipmap.deadline import Deadline
from chipmap.heuristics.placement.search.units import units
from chipmap.heuristics.placement.siblings.smaller import RULES, carried
from chipmap.heuristics.placement.starts import human
from chipmap.heuristics.placement.starts.etf import etf
from chipmap.heuristics.placement.starts.heft_units import heft_units
from chipmap.heuristics.placement.starts.partition import partition
from chipmap.instances.placement.problem import IntArray
from chipmap.methods.placement.chain_state import ChainState

#: CPU seconds of a training pair's sibling.
SHORT = 0.5
#: What greedy may evaluate that is compared with.
SHARE = 10
Line = dict[str, Any]


def learn(folder: Path, seeds: int) -> None:
    """Evaluate the proposals of the training pairs."""
    for seed in range(seeds):
        for number, pair in enumerate(TRAINING):
            path = folder / f"seen-{number}-{seed}.npz"
            if path.exists():
                continue
            found = carried_over(pair, SHORT, seed)
            if found is None:
                continue
            seen = ways.seen_at(Searched(found), number + seed * len(TRAINING), seed)
            np.savez(path, *seen, np.array(found.steps, dtype=float))
            print(pair.name, len(seen.gain), f"{(seen.gain > 1e-4).mean():.0%} gain", flush=True)


def taught(folder: Path, without: str) -> tuple[ways.Learned, str]:
    """What the other architectures teach, and the rule that is best for them alone."""
    seen, steps = list[ways.Seen](), list[Any]()
    for path in sorted(folder.glob("seen-*.npz")):
        if TRAINING[int(path.stem.split("-")[1])].architecture == without:
            continue
        with np.load(path) as file:
            *parts, step = (file[f"arr_{k}"] for k in range(4))
        seen.append(ways.Seen(*parts))
        steps.append(np.log(step / step.min()))
    all_ = ways.Seen(*(np.concatenate(one) for one in zip(*seen, strict=True)))
    return ways.learned(all_), RULES[int(np.mean(steps, axis=0).argmin())]


def others(found: Carried, seed: int) -> dict[str, list[IntArray]]:
    """A partition, HEFT by units, ETF and the human splits."""
    state = found.state
    problem = state.problem
    layers = human.layers(problem)
    first = state.initial_partitions()[0]
    return {
        "METIS": [partition(problem, units(problem), first, seed, Deadline())],
        "HEFT by units": [heft_units(problem, state.tables)],
        "ETF": [etf(problem, state.tables, Deadline())],
        "human": [human.split(problem, kind, layers) for kind in human.SPLITS],
    }


def own_loss(found: Carried, plans: list[IntArray]) -> float:
    """What plans lose when each operation takes its device from its role and step: the largest loss."""
    state = found.state
    itself = whole(state.problem, found.made)
    again = [carried(state.problem, found.made, itself, plan, "relative") for plan in plans]
    return max(step_of(state, one) / step_of(state, plan) - 1 for one, plan in zip(again, plans, strict=True))


def all_ways(known: ways.Learned, seed: int) -> dict[str, Callable[[Searched, int], None]]:
    """What is compared at a tenth of greedy's evaluations."""
    return {
        "greedy, a tenth": ways.by_work,
        "random order": ways.at_random(seed),
        "random choice": ways.random_choice(seed),
        "less sent": ways.ordered(ways.less_sent),
        "less sent, together": ways.together(ways.less_sent),
        "table": ways.ordered(known.table),
        "trees": ways.ordered(known.trees),
        "trees of the chance": ways.ordered(known.chance),
        "trees, again": ways.again(known.trees),
        "trees, together": ways.together(known.trees),
        "oracle": ways.by_oracle,
    }


def judged(pair: Pair, known: ways.Learned, rule: str, seconds: float, seed: int) -> Line:
    """The line of a pair and a seed: step times in ns, evaluations and CPU seconds by way."""
    found = carried_over(pair, seconds, seed)
    assert found is not None
    line: Line = {"pair": pair.name, "seed": seed, "operations": found.state.problem.operations}
    plans = others(found, seed)
    line["sibling"] = found.sibling.problem.operations
    line["own"] = own_loss(found, [found.best[2], *plans["METIS"], *plans["HEFT by units"]])
    line["others"] = {name: min(step_of(found.state, plan) for plan in some) for name, some in plans.items()}
    begun = time.process_time()
    greedy = ways.searched_by(found, ways.by_work, 10**9)
    limit = max(1, math.ceil(greedy.evaluations / SHARE))
    line["ways"] = {"greedy": [finished(found, greedy.best), greedy.evaluations, time.process_time() - begun]}
    usual = ChainState(found.state.problem)
    usual.evaluate_and_keep(found.plans[RULES.index(rule)])
    assert usual.best is not None
    line["ways"] |= {"best rule": [finished(found, found.best), 0, 0.0], "usual rule": [int(usual.best[1]), 0, 0.0]}
    for name, way in all_ways(known, seed).items():
        begun = time.process_time()
        searched = ways.searched_by(found, way, limit)
        spent = time.process_time() - begun
        line["ways"][name] = [finished(found, searched.best), searched.evaluations, spent]
    return line


def judge(folder: Path, seeds: range, seconds: float) -> None:
    """Judge the held-out pairs."""
    path = folder / "judged.jsonl"
    done = {(one["pair"], one["seed"]) for one in lines_of(path)}
    turn_of(HELD_OUT[0].instance(), 1.0, 0)
    known = dict[str, tuple[ways.Learned, str]]()
    for seed in seeds:
        for pair in HELD_OUT:
            if (pair.name, seed) in done:
                continue
            if pair.architecture not in known:
                known[pair.architecture] = taught(folder, pair.architecture)
            line = judged(pair, *known[pair.architecture], seconds, seed)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(pair.name, seed, {name: one[0] for name, one in line["ways"].items()}, flush=True)


def lines_of(path: Path) -> list[Line]:
    """What was judged so far."""
    return [json.loads(one) for one in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def table(folder: Path) -> str:
    """The tables in Markdown."""
    lines = lines_of(folder / "judged.jsonl")
    pairs = [pair.name for pair in HELD_OUT if any(one["pair"] == pair.name for one in lines)]
    names = list(lines[-1]["ways"])
    head = ["pair", "operations", "sibling", "seeds", "evaluations", "own", *names]
    text = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    means = dict[str, list[float]]()
    for pair in pairs:
        some = [one for one in lines if one["pair"] == pair]
        greedy = [one["ways"]["greedy"][0] for one in some]
        cells = [pair, str(some[0]["operations"]), str(some[0]["sibling"]), str(len(some))]
        cells += [
            f"{np.mean([one['ways']['greedy'][1] for one in some]):.0f}",
            f"{max(one['own'] for one in some):.1%}",
        ]
        for name in names:
            ratios = [one["ways"][name][0] / by for one, by in zip(some, greedy, strict=True) if name in one["ways"]]
            if ratios:
                means.setdefault(name, []).append(float(np.mean(np.log(ratios))))
            cells.append(f"{np.exp(np.mean(np.log(ratios))):.3f}" if ratios else "")
        text.append(f"| {' | '.join(cells)} |")
    last = ["**geometric mean**", "", "", "", "", "", *(f"{np.exp(np.mean(means[name])):.3f}" for name in names)]
    text.append(f"| {' | '.join(last)} |")
    good = [f"{sum(one <= 1e-3 for one in means[name])} of {len(means[name])}" for name in names]
    text.append(f"| as good as greedy | | | | | | {' | '.join(good)} |")
    paired = [
        np.log([one["ways"][name][0] / one["ways"]["greedy, a tenth"][0] for one in lines if name in one["ways"]])
        for name in names
    ]
    row = (f"{one.mean():+.1%} ± {one.std(ddof=1) / len(one) ** 0.5:.1%}" for one in paired)
    text.append(f"| beside *greedy, a tenth*, standard error | | | | | | {' | '.join(row)} |")
    spent = [f"{np.mean([one['ways'][name][2] for one in lines if name in one['ways']]):.2f}" for name in names]
    text.append(f"| CPU s | | | | | | {' | '.join(spent)} |")
    return "\n".join(text) + "\n\n" + _others(lines, pairs)


def _others(lines: list[Line], pairs: list[str]) -> str:
    """Step times of methods that carry nothing over, beside greedy's."""
    names = list(lines[0]["others"])
    text = [f"| pair | greedy, ms | {' | '.join(names)} |", f"|---|{'--:|' * (len(names) + 1)}"]
    for pair in pairs:
        some = [one for one in lines if one["pair"] == pair]
        mean = [np.exp(np.mean(np.log([one["ways"]["greedy"][0] for one in some])))]
        mean += [np.exp(np.mean(np.log([one["others"][name] for one in some]))) for name in names]
        text.append(f"| {pair} | {mean[0] / 1e6:.2f} | {' | '.join(f'{one / mean[0]:.3f}' for one in mean[1:])} |")
    return "\n".join(text)


def main() -> None:
    """Learn, judge or tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("learn", "judge", "chain", "table"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=2.5)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.what == "learn":
        learn(asked.folder, asked.seeds)
    elif asked.what == "judge":
        judge(asked.folder, range(asked.first, asked.seeds), asked.seconds)
    elif asked.what == "chain":
        chain.runs(asked.folder, taught(asked.folder, chain.NETWORK)[0], asked.seeds)
    else:
        print(f"load {os.getloadavg()[0]:.1f}\n\n{table(asked.folder)}")
        if (asked.folder / "chain.jsonl").exists():
            print(f"\n{chain.table(asked.folder)}")


if __name__ == "__main__":
    main()
