"""The chain on a graph of 50,000 operations, with each choice of rules by role: when it is as good as in the end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.carrying import ways
from benchmarks.carrying.pairs import Carried
from benchmarks.carrying.proposals import Searched
from benchmarks.placement_siblings import instance_of, ran
from chipmap.heuristics.placement.siblings.roles import Roles
from chipmap.instances.placement.problem import IntArray
from chipmap.methods.chain import Turn
from chipmap.methods.placement import siblings as link
from chipmap.methods.placement.chain_state import ChainState, Placed

#: The network, and how often its smallest graph is repeated: 53,225 operations of GNMT.
NETWORK, FACTOR, LIMIT = "gnmt", 22, 60.0
Choice = Callable[[ChainState, Turn, Roles, list[IntArray], Placed], None]
GREEDY = link.by_roles


def within_a_tenth(way: Callable[[Searched, int], None]) -> Choice:
    """The choice by a way, within a tenth of the evaluations that greedy may make in the chain."""

    def choice(state: ChainState, _turn: Turn, made: Roles, plans: list[IntArray], best: Placed) -> None:
        sibling = link.siblings_of(state.problem, made)[-1]
        steps = [state.placed(plan, state.key, state.work) for plan in plans]
        found = Carried(state, made, sibling, plans, [int(one[1]) if one else 2**62 for one in steps], best)
        searched = Searched(found)
        limit = min(len(searched.proposals), link.CHOSEN // state.problem.operations)
        way(searched, max(1, limit // 10))
        state.evaluate_and_keep(searched.best[2], searched.best[3])
        state.evaluate_and_keep(searched.best[2])

    return choice


def runs(folder: Path, known: ways.Learned, seeds: int) -> None:
    """Run the chain with each choice; a line per run, and what is there already isn't run again."""
    path = folder / "chain.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    done = {(one["choice"], one["seed"]) for one in map(json.loads, text.splitlines())}
    choices = {
        "greedy": GREEDY,
        "greedy, a tenth": within_a_tenth(ways.by_work),
        "trees of the chance": within_a_tenth(ways.ordered(known.chance)),
    }
    instance = instance_of(NETWORK, FACTOR)
    for seed in range(seeds):
        for name, choice in choices.items():
            if (name, seed) in done:
                continue
            spent = list[float]()
            link.by_roles = _timed(choice, spent)  # type: ignore[assignment]
            found = ran(instance, True, seed, LIMIT)
            line = {"choice": name, "seed": seed, "found": found.found, "seconds": sum(spent)}
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(name, seed, found.found[-1], f"{sum(spent):.1f} s of choosing", flush=True)
    link.by_roles = GREEDY


def _timed(choice: Choice, spent: list[float]) -> Choice:
    def timed(state: ChainState, turn: Turn, made: Roles, plans: list[IntArray], best: Placed) -> None:
        begun = time.process_time()
        try:
            choice(state, turn, made, plans, best)
        finally:
            spent.append(time.process_time() - begun)

    return timed


def table(folder: Path) -> str:
    """A row per choice and seed, in Markdown."""
    lines = [json.loads(one) for one in (folder / "chain.jsonl").read_text(encoding="utf-8").splitlines()]
    text = [
        "| choice | seed | CPU s of choosing | step in the end, ms | CPU s to greedy's end |",
        "|---|--:|--:|--:|--:|",
    ]
    for one in lines:
        ends = [other["found"][-1][1] for other in lines if (other["choice"], other["seed"]) == ("greedy", one["seed"])]
        there = next((f"{seconds:.1f}" for seconds, step in one["found"] if ends and step <= ends[0]), "no")
        end = one["found"][-1][1] / 1e6
        text.append(f"| {one['choice']} | {one['seed']} | {one['seconds']:.1f} | {end:.2f} | {there} |")
    return "\n".join(text)
