"""Policies and searches of ``ring`` at equal evaluations on the 16 test graphs. Needs torch.

    python -m benchmarks.ring_moves --csv FILE [--evaluations 160] [--seeds 3] [--only COLUMN ...] [--most OPERATIONS]
    python -m benchmarks.ring_moves --train FILE.pt [--passes 4]
    python -m benchmarks.ring_moves --csv FILE --table [--markdown FILE]

An evaluation is a valid mapping whose objective is computed. A cell is optimum / objective of the best mapping so far;
optima are proved. The CSV has a line per run, and a run that is in it isn't made again.

Whole mappings, made by SAMPLE: *random*, *annealing* (of the paper), *prior*, *PPO* from scratch, the shipped policy
*zero-shot* and *fine-tuned* (:mod:`benchmarks.ring_learned`). Moves, each the change of one operation's chip that FIX
makes valid: the operation has its new chip, and all others keep theirs where they can. They begin with the best of the
first 20 mappings of *prior*, which count:

- *descent*: a random operation to a random chip, at most :data:`NEAR` chips away; kept if no worse;
- *critical*: the same of operations on the busiest chip, or of those that send over the busiest link;
- *moves, scratch*: a policy of moves that learns from exact differences, as that of ``placement``;
- *moves, zero-shot*, *moves, fine-tuned*: the same after ``--train`` on the 66 training graphs;
- *critical moves, scratch*: as *moves, scratch*, of the operations that *critical* moves alone.

``--train`` walks an episode of 160 evaluations on each training graph in each pass and learns from all of them
together.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.ring_learned import lines_of, policy_of
from chipmap.heuristics.ring.greedy import greedy
from chipmap.heuristics.ring.sampling.evaluate import INVALID, Evaluator
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import search
from chipmap.instances.ring.problem import IntArray, RingProblem
from chipmap.learned.placement.moves import MoveRecipe, MoveTrainer, Visit, behaviour
from chipmap.learned.ring.data import Row, rows_of
from chipmap.learned.ring.from_options import SHIPPED

#: Mappings of the prior that moves begin with, and how many chips away a move may go.
FIRST, NEAR = 20, 2
#: Features of a move.
MOVE_FEATURES = 22
#: Evaluations of an episode of training, and graphs whose visits make one lesson.
EPISODE, TOGETHER = 160, 11
WHOLE = ("random", "annealing", "prior", "scratch", "zero-shot", "fine-tuned")
MOVES = ("descent", "critical", "moves, scratch", "moves, zero-shot", "moves, fine-tuned", "critical moves, scratch")
COLUMNS = ("greedy", *WHOLE, *MOVES)
HEADING = ("graph", "column", "seed", "evaluations", "seconds", "worth")
TRAINED = Path("moves.pt")


class Situation(NamedTuple):
    """P moves: ``operation`` and ``chip`` [P], ``features`` [P, F]; ``critical`` [n]."""

    operation: IntArray
    chip: IntArray
    features: NDArray[np.float32]
    critical: NDArray[np.bool_]


class Viewer:
    """What a policy of moves sees of a mapping."""

    def __init__(self, problem: RingProblem) -> None:
        self.problem = problem
        n = problem.n
        self._from = problem.flows[:, 0].astype(np.int64)
        self._to = problem.flows[:, 1].astype(np.int64)
        self._ticks = problem.ticks.astype(np.float64)
        self._maker = np.array([s.producer for s in problem.storages], dtype=np.int64)
        self._sent = np.array([s.ticks for s in problem.storages], dtype=np.float64)
        sizes = [len(s.readers) for s in problem.storages]
        self._reader = np.array([v for s in problem.storages for v in s.readers], dtype=np.int64)
        self._of = np.repeat(np.arange(len(sizes)), sizes)
        self._made = np.bincount(self._maker, self._sent, n)
        self._read = np.bincount(self._reader, self._sent[self._of], n)
        self._in, self._out = np.bincount(self._to, minlength=n), np.bincount(self._from, minlength=n)
        place = np.cumsum(self._ticks[list(problem.order)]) / max(1.0, self._ticks.sum())
        self._place = np.empty(n)
        self._place[list(problem.order)] = place

    def loads(self, chips: IntArray) -> tuple[Any, Any]:
        """(work [C], load [C] of the link behind each chip) in ticks, of mode ``period``."""
        count = self.problem.chips
        work = np.bincount(chips, self._ticks, count)
        far = chips[self._maker].copy()
        np.maximum.at(far, self._of, chips[self._reader])
        change = np.bincount(chips[self._maker], self._sent, count) - np.bincount(far, self._sent, count)
        return work, np.cumsum(change)

    def critical(self, chips: IntArray) -> NDArray[np.bool_]:
        """[n]: on the busiest chip; or, if a link is busier, makers and readers of what crosses it."""
        work, load = self.loads(chips)
        if work.max() >= load.max():
            found: NDArray[np.bool_] = chips == int(work.argmax())
            return found
        link, found = int(load.argmax()), np.zeros(len(chips), dtype=bool)
        far = chips[self._maker].copy()
        np.maximum.at(far, self._of, chips[self._reader])
        over = (chips[self._maker] <= link) & (far > link)
        found[self._maker[over]] = True
        found[self._reader[over[self._of] & (chips[self._reader] > link)]] = True
        return found

    def look(self, chips: IntArray, value: float, seen: Any, gained: Any, busiest: bool) -> Situation:
        """All moves from ``chips`` of objective ``value``, or of critical operations alone (``busiest``); ``seen`` and
        ``gained`` [n, C] of those made before."""
        count, n = self.problem.chips, self.problem.n
        away = np.array([d for d in range(-NEAR, NEAR + 1) if d])
        v, c = np.repeat(np.arange(n), len(away)), (chips[:, None] + away).ravel()
        critical = self.critical(chips)
        inside = (c >= 0) & (c < count)
        if busiest and (inside & critical[v]).any():
            inside &= critical[v]
        v, c = v[inside], c[inside]
        here = chips[v]
        work, load = self.loads(chips)
        top = max(1.0, float(value))
        behind = np.concatenate(([0.0], load))
        low, high = np.full(n, -1), np.full(n, count)
        np.maximum.at(low, self._to, chips[self._from])
        np.minimum.at(high, self._from, chips[self._to])
        producers = np.bincount(self._to * count + chips[self._from], minlength=n * count).reshape(n, count)
        readers = np.bincount(self._from * count + chips[self._to], minlength=n * count).reshape(n, count)
        many, most = np.maximum(1, self._in), np.maximum(1, self._out)
        before, after = np.cumsum(producers, axis=1), np.cumsum(readers[:, ::-1], axis=1)[:, ::-1]
        table = (
            *(critical[v], np.log1p(n * self._ticks[v] / top), work[here] / top, work[c] / top),
            *((work[c] + self._ticks[v]) / top, load[here] / top, load[c] / top, behind[here] / top, behind[c] / top),
            *((c - here) / NEAR, np.abs(c - here) == 1, producers[v, c] / many[v], readers[v, c] / most[v]),
            *(producers[v, here] / many[v], readers[v, here] / most[v]),
            *((self._in[v] - before[v, c]) / many[v], (self._out[v] - after[v, c]) / most[v]),
            *(np.log1p(n * self._made[v] / top), np.log1p(n * self._read[v] / top)),
            *(count * self._place[v] - c - 0.5, seen[v, c], np.clip(100.0 * gained[v, c], -1.0, 1.0)),
        )
        features = np.clip(np.column_stack(table), -5.0, 5.0).astype(np.float32)
        return Situation(v, c, features, critical)


class RingWalk:
    """One graph: the ``base`` [n], its ``value`` in ticks, a number of ``evaluations``, the best of them so far."""

    def __init__(self, problem: RingProblem, seed: int, busiest: bool = False) -> None:
        self.busiest = busiest
        self.sampler, self.random = Sampler(problem), np.random.default_rng(seed)
        self.problem = self.sampler.problem
        self.viewer, self._judge = Viewer(self.problem), Evaluator(self.problem)
        self.seed, self.evaluations = seed, 0
        self.base, self.value = np.zeros(0, dtype=np.int64), float(INVALID)
        self.visits: list[Visit] = []
        self._now: tuple[Situation, Visit] | None = None

    def begin(self) -> None:
        """The best of :data:`FIRST` mappings of the prior."""
        shape = self.problem.n, self.problem.chips
        self._seen, self._gained = np.zeros(shape), np.zeros(shape)
        prior = policy_of("prior", self.sampler, FIRST, self.seed, SHIPPED)
        for mapping, value in search(self.sampler, prior, self.seed, FIRST):
            self.evaluations += 1
            if mapping is not None and (value < self.value or not len(self.base)):
                self.base, self.value = np.array(mapping, dtype=np.int64), float(value)

    def moved(self, operation: int, chip: int) -> tuple[IntArray, float]:
        """The mapping after a move, made valid, and its objective; it counts."""
        self.evaluations += 1
        there = self.base.copy()
        there[operation] = chip
        others = self.random.permutation(self.problem.n)
        order = [operation, *(int(v) for v in others if v != operation)]
        made = self.sampler.fix(there, self.seed, order, first=self.evaluations)
        if not made.valid[0]:
            return self.base, float(INVALID)
        return made.chips[0], float(self._judge(made.chips[:1])[0])

    def take(self, made: IntArray, value: float) -> bool:
        """Go there if it is no worse; whether it did."""
        if value > self.value:
            return False
        self.base, self.value, self._now = made, value, None
        return True

    def descend(self, evaluations: int, critical: bool) -> None:
        """Descent until there are so many evaluations."""
        among: IntArray | None = None
        while self.evaluations < evaluations and self.problem.chips > 1 and len(self.base):
            if among is None:
                found = np.flatnonzero(self.viewer.critical(self.base)) if critical else np.arange(self.problem.n)
                among = found if len(found) else np.arange(self.problem.n)
            v = int(self.random.choice(among))
            reach = np.arange(max(0, self.base[v] - NEAR), min(self.problem.chips, self.base[v] + NEAR + 1))
            if self.take(*self.moved(v, int(self.random.choice(reach[reach != self.base[v]])))):
                among = None

    @torch.no_grad()
    def rollout(self, trainer: MoveTrainer) -> None:
        """Draw a move, judge it, note its gain: the exact difference of the objective."""
        if self._now is None:
            seen = self.viewer.look(self.base, self.value, self._seen, self._gained, self.busiest)
            self._now = seen, Visit(torch.as_tensor(seen.operation), torch.as_tensor(seen.features))
            self.visits.append(self._now[1])
            self._logits = trainer.network(self._now[1].features)
            self._left = torch.ones(len(seen.operation), dtype=torch.bool)
        seen, visit = self._now
        if not bool(self._left.any()):
            self._left = torch.ones_like(self._left)
        chances = behaviour(self._logits, self._left, trainer.recipe.uniform)
        sums = chances.double().exp().cumsum(0).numpy()
        k = min(int(np.searchsorted(sums, self.random.random() * sums[-1], side="right")), len(sums) - 1)
        made, value = self.moved(int(seen.operation[k]), int(seen.chip[k]))
        gain = max(-1.0, (self.value - value) / max(1.0, self.value)) if value < INVALID else -1.0
        visit.drawn.append([k])
        visit.old.append([float(chances[k])])
        visit.gain.append([gain])
        self._left[k] = False
        self._seen[seen.operation[k], seen.chip[k]], self._gained[seen.operation[k], seen.chip[k]] = 1.0, gain
        self.take(made, value)

    def taken(self) -> list[Visit]:
        """The visits since the last call."""
        found, self.visits, self._now = self.visits, [], None
        return found

    def walk(self, trainer: MoveTrainer, evaluations: int, learn: bool) -> None:
        """Rollouts until there are so many evaluations, learning after each cycle."""
        while self.evaluations < evaluations and self.problem.chips > 1 and len(self.base):
            for _ in range(min(trainer.recipe.rollouts, evaluations - self.evaluations)):
                self.rollout(trainer)
            visits = self.taken()
            if learn:
                trainer.learn(visits)


def new_trainer(seed: int, weights: Path | None = None) -> MoveTrainer:
    """A policy of moves, with weights of a file where one is given."""
    trainer = MoveTrainer(MoveRecipe(), seed, columns=MOVE_FEATURES)
    if weights is not None:
        trainer.network.load_state_dict(torch.load(weights, weights_only=True))
    return trainer


def train(path: Path, passes: int) -> None:
    """Train one policy of moves on all training graphs; its state stands in the file after each pass."""
    trainer, done = new_trainer(0), 0
    resume = path.with_suffix(".resume.pt")
    if resume.exists():
        kept = torch.load(resume, weights_only=True)
        trainer.resume(kept["trainer"])
        done = int(kept["passes"])
    rows = rows_of("train")
    for number in range(done, passes):
        begun, gains = time.process_time(), list[float]()
        order = np.random.default_rng(number).permutation(len(rows))
        for part in np.array_split(order, -(-len(rows) // TOGETHER)):
            walks = [RingWalk(rows[k].problem(), 1000 * number + int(k)) for k in part]
            for one in walks:
                one.begin()
            first = [one.value for one in walks]
            for end in range(FIRST, EPISODE, trainer.recipe.rollouts):
                for one in walks:
                    one.walk(trainer, end + trainer.recipe.rollouts, False)
                trainer.learn([visit for one in walks for visit in one.taken()])
            gains += [1.0 - one.value / value for one, value in zip(walks, first, strict=True)]
        torch.save(trainer.network.state_dict(), path)
        torch.save({"trainer": trainer.state(), "passes": number + 1}, resume)
        seconds = time.process_time() - begun
        print(f"pass {number + 1}: mean gain {100 * np.mean(gains):.2f}%, {seconds:.0f} CPU s", flush=True)


def measured(row: Row, column: str, evaluations: int, seed: int, weights: Path) -> list[Any]:
    """A line of the file."""
    problem, begun = row.problem(), time.process_time()
    if column == "greedy":
        sampler = Sampler(problem)
        chips = greedy(sampler.problem)
        value = INVALID if chips is None else float(Evaluator(sampler.problem)(np.array([chips]))[0])
    elif column in WHOLE:
        sampler = Sampler(problem)
        policy = policy_of(column, sampler, evaluations, seed, SHIPPED)
        value = min(float(worth) for _, worth in search(sampler, policy, seed, evaluations))
    else:
        one = RingWalk(problem, seed, column.startswith("critical moves"))
        one.begin()
        if column in ("descent", "critical"):
            one.descend(evaluations, column == "critical")
        else:
            scratch = column.endswith("scratch")
            one.walk(new_trainer(seed, None if scratch else weights), evaluations, not column.endswith("zero-shot"))
        value = one.value
    worth = row.optimum / value if value < INVALID else 0.0
    return [row.name, column, seed, evaluations, f"{time.process_time() - begun:.2f}", f"{worth:.6f}"]


def measure(path: Path, evaluations: int, seeds: int, most: int, only: Sequence[str], weights: Path) -> None:
    """Make the runs that the file lacks."""
    known = lines_of(path) if path.exists() else []
    done = {(one["graph"], one["column"], one["seed"], one["evaluations"]) for one in known}
    sized = sorted(((row.problem().n, row) for row in rows_of("test")), key=lambda one: one[0])
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if not known:
            writer.writerow(HEADING)
        for seed in range(seeds):
            for n, row in sized:
                for column in only if n <= most else ():
                    asked = (row.name, column, str(seed), str(evaluations))
                    if asked in done or (column == "greedy" and seed):
                        continue
                    writer.writerow(measured(row, column, evaluations, seed, weights))
                    file.flush()


def table(path: Path, evaluations: int) -> str:
    """The table in Markdown: of graphs and seeds that every column has."""
    lines = [one for one in lines_of(path) if one["evaluations"] == str(evaluations)]
    columns = [name for name in COLUMNS if name != "greedy" and any(one["column"] == name for one in lines)]
    worth = {(one["graph"], one["column"], one["seed"]): float(one["worth"]) for one in lines}
    spent = {name: [float(one["seconds"]) for one in lines if one["column"] == name] for name in columns}
    graphs = [row.name for row in rows_of("test")]
    seeds = {
        graph: [s for s in sorted({k[2] for k in worth}) if all((graph, c, s) in worth for c in columns)]
        for graph in graphs
    }
    graphs = [graph for graph in graphs if seeds[graph]]
    text = [f"| graph | seeds | greedy | {' | '.join(columns)} |", f"|---|{'--:|' * (len(columns) + 2)}"]
    means = {name: list[float]() for name in columns}
    for graph in graphs:
        cells = []
        for name in columns:
            values = [worth[graph, name, seed] for seed in seeds[graph]]
            means[name].append(float(np.mean(values)))
            cells.append(f"{np.mean(values):.3f}" + (f" ({np.std(values):.3f})" if len(values) > 1 else ""))
        own = worth.get((graph, "greedy", "0"))
        text.append(f"| {graph} | {len(seeds[graph])} | {'' if own is None else f'{own:.3f}'} | {' | '.join(cells)} |")
    geometric = {name: float(np.exp(np.mean(np.log(np.maximum(1e-9, one))))) for name, one in means.items()}
    text.append(f"| **geometric mean** | | | {' | '.join(f'{one:.3f}' for one in geometric.values())} |")
    if "descent" in columns:
        good = [sum(a >= b - 5e-4 for a, b in zip(means[name], means["descent"], strict=True)) for name in columns]
        text.append(f"| at least as good as descent | | | {' | '.join(f'{one} of {len(graphs)}' for one in good)} |")
    text.append(f"| CPU s a run | | | {' | '.join(f'{np.mean(one):.1f}' for one in spent.values())} |")
    return "\n".join(text)


def main() -> None:
    """Train, measure or tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, metavar="FILE")
    parser.add_argument("--evaluations", type=int, default=160)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--most", type=int, default=10**9, metavar="OPERATIONS")
    parser.add_argument("--only", nargs="+", default=list(COLUMNS), choices=COLUMNS, metavar="COLUMN")
    parser.add_argument("--weights", type=Path, default=TRAINED, metavar="FILE.pt", help="what --train has made")
    parser.add_argument("--train", type=Path, metavar="FILE.pt")
    parser.add_argument("--passes", type=int, default=4)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.train:
        train(arguments.train, arguments.passes)
    if arguments.csv and not arguments.table:
        measure(
            arguments.csv, arguments.evaluations, arguments.seeds, arguments.most, arguments.only, arguments.weights
        )
    if arguments.csv:
        print(f"load {os.getloadavg()[0]:.1f}\n\n{table(arguments.csv, arguments.evaluations)}")


if __name__ == "__main__":
    main()
