"""Learned proposals for the annealing of ``placement`` against the search as it is, at equal CPU time.

    python -m benchmarks.proposals --train FILE.npz [--log-seconds 4]
    python -m benchmarks.proposals --train FILE.npz --csv FILE [--seconds 5] [--seeds 3] [--only GRAPH …]
    python -m benchmarks.proposals --csv FILE --table

All begin with the best of four partitions and have so many seconds of the processor, one thread; nothing is checked
meanwhile. The CSV has a line per run, and a run that is in it isn't made again. The columns:

- *one random move*: a random unit to a random device, kept if the step is no longer;
- *as it is*: the rounds of ``placement/search``;
- *same code*: the same by the annealing of :mod:`benchmarks.proposals.annealing`, with nothing learned;
- *bandit*: the kind of a move and the level of its unit by what these gained per event simulated, in this run;
- *logistic*, *network*: of the moves that the estimate of the delay lets pass, those of the better half alone are
  simulated, and a tenth of the others. The chance of a shorter step is learned from moves on training graphs;
- *places*: operations of the critical chain by a learned chance that their moves shorten the step.

``--train`` logs the moves that were simulated on nine of the training graphs of the policy of moves
(:mod:`chipmap.learned.placement.data`), and fits what is learned to them. Graphs of other architectures (AmoebaNet,
WaveNet, GNMT) are judged on.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.proposals.annealing import PLACE_FEATURES, Floats, Learned, learned
from benchmarks.proposals.fitting import Fitted, area, logistic, network
from benchmarks.proposals.runs import Ended, annealed, climbed, start_of
from chipmap.heuristics.placement.search.units import SHARES, STEPS
from chipmap.inputs.reading import read
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.instances.placement.problem import placement_problem
from chipmap.learned.placement.data import TRAIN, Row

GRAPHS = ("amoebanet-4-pcie", "wavenet-4-pcie", "gnmt-2-pcie")
#: Numbers of the training graphs whose moves are logged, and of those that the fits are judged on when they are fitted
#: to the others; rows of one graph at most.
LOGGED, HELD, ROWS = (0, 3, 5, 9, 11, 13, 15, 16, 17), (5, 9, 16), 15_000
COLUMNS = ("one random move", "as it is", "same code", "bandit", "logistic", "network", "places")
COMPARED = ("as it is", "same code")
#: Shares of the time at which a run is looked at.
AT = (0.25, 0.5, 1.0)
HEADING = ("graph", "column", "seed", "seconds", "start", *(f"best {share:g}" for share in AT), "found", "counts")
#: Of the moves that are judged: the share below which the filter leaves out, and the chance of those to be simulated.
LEFT_OUT, CHANCE = 0.5, 0.1
LEVELS = len(SHARES) + len(STEPS)


def training_graph(row: Row) -> PlacementInstance:
    """The instance of a row."""
    return training_step(row.network, dict(row.parameters), row.devices, f"p100-{row.links}")


def places_fit(places: Floats, labels: Floats) -> Floats:
    """Logistic regression of a shorter step by the features of the place in the chain."""
    weights = np.zeros(PLACE_FEATURES)
    for _ in range(30):
        chance = 1.0 / (1.0 + np.exp(-places @ weights))
        slope = places.T @ (chance - labels) + weights
        weights = weights - np.linalg.solve(
            (places * (chance * (1.0 - chance))[:, None]).T @ places + np.eye(PLACE_FEATURES), slope
        )
    return weights


def train(path: Path, seconds: float) -> None:
    """Log moves on the training graphs, fit, say how well, and write what was fitted."""
    moves, places, outcomes, graph = list[Any](), list[Any](), list[Any](), list[Any]()
    for number in LOGGED:
        instance = training_graph(TRAIN[number])
        problem = placement_problem(instance)
        one = learned(problem.operations, LEVELS, "log", rows=4 * ROWS)
        annealed(instance, start_of(problem), 100 + number, seconds, one)
        rows = min(ROWS, int(one.filled[0]))
        moves.append(one.moves[:rows])
        places.append(one.places[:rows])
        outcomes.append(one.outcome[:rows])
        graph.append(np.full(rows, number))
        print(f"graph {number}: {problem.operations} operations, {rows} moves", flush=True)
    fit(path, *(np.concatenate(one) for one in (moves, places, outcomes, graph)))


def fit(path: Path, moves: Floats, places: Floats, outcomes: Floats, graph: Any) -> None:
    """Fit all three to logged moves, and write them."""
    shorter = (outcomes[:, 1] > 0).astype(np.float64)
    held = np.isin(graph, HELD)
    taken, equal = outcomes[:, 0].mean(), ((outcomes[:, 0] > 0) & (outcomes[:, 1] == 0)).mean()
    print(f"{len(moves)} moves: {taken:.1%} taken, {equal:.1%} taken and as long, {shorter.mean():.1%} shorter")
    kept = dict[str, Any]()
    for name, made in (("logistic", logistic), ("network", network)):
        scores = made(moves[~held], shorter[~held], 0).scores(moves[held])
        order = np.argsort(-scores)
        half = len(order) // 2
        share = shorter[held][order[:half]].sum() / shorter[held].sum()
        print(f"{name}: area {area(scores, shorter[held]):.3f} on graphs held out; the better half has {share:.1%}")
        found = made(moves, shorter, 0)
        kept[f"{name}_inner"], kept[f"{name}_outer"] = found
        kept[f"{name}_least"] = np.quantile(found.scores(moves), LEFT_OUT)
    chained = (places[:, 0] > 0) & (moves[:, 1] == 0)
    kept["places"] = places_fit(places[chained], shorter[chained])
    print(f"places: area {area(places[chained] @ kept['places'], shorter[chained]):.3f}, in sample")
    np.savez(path, **kept)


def made_for(column: str, operations: int, fits: Path) -> Learned:
    """What a column has learned."""
    if column == "same code":
        return learned(operations, LEVELS)
    if column == "bandit":
        return learned(operations, LEVELS, "arms")
    with np.load(fits) as kept:
        if column == "places":
            one = learned(operations, LEVELS, "places")
            one.weights[:] = kept["places"]
            return one
        found = Fitted(kept[f"{column}_inner"], kept[f"{column}_outer"])
        one = learned(operations, LEVELS, "filter", hidden=len(found.inner))
        one.inner[:], one.outer[:] = found
        one.threshold[:] = kept[f"{column}_least"], CHANCE
        return one


def measure(path: Path, fits: Path, seconds: float, seeds: int, only: Sequence[str]) -> None:
    """Make the runs that the file lacks, the columns one after the other."""
    known = lines_of(path) if path.exists() else []
    done = {(one["graph"], one["column"], one["seed"], one["seconds"]) for one in known}
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if not known:
            writer.writerow(HEADING)
        for name in only:
            instance = read(f"placement/{name}")
            assert isinstance(instance, PlacementInstance)
            problem = placement_problem(instance)
            start = start_of(problem)
            for one in (None, made_for("same code", problem.operations, fits)):
                annealed(instance, start, 0, 0.2, one)  # compiles
            for seed in range(seeds):
                for column in COLUMNS:
                    if (name, column, str(seed), f"{seconds:g}") in done:
                        continue
                    two = None
                    if column == "one random move":
                        found = climbed(instance, start, seed, seconds)
                    else:
                        two = None if column == "as it is" else made_for(column, problem.operations, fits)
                        found = annealed(instance, start, seed, seconds, two)
                    counts = "" if two is None else " ".join(f"{one:.0f}" for one in two.tally)
                    writer.writerow(line_of(name, column, seed, seconds, found, counts))
                    file.flush()
                    print(f"{os.getloadavg()[0]:.1f} {name} {seed} {column} {found.best(seconds)}", flush=True)


def line_of(name: str, column: str, seed: int, seconds: float, found: Ended, counts: str) -> list[Any]:
    """A line of the file."""
    best = [found.best(share * seconds) for share in AT]
    trace = " ".join(f"{at:.3f}:{step}" for at, step in found.found)
    return [name, column, seed, f"{seconds:g}", found.found[0][1], *best, trace, counts]


def lines_of(path: Path) -> list[dict[str, str]]:
    """The file's lines."""
    csv.field_size_limit(2**31 - 1)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def when(trace: str, step: float) -> float | None:
    """After how many CPU seconds a run's step was as short."""
    pairs = (one.split(":") for one in trace.split())
    return next((float(at) for at, value in pairs if int(value) <= step), None)


