"""A policy's placement as the start of the placement search: CPU seconds to the quality that the search ends with.

    python -m benchmarks.placement_start [--limit 60] [--seeds 5] [--cycles 24] [--instances NAME ...] [--out FILE]
        [--only ARM ... --quality MS]

One thread, in this process, and the clock of every deadline is the process's CPU time, so that load changes nothing
but memory traffic. Everything counts: making the start, inference, learning, bounds, the search. Compiling comes
before. The arms:

- *usual*: ``placement/search`` as it is: its own starts, partitions for 15% of the time, bounds, annealing;
- *METIS, human*: the best of METIS's two partitions (extra ``metis``) and the three human splits by the decoder;
- *zero-shot*: the best of the likeliest placement and 15 draws of a policy that was trained on other architectures
  (:mod:`benchmarks.placement_policy`: RNNLM, Transformer-XL and Inception, all in one batch);
- *fine-tuned*: 160 draws in 10 cycles with 40 steps of Adam from the same policy.

The three last ones begin with that placement alone: no own starts and no partitions, whose time the annealing gets.
``placement/search --warm-start policy`` makes its own starts as well and takes the policy's only if it is better; how
good both are, the table says.

The quality to be reached is the median of what the usual search has after the limit over the seeds, and 1% above it.
Arms end when they reach it. A cell has the mean CPU seconds of the runs that got there, how many these were, and the
mean of objective / quality at the end (at most the limit). ``--only`` some arms of one graph; without the usual search
the quality has to be given, that of another run.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.cpu_deadline import CpuDeadline
from benchmarks.placement_policy import DRAWS, LEARNING, problems, scene_of, trained
from chipmap.inputs.reading import read
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import IntArray, PlacementProblem, placement_problem
from chipmap.learned.placement.ppo import DEFAULT, Task, Trainer
from chipmap.methods.chain import Link, Turn, follow
from chipmap.methods.placement.chain import BOUND, IMPROVED, START, WINDOWS
from chipmap.methods.placement.chain_state import ChainState
from chipmap.methods.placement.search import search
from chipmap.result import TraceEvent
from chipmap.run import Run, SolveOptions
from chipmap.validation.placement.checker import check

#: Makes the devices [N] to start from, for a seed.
Start = Callable[[PlacementProblem, int], IntArray]
#: The second quality: so many times the first one.
NEAR = 1.01
#: What the columns are.
HEADING = (
    "| graph | operations | quality | start | begins with | to 1% above | to the quality | end |",
    "|---|--:|--:|---|--:|--:|--:|--:|",
)
#: The arms.
ARMS = ("usual", "METIS, human", "zero-shot", "fine-tuned")
#: Sources of what comes behind the starts.
LATER = ("partition", "annealing")
#: Runs of so many CPU seconds on a small graph compile everything; the last one takes no longer.
WARM = 4.0


class Found(NamedTuple):
    """A better placement."""

    seconds: float  # of CPU
    ns: int
    source: str


@dataclass
class Trace:
    """What a run found, and the step time in ns that its search began with."""

    found: list[Found]
    start: int = 0

    def when(self, quality: float) -> float | None:
        """When it was as good as ``quality`` ns."""
        return next((one.seconds for one in self.found if one.ns <= quality), None)

    @property
    def end(self) -> int:
        """The last value in ns."""
        return self.found[-1].ns


def by_hand(problem: PlacementProblem, seed: int) -> IntArray:
    """The best of METIS's partitions and the human splits."""
    return scene_of(problem, seed).split


def of_policy(policy: Trainer, learning: bool) -> Start:
    """The best of some draws of a policy, which may learn from them."""

    def made(problem: PlacementProblem, seed: int) -> IntArray:
        task, trainer = Task(scene_of(problem, seed)), Trainer(DEFAULT, seed)
        trainer.network.load_state_dict(policy.network.state_dict())
        if not learning:
            trainer.propose(task, DRAWS)
        for _ in range(LEARNING if learning else 0):
            trainer.cycle([task])
        return task.devices

    return made


def measured(instance: PlacementInstance, start: Start | None, seed: int, limit: float, enough: float = 0) -> Trace:
    """A run of so many CPU seconds, which ends when it is as good as ``enough`` ns."""
    begun, trace = time.process_time(), Trace([])
    run = Run(instance, SolveOptions(threads=1, seed=seed, time_limit=1e6), check)

    def hear(event: TraceEvent, now: Run) -> None:
        if event.event == "solution":
            trace.found.append(Found(time.process_time() - begun, event.value, event.source))

    run.listener = hear
    deadline = CpuDeadline(begun + limit, lambda: "gap" if run.upper is not None and run.upper <= enough else None)
    problem = placement_problem(instance)
    state, turn = ChainState(problem), Turn(run, deadline)

    def given(state: ChainState, turn: Turn) -> None:
        assert start is not None
        state.tell(turn, start(problem, seed), "start")

    alone = Link("start", 1.0, given), WINDOWS, Link("search", 1.0, search)
    run.attempt(lambda: follow((BOUND, START, *IMPROVED) if start is None else (BOUND, *alone), state, turn))
    first = [one for one in trace.found if one.source not in LATER]
    trace.start = first[-1].ns
    return trace


