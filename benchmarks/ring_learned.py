"""The pre-trained ring policy against proven optima on 16 held-out graphs (paper, table 2). Needs torch.

    python -m benchmarks.ring_learned --csv FILE [--samples 400] [--seeds 2] [--most 200] [--checkpoint NAME.pt]
    python -m benchmarks.ring_learned --table FILE [--markdown FILE] [--picture FILE.svg]

Strategies: random search, annealing, the prior at temperature 1, the prior with the checkpoint's recipe, greedy (one
mapping), training from scratch (with the prior), the pre-trained policy as it is (zero-shot) and learning on
(fine-tuned); these four differ in nothing but the network. *Freer*: learning by :data:`FREER` instead. *Refined*: by
``REFINED``, the usual recipe of ``ring/policy``; *prior, refined* is it without a network. Each sample is
worth optimum / objective; the optimum is proved. The CSV has a line per run, with the best so far after :data:`AT`
samples and the first sample at each threshold; a run that is in it is not made again. ``--most``: graphs of so many
operations at most.

Tables, of the graphs and seeds that every strategy has a run of: per strategy the geometric mean over them of the
samples to a threshold (a run that never reached it counts as all its samples, and is counted apart) and of the best
after some samples; how much better the policies are, pair by pair; per graph the gap to the optimum, and what greedy
has. The picture shows the gaps of greedy, prior, zero-shot and fine-tuned, with their range over seeds. ``--only``:
these strategies alone.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from chipmap.heuristics.ring.greedy import greedy
from chipmap.heuristics.ring.sampling.evaluate import Evaluator
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import Annealing, Policy, Uniform
from chipmap.learned.ring.checkpoint import load
from chipmap.learned.ring.data import Row, rows_of
from chipmap.learned.ring.from_options import SHIPPED
from chipmap.learned.ring.judging import worth_of
from chipmap.learned.ring.ppo import Learner
from chipmap.learned.ring.recipe import MANY, OURS, REFINED
from chipmap.report.canvas import COLOURS, picture

STRATEGIES = (
    *("random", "annealing", "prior at 1", "prior", "scratch", "zero-shot", "fine-tuned"),
    *("scratch, freer", "fine-tuned, freer"),
    *("prior, refined", "scratch, refined", "fine-tuned, refined"),
)
#: A recipe for many graphs on a single one: 60 samples scatter by more than 2%, and going back each time they seem to
#: be worse halves the rate until nothing is learnt. Half of the samples are the prior's, instead of an anchor to it.
FREER: dict[str, Any] = {"keep": OURS.keep, "anchor": 0.0, "mixed": 0.5}
#: What the policies are compared with in pairs.
OTHERS = ("random", "annealing", "prior at 1", "prior", "prior, refined")
THRESHOLDS = (0.60, 0.75, 0.90)
#: Samples after which the best so far stands in the file.
AT = (1, 20, 50, 100, 200, 400, 1000, 5000)
COLUMNS = ("graph", "strategy", "seed", "samples", "seconds", *(f"best{n}" for n in AT), *map(str, THRESHOLDS))


def policy_of(name: str, sampler: Sampler, samples: int, seed: int, checkpoint: Path) -> Policy:
    """The strategy of that name."""
    problem = sampler.problem
    if name == "random":
        return Uniform()
    if name == "annealing":
        return Annealing(problem.n, problem.chips, seed, samples)
    if name == "prior at 1":
        return Learner(problem, MANY.replace(temperatures=(1.0,)), seed, learn=False)
    network, card = load(checkpoint)
    recipe = card.recipe.replace(**FREER) if name.endswith("freer") else card.recipe
    if name.endswith("refined"):
        recipe = REFINED.replace(layers=recipe.layers, width=recipe.width)
    learner = Learner(problem, recipe, seed, learn=name.startswith(("scratch", "fine-tuned")))
    if name.startswith(("zero-shot", "fine-tuned")):
        learner.network.load_state_dict(network.state_dict())
    return learner


def measured(row: Row, name: str, samples: int, seed: int, checkpoint: Path) -> list[Any]:
    """A line of the file."""
    sampler = Sampler(row.problem())
    if name == "greedy":
        chips = greedy(sampler.problem)
        value = None if chips is None else int(Evaluator(sampler.problem)(np.array([chips]))[0])
        best = np.array([row.optimum / value if value else 0.0])
        began = time.process_time()
    else:
        policy, began = policy_of(name, sampler, samples, seed, checkpoint), time.process_time()
        worth = list(worth_of(sampler, policy, float(row.optimum), samples, seed))
        best = np.maximum.accumulate(np.array(worth))
    first = [int(np.argmax(best >= one)) + 1 if best[-1] >= one else "" for one in THRESHOLDS]
    after = [f"{best[min(n, len(best)) - 1]:.6f}" if n <= len(best) else "" for n in AT]
    return [row.name, name, seed, len(best), f"{time.process_time() - began:.2f}", *after, *first]


def measure(path: Path, samples: int, seeds: int, most: int, checkpoint: Path, only: Sequence[str]) -> None:
    """Make the runs that the file lacks, of the strategies ``only``, on graphs of up to ``most`` operations."""
    done = {(line["graph"], line["strategy"], line["seed"]) for line in lines_of(path)} if path.exists() else set()
    sized = [(row.problem().n, row) for row in rows_of("test")]
    rows = [row for n, row in sorted(sized, key=lambda one: one[0]) if n <= most]
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if not done:
            writer.writerow(COLUMNS)
        for seed in range(seeds):
            for row in rows:
                for name in only:
                    if (row.name, name, str(seed)) in done or (name == "greedy" and seed):
                        continue
                    writer.writerow(measured(row, name, samples, seed, checkpoint))
                    file.flush()


def lines_of(path: Path) -> list[dict[str, str]]:
    """The file's lines."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def geomean(values: Iterable[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(np.maximum(1e-9, list(values))))))