def table(path: Path) -> str:
    """The table in Markdown."""
    lines = lines_of(path)
    text = [
        "| graph | proposals | seeds | 1/4 of the time | 1/2 | all | over *as it is* | over *same code* | "
        "as good as *as it is* | simulated | shorter, of these |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name in dict.fromkeys(one["graph"] for one in lines):
        own = [one for one in lines if one["graph"] == name]
        base = [one for one in own if one["column"] == "as it is"]
        goal = float(np.mean([int(one["best 1"]) for one in base]))
        usual = [
            float(np.mean([1 - int(one["best 1"]) / int(one["start"]) for one in own if one["column"] == column]))
            for column in COMPARED
        ]
        for column in COLUMNS:
            runs = [one for one in own if one["column"] == column]
            if not runs:
                continue
            shares = [100 * np.array([1 - int(o[f"best {at:g}"]) / int(o["start"]) for o in runs]) for at in AT]
            cells = [f"{one.mean():.2f}%" + (f" ({one.std():.2f})" if k == 2 else "") for k, one in enumerate(shares)]
            times = [at for one in runs if (at := when(one["found"], goal)) is not None]
            reached = f"{np.mean(times):.1f} s, {len(times)} of {len(runs)}" if times else f"0 of {len(runs)}"
            cells += [f"{shares[2].mean() / 100 / one:.2f}" for one in usual] + [reached]
            counts = [[float(n) for n in one["counts"].split()] for one in runs if one["counts"]]
            made, shorter = sum(one[4] for one in counts), sum(one[6] for one in counts)
            cells += [f"{made / len(counts):,.0f}", f"{shorter / made:.1%}"] if counts else ["", ""]
            text.append(f"| {name} | {column} | {len(runs)} | {' | '.join(cells)} |")
    return "\n".join(text)


def main() -> None:
    """Train, measure or tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, metavar="FILE.npz")
    parser.add_argument("--log-seconds", type=float, default=4.0)
    parser.add_argument("--csv", type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=list(GRAPHS), metavar="GRAPH")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.train and not arguments.train.exists():
        train(arguments.train, arguments.log_seconds)
    if arguments.csv and not arguments.table:
        measure(arguments.csv, arguments.train, arguments.seconds, arguments.seeds, arguments.only)
    if arguments.csv:
        print(f"\n{table(arguments.csv)}")


if __name__ == "__main__":
    main()