def cells(traces: list[Trace], quality: float) -> list[str]:
    """What the row of an arm says."""
    found = [f"{np.mean([trace.start for trace in traces]) / quality:.3f}"]
    for target in (quality * NEAR, quality):
        times = [seconds for trace in traces if (seconds := trace.when(target)) is not None]
        found.append((f"{np.mean(times):.1f} s, " if times else "") + f"{len(times)} of {len(traces)}")
    return [*found, f"{np.mean([trace.end for trace in traces]) / quality:.4f}"]


def compile_all(starts: dict[str, Start]) -> None:
    """Short runs on a small graph until none takes longer than it should."""
    small = next(problems()).instance
    for start in (None, *starts.values()):
        seconds = float("inf")
        while seconds > 1.5 * WARM:
            begun = time.process_time()
            measured(small, start, 0, WARM)
            seconds = time.process_time() - begun


def graph(name: str, arms: dict[str, Start | None], seeds: int, limit: float, quality: float = 0.0) -> Iterator[str]:
    """The rows of a graph, then a line on the partitions. ``quality`` in ns (0: the usual search's, the first arm)."""
    instance = read(f"placement/{name}")
    assert isinstance(instance, PlacementInstance)
    n = len(placement_problem(instance).names)
    for arm, start in arms.items():
        traces = [measured(instance, start, seed, limit, quality) for seed in range(seeds)]
        quality = quality or median(trace.end for trace in traces)
        head = f"{name} | {n} | {quality / 1e6:.2f} ms | {arm}"
        yield f"| {head} | {' | '.join(cells(traces, quality))} |"
        made = [one for trace in traces for one in trace.found if one.source == "partition"]
        if made:
            value, seconds = np.mean([one.ns for one in made]) / quality, np.mean([one.seconds for one in made])
            yield f"- {name}: the usual search's partitions have {value:.3f} of the quality after {seconds:.1f} s."


def write(arguments: argparse.Namespace, words: str, lines: list[str]) -> None:
    """The page."""
    command = f"python -m benchmarks.placement_start --limit {arguments.limit:g} --seeds {arguments.seeds}"
    command += f" --cycles {arguments.cycles} --instances {' '.join(arguments.instances)}"
    if arguments.only:
        command += f" --only {' '.join(map(repr, arguments.only))}"
    if arguments.quality:
        command += f" --quality {arguments.quality:g}"
    head = f"`{command}`: Python {platform.python_version()}, torch {torch.__version__}, one thread of "
    head += f"{os.cpu_count()} cores, load average at the end {os.getloadavg()[0]:.1f}. {words}."
    title = "# A policy's placement as the start of the search"
    arguments.out.write_text("\n".join([title, "", head, "", *lines, ""]), encoding="utf-8")


def main() -> None:
    """Measure, print, write the page after each graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cycles", type=int, default=24, help="of training")
    parser.add_argument("--instances", nargs="+", default=["gnmt-2-pcie", "amoebanet-4-pcie"], metavar="NAME")
    parser.add_argument("--only", nargs="+", choices=ARMS, metavar="ARM", help=f"of {', '.join(ARMS)}")
    parser.add_argument("--quality", type=float, default=0.0, help="milliseconds, where the usual search is left out")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if (arguments.only is not None and "usual" not in arguments.only) != (arguments.quality > 0.0):
        parser.error("--quality goes with --only, where the usual search is left out")
    torch.set_num_threads(1)
    begun = time.process_time()
    policy, curve = trained(DEFAULT, [scene_of(problem) for problem in problems()], arguments.cycles, 0)
    words = f"mean reward {np.mean(curve[:3]):.3f} to {np.mean(curve[-3:]):.3f}" if curve else "untrained"
    words = f"{arguments.cycles} cycles of training: {words}, {time.process_time() - begun:.0f} CPU s"
    print(words, flush=True)
    starts: dict[str, Start] = {"METIS, human": by_hand}
    starts |= {"zero-shot": of_policy(policy, False), "fine-tuned": of_policy(policy, True)}
    rows, more = list[str](), list[str]()
    compile_all(starts)
    arms: dict[str, Start | None] = {"usual": None, **starts}
    arms = {arm: start for arm, start in arms.items() if arguments.only is None or arm in arguments.only}
    for name in arguments.instances:
        for line in graph(name, arms, arguments.seeds, arguments.limit, 1e6 * arguments.quality):
            (rows if line.startswith("|") else more).append(line)
            print(line, f"load {os.getloadavg()[0]:.1f}", flush=True)
            if arguments.out:
                write(arguments, words, [*HEADING, *rows, "", *more])


if __name__ == "__main__":
    main()
