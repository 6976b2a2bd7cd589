"""What the tables of uses of a learned proposal have in common: arms, runs, cells, pairs.

Each run is one thread in this process, within the same limit of wall-clock seconds, which includes making the start.
Arms of one graph and seed run one after the other, so that they meet the same load.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from chipmap.records import ChipmapError
from chipmap.run import SolveOptions
from chipmap.solve import solve


class Arm(NamedTuple):
    """A use, a method of ``family`` and what it starts from."""

    family: str
    use: str
    method: str
    start: str


#: (with the policy, without it).
Pairs = Sequence[tuple[Arm, Arm]]
#: What stands for the ratio of a run that found nothing.
NOTHING = float("inf")


class Runs:
    """Objectives in ticks (None: nothing found) and CPU seconds of all runs; the best known objective by graph."""

    def __init__(self, arms: Sequence[Arm], pairs: Pairs) -> None:
        self.arms, self.pairs = arms, pairs
        self.found: dict[tuple[str, Arm], tuple[list[int | None], list[float]]] = {}
        self.optima: dict[str, int] = {}

    def measure(self, name: str, instance: Any, optimum: int | None, seed: int, limit: float) -> None:
        """A run of each arm on one graph, whose proved optimum is given where it is known."""
        if optimum:
            self.optima[name] = optimum
        for arm in self.arms:
            try:
                value, seconds = measured(instance, arm, seed, limit)
            except ChipmapError as error:
                print(f"{name}, {arm}: {error}", flush=True)
                value, seconds = None, 0.0
            values, times = self.found.setdefault((name, arm), ([], []))
            values.append(value)
            times.append(seconds)
            print(f"{name}, seed {seed}, {' '.join(arm)}: {value} ({optimum}), {seconds:.1f} CPU s", flush=True)

    def best(self, name: str) -> int:
        """The proved optimum; without one the best of all arms."""
        values = [value for arm in self.arms for value in self.found[name, arm][0] if value is not None]
        return self.optima.get(name) or min(values)

    def table(self, names: Sequence[str]) -> list[str]:
        """Arms by graphs, then pairs."""
        lines = [f"| use | method | start | {' | '.join(names)} |", f"|---|---|---|{'--:|' * len(names)}"]
        for arm in self.arms:
            cells = [cell(*self.found[name, arm], self.best(name)) for name in names]
            lines.append(f"| {arm.use} | `{arm.family}/{arm.method}` | {arm.start} | {' | '.join(cells)} |")
        lines += ["", "| with the policy | without it | better | equal | worse |", "|---|---|--:|--:|--:|"]
        for one, other in self.pairs:
            pairs = [
                pair
                for name in names
                for pair in zip(
                    *(ratios(self.found[name, arm][0], self.best(name)) for arm in (one, other)), strict=True
                )
            ]
            counts = [sum(test) for test in zip(*((a < b, a == b, a > b) for a, b in pairs), strict=True)]
            words = [f"`{arm.family}/{arm.method}` from {arm.start}" for arm in (one, other)]
            lines.append(f"| {' | '.join([*words, *map(str, counts)])} |")
        return lines

    def write(self, out: Path, title: str, command: str, names: Sequence[str]) -> None:
        """The page."""
        head = f"`{command}`: Python {platform.python_version()}, torch {torch.__version__}, one thread of "
        head += f"{os.cpu_count()} cores, load average at the end {os.getloadavg()[0]:.1f}. "
        head += "What an arm is, the benchmark says."
        out.write_text("\n".join([f"# {title}", "", head, "", *self.table(names), ""]), encoding="utf-8")


def measured(instance: Any, arm: Arm, seed: int, limit: float) -> tuple[int | None, float]:
    """The objective in ticks (None: nothing found), and CPU seconds."""
    options = SolveOptions(time_limit=limit, threads=1, seed=seed, warm_start=arm.start)
    began = time.process_time()
    result = solve(instance, f"{arm.family}/{arm.method}", options, isolate=False)
    return (None if result.objective is None else int(result.objective)), time.process_time() - began


def ratios(found: Sequence[int | None], best: int) -> list[float]:
    """Objective / best of each run."""
    return [NOTHING if value is None else value / best for value in found]


def cell(found: Sequence[int | None], seconds: Sequence[float], best: int) -> str:
    """The geometric mean of the runs that found something, how many didn't, and CPU seconds."""
    known = [one for one in ratios(found, best) if one < NOTHING]
    mean = f"{np.exp(np.mean(np.log(known))):.4f}" if known else "nothing"
    lost = f" ({len(found) - len(known)} found nothing)" if known and len(known) < len(found) else ""
    return f"{mean}{lost}, {np.mean(seconds):.1f} s"