def strategies(lines: Sequence[dict[str, str]]) -> list[str]:
    """Those that are there, but for greedy."""
    return [name for name in STRATEGIES if any(line["strategy"] == name for line in lines)]


def whole(lines: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """The lines of those graphs and seeds that every strategy has a run of."""
    made: dict[tuple[str, str], set[str]] = {}
    for line in lines:
        made.setdefault((line["graph"], line["seed"]), set()).add(line["strategy"])
    wanted = set(strategies(lines))
    pairs = {pair for pair, names in made.items() if names.issuperset(wanted)}
    graphs = {graph for graph, _ in pairs}
    greedy_too = [line for line in lines if line["strategy"] == "greedy" and line["graph"] in graphs]
    return [
        line for line in lines if line["strategy"] != "greedy" and (line["graph"], line["seed"]) in pairs
    ] + greedy_too


def pairs(lines: Sequence[dict[str, str]]) -> str:
    """How many graphs each seed has runs on, in words."""
    seeds = sorted({line["seed"] for line in lines if line["strategy"] != "greedy"}, key=int)
    counts = [len({one["graph"] for one in lines if (one["strategy"], one["seed"]) == ("random", at)}) for at in seeds]
    if len(set(counts)) == 1 and len(seeds) > 1:
        return f"{counts[0]} graphs with each of the seeds {', '.join(seeds)}"
    return ", ".join(f"{count} graphs with seed {at}" for at, count in zip(seeds, counts, strict=True))


def ratios(lines: Sequence[dict[str, str]], last: str) -> list[str]:
    """Table of what the policies reach over what others reach on the same graph with the same seed, as Markdown."""
    best = {(line["strategy"], line["graph"], line["seed"]): float(line[last]) for line in lines if line[last]}
    seeds = sorted({line["seed"] for line in lines})
    others = [name for name in OTHERS if name in strategies(lines)]
    text = [f"| {last.replace('best', 'best after ')}: | {' | '.join(f'over {name}' for name in others)} |"]
    text.append("| --- |" + " --: |" * len(others))
    for name in strategies(lines):
        if name in others and not name.endswith("refined"):
            continue
        cells = []
        for other in others:
            shares = {
                seed: [
                    best[name, graph, seed] / best[other, graph, seed]
                    for one, graph, at in best
                    if (one, at) == (name, seed)
                ]
                for seed in seeds
            }
            every = [geomean(values) for values in shares.values() if values]
            spread = f" ({min(every) - 1:+.1%} to {max(every) - 1:+.1%})" if len(every) > 1 else ""
            cells.append(f"{geomean(itertools.chain(*shares.values())) - 1:+.1%}{spread}")
        text.append(f"| {name} | " + " | ".join(cells) + " |")
    return text


def tables(lines: Sequence[dict[str, str]]) -> str:
    """All tables, as Markdown."""
    names = strategies(lines)
    of = {name: [line for line in lines if line["strategy"] == name] for name in ("greedy", *names)}
    ends = sorted({int(line["samples"]) for line in lines if line["strategy"] != "greedy"})
    assert len(ends) == 1, "all runs have equally many samples"
    marks = [n for n in AT if n <= ends[0]]
    head = [f"samples to {one:.2f}" for one in THRESHOLDS] + [f"best after {n}" for n in marks]
    text = ["| strategy | runs | " + " | ".join(head) + " | CPU s |", "| --- |" + " --: |" * (len(head) + 2)]
    for name in names:
        cells = []
        for one in THRESHOLDS:
            never = sum(not line[str(one)] for line in of[name])
            found = geomean(float(line[str(one)] or line["samples"]) for line in of[name])
            cells.append(f"{found:.1f}" + (f" ({never} never)" if never else ""))
        cells += [f"{geomean(float(line[f'best{n}']) for line in of[name]):.3f}" for n in marks]
        seconds = sum(float(line["seconds"]) for line in of[name])
        text.append(f"| {name} | {len(of[name])} | " + " | ".join(cells) + f" | {seconds:.0f} |")
    text += ["", *ratios(lines, f"best{marks[-1]}")]
    text += ["", f"| graph | greedy | {' | '.join(names)} |", "| --- |" + " --: |" * (len(names) + 1)]
    last = f"best{marks[-1]}"
    better, runs = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    gaps: dict[str, list[float]] = {name: [] for name in ("greedy", *names)}
    for own in of["greedy"]:
        cells = [f"{100 * (1 - float(own['best1'])):.1f}%"]
        gaps["greedy"].append(1 - float(own["best1"]))
        for name in names:
            values = [float(line[last]) for line in of[name] if line["graph"] == own["graph"]]
            mean = np.mean(values)
            better[name] += bool(mean > float(own["best1"]))
            runs[name] += sum(value > float(own["best1"]) for value in values)
            gaps[name].append(1 - float(mean))
            cells.append(f"{100 * (1 - mean):.1f}%")
        text.append(f"| {own['graph']} | " + " | ".join(cells) + " |")
    medians = [f"{100 * float(np.median(gaps[name])):.1f}%" for name in ("greedy", *names)]
    text.append("| **median gap** | " + " | ".join(medians) + " |")
    count = len(of["greedy"])
    text.append("| better than greedy | | " + " | ".join(f"{better[name]} of {count}" for name in names) + " |")
    shares = [f"{runs[name]} of {len(of[name])}" for name in names]
    text.append("| runs better than greedy | | " + " | ".join(shares) + " |")
    return "\n".join(text)


def gap_picture(lines: Sequence[dict[str, str]], path: Path) -> None:
    """The gaps of every graph as a picture."""
    last = f"best{max(n for n in AT if any(line[f'best{n}'] for line in lines if line['strategy'] != 'greedy'))}"
    found: dict[str, dict[str, list[float]]] = {}
    for line in lines:
        if line["strategy"] in ("greedy", "prior", "zero-shot", "fine-tuned"):
            value = line["best1" if line["strategy"] == "greedy" else last]
            found.setdefault(line["graph"], {}).setdefault(line["strategy"], []).append(1.0 - float(value))
    plot_gaps(found, path)


def plot_gaps(gaps: Mapping[str, Mapping[str, Sequence[float]]], path: str | Path) -> None:
    """Gap to the optimum (1 - optimum / objective) of each graph by strategy: the mean over seeds as a dot, least to
    largest as a line. ``gaps``: graph -> strategy -> a gap per seed, graphs from above."""
    strategies = list(dict.fromkeys(name for found in gaps.values() for name in found))
    with picture(path, (8.0, 1.2 + 0.34 * len(gaps))) as figure:
        axes = figure.subplots()
        for k, name in enumerate(strategies):
            own = [(i, found[name]) for i, found in enumerate(gaps.values()) if name in found]
            places = [i + 0.16 * (k - (len(strategies) - 1) / 2) for i, _ in own]
            colour = COLOURS[k % len(COLOURS)]
            axes.hlines(
                places,
                [100 * min(values) for _, values in own],
                [100 * max(values) for _, values in own],
                color=colour,
                linewidth=1.2,
            )
            means = [100 * sum(values) / len(values) for _, values in own]
            axes.plot(means, places, "o", color=colour, markersize=4.0, label=name)
        axes.set_yticks(range(len(gaps)), list(gaps))
        axes.invert_yaxis()
        axes.set_xlim(left=0.0)
        axes.grid(axis="x")
        axes.set_xlabel("gap to the proved optimum, %")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def main() -> None:
    """Measure or tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, metavar="FILE")
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--most", type=int, default=10**9, metavar="OPERATIONS")
    parser.add_argument("--only", nargs="+", default=("greedy", *STRATEGIES), choices=("greedy", *STRATEGIES))
    parser.add_argument("--checkpoint", type=Path, default=SHIPPED, metavar="NAME.pt")
    parser.add_argument("--table", type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    parser.add_argument("--note", metavar="TEXT", help="one more sentence for the page")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.csv:
        measure(arguments.csv, arguments.samples, arguments.seeds, arguments.most, arguments.checkpoint, arguments.only)
    if arguments.csv or arguments.table:
        lines = whole(lines_of(arguments.table or arguments.csv))
        found = tables(lines)
        print(found)
        if arguments.picture:
            gap_picture(lines, arguments.picture)
        if arguments.markdown:
            _, card = load(arguments.checkpoint)
            freer = ""
            if any(name.endswith("freer") for name in strategies(lines)):
                freer = " *Freer* ones learn with " + ", ".join(f"`{key}` {one:g}" for key, one in FREER.items()) + "."
            note = f" {arguments.note}" if arguments.note else ""
            load_now = ", ".join(f"{one:.1f}" for one in os.getloadavg())
            head = f"""# The pre-trained ring policy against proven optima

`python -m benchmarks.ring_learned --csv FILE --samples {arguments.samples} --seeds {arguments.seeds}`, one thread,
PyTorch {torch.__version__}, load averages at the end {load_now}. The checkpoint was trained with {card.samples:,}
samples of {len(card.instances)} graphs ({card.recipe.layers} layers of {card.recipe.width}). CPU seconds are those of
all runs of a strategy. Prior, scratch, zero-shot and fine-tuned have one recipe, that of the checkpoint (temperatures
{", ".join(f"{one:g}" for one in card.recipe.temperatures)}); *prior at 1* has one temperature.{freer}

The first table: samples until the best so far is a threshold's share of the proven optimum (geometric mean over graphs
and seeds; a run that never gets there counts as all its samples), and the best after some samples (geometric mean of
optimum / objective). The second: how much better the best after all samples is (geometric mean of the ratios on the
same graph with the same seed; in brackets the least and the largest of the seeds' own means). The third: the gap to
the optimum after all samples, mean over seeds; in its last rows what is better than greedy: means of graphs, and
single runs. Only graphs and seeds that every strategy has a run of count: {pairs(lines)}.{note}

"""
            shown = f"\n![Gap to the proved optimum]({arguments.picture.name})\n" if arguments.picture else ""
            arguments.markdown.write_text(head + found + "\n" + shown, encoding="utf-8")


if __name__ == "__main__":
    main()
