"""A pair of instances one unit apart, and what of a result is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

Labels = frozenset[str]


@dataclass(frozen=True)
class Pair:
    """``tight`` has no solution, ``near`` has one; ``what``: the resource in which they are one unit apart.

    ``contradict``: whether labels can't hold together in ``tight``, beside the domain (C0). ``labels`` are those in
    force, without those that all candidates keep.
    """

    what: str
    tight: Any
    near: Any
    labels: Labels
    contradict: Callable[[Labels], bool]

    def takes_part(self, label: str) -> bool:
        """Whether the label is in a set that contradicts itself, and that doesn't without it."""
        others = sorted(self.labels - {label})
        for count in range(len(others) + 1):
            for some in combinations(others, count):
                if not self.contradict(frozenset(some)) and self.contradict(frozenset(some) | {label}):
                    return True
        return False


def by_candidates(broken: Iterable[Labels]) -> Callable[[Labels], bool]:
    """Labels contradict each other where each candidate breaks one of them; ``broken``: what each one breaks."""
    least = set(broken)
    return lambda labels: all(one & labels for one in least)


@dataclass
class Tally:
    """What a method said of the pairs of one family."""

    proved: int = 0
    open: int = 0
    named: int = 0
    irreducible: int = 0
    member: int = 0
    unnamed: int = 0
    solved: int = 0
    left_open: int = 0
    refused: int = 0
    seconds: float = 0.0


def judge_tight(pair: Pair, result: Any, tally: Tally) -> list[str]:
    """What is wrong with a result for an instance without a solution."""
    wrong = []
    if result.status not in ("infeasible", "unknown"):
        wrong.append(f"{result.status}: {result.failure or result.termination}")
    if result.status != "infeasible":
        tally.open += 1
        return wrong
    tally.proved += 1
    if result.bound is not None or result.objective is not None:
        wrong.append(f"infeasible with bound {result.bound} and objective {result.objective}")
    if not result.infeasibility:
        tally.unnamed += 1
    for reason in result.infeasibility:
        labels = frozenset(reason.labels)
        if labels:
            tally.named += 1
            if reason.label not in labels:
                wrong.append(f"{reason.label} is none of {sorted(labels)}")
            if not pair.contradict(labels):
                wrong.append(f"{sorted(labels)} don't contradict each other: {reason.message}")
            tally.irreducible += not any(pair.contradict(labels - {one}) for one in labels & pair.labels)
        elif pair.takes_part(reason.label) or (reason.label == "C0" and pair.contradict(frozenset())):
            tally.member += 1
        else:
            wrong.append(f"{reason.label} takes no part: {reason.message}")
    return wrong


def judge_near(result: Any, complete: bool, tally: Tally) -> list[str]:
    """What is wrong with a result for an instance with a solution; a ``complete`` method finds and proves the best."""
    if result.status in ("infeasible", "error"):
        return [f"one unit more is {result.status}: {[reason.message for reason in result.infeasibility]}"]
    tally.solved += result.status == "optimal"
    tally.left_open += result.status != "optimal"
    if complete and result.status == "unknown" and result.termination.limit != "time":
        return [f"nothing was found, nor proved: {result.termination}"]
    return []
