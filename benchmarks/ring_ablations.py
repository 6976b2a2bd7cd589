"""What each part of the ring policy is worth, one change at a time, on the five validation graphs. Needs torch.

    python -m benchmarks.ring_ablations --csv FILE [--samples 200] [--seeds 3] [--only TABLE …]
        [--checkpoint NAME=FILE.pt]…
    python -m benchmarks.ring_ablations --csv FILE --table [--markdown FILE]

Every variant is run on every graph with every seed; its samples are worth optimum / objective (0 without a valid
mapping), the optimum is proved. The CSV has a line per run; a run that is in it is not made again. Tables: the mean of
a sample, the mean of the last 100 ones, the best of the first 20, 64 and of all, means over graphs and seeds, and for
the best of 64 and of all the standard deviation of the seeds' means. One table has the trained policies as they are
on the 16 test graphs, one (``long``) has runs of :data:`LONG` samples.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.learned.ring.checkpoint import load
from chipmap.learned.ring.data import Row, Split, rows_of
from chipmap.learned.ring.judging import worth_of
from chipmap.learned.ring.ppo import Learner
from chipmap.learned.ring.recipe import MANY, Recipe

COLUMNS = ("table", "variant", "graph", "seed", "samples", "seconds", "mean", "last", "best20", "best64", "best")
#: Name -> title of each table, in the order that they are measured.
TITLES = {
    "scratch": "From scratch, one change at a time",
    "as it is": "Rollouts kept apart: the policy stays as it is (zero-shot)",
    "test": "The 16 test graphs: policies as they are (zero-shot)",
    "learning": "Rollouts kept apart: the policy learns on the graph",
    "long": "Long runs: what is left to learn",
}
#: Samples of a run of the last table.
LONG = 5_000
#: The samples at the end whose mean says what was learnt.
LAST = 100


class Variant(NamedTuple):
    """A row of a table: its name, the recipe, whether it learns, and the checkpoint that it begins with."""

    name: str
    recipe: Recipe
    learn: bool = True
    checkpoint: Path | None = None


#: What is changed: the recipe for many graphs, without what keeps its rollouts apart.
BASE = MANY.replace(temperatures=(1.0,), anchor=0.0)
#: Our recipe with one change each, from scratch.
SCRATCH = (
    Variant("ours", BASE),
    Variant("the prior alone: nothing is learnt", BASE, learn=False),
    Variant("the proposed assignment is credited", BASE.replace(credit="proposed")),
    Variant("no prior", BASE.replace(prior=False)),
    Variant("advantage by reward", BASE.replace(advantage="reward")),
    Variant("two rounds (T = 2)", BASE.replace(rounds=2)),
    Variant("four rounds (T = 4)", BASE.replace(rounds=4)),
    Variant("FIX", BASE.replace(repair="fix")),
    Variant("FIX, the proposed assignment is credited", BASE.replace(repair="fix", credit="proposed")),
    Variant("never back to the best weights", BASE.replace(keep=0.0)),
    Variant(
        "the paper's: no prior, proposed, by reward, SAMPLE",
        BASE.replace(prior=False, credit="proposed", advantage="reward"),
    ),
    Variant(
        "the paper's: no prior, proposed, by reward, FIX",
        BASE.replace(prior=False, credit="proposed", advantage="reward", repair="fix"),
    ),
)
SPREAD = (0.25, 0.5, 1.0, 2.0)
#: Ways to keep rollouts apart that change what is drawn: name -> changes of the recipe.
APART: dict[str, dict[str, Any]] = {
    "temperature 1": {},
    "temperature 1/4": {"temperatures": (0.25,)},
    "temperature 2": {"temperatures": (2.0,)},
    "temperatures 1/4 to 2": {"temperatures": SPREAD},
    "half from the prior": {"mixed": 0.5},
    "half from the prior, temperatures 1/4 to 2": {"mixed": 0.5, "temperatures": SPREAD},
}
#: Those that are tried while a policy learns, and ways that only change how it learns.
LEARNING = ("temperature 1", "temperatures 1/4 to 2", "half from the prior, temperatures 1/4 to 2")
WHEN_LEARNING: dict[str, dict[str, Any]] = {
    "entropy 0.03": {"entropy": 0.03},
    "anchor 0.05": {"anchor": 0.05},
    "temperatures 1/4 to 2, anchor 0.05": {"anchor": 0.05, "temperatures": SPREAD},
}
#: Long runs from scratch; all draw at four temperatures.
APART_LONG = BASE.replace(temperatures=SPREAD)
LONG_RUNS = (
    Variant("the prior alone: nothing is learnt", APART_LONG, learn=False),
    Variant("no anchor", APART_LONG),
    Variant("anchor 0.1", APART_LONG.replace(anchor=0.1)),
    Variant("anchor 1 (the shipped policy's recipe)", APART_LONG.replace(anchor=1.0)),
)


def variants(checkpoints: dict[str, Path]) -> Iterator[tuple[str, Variant]]:
    """(table, variant) of all that is measured; ``checkpoints`` are named."""
    for one in SCRATCH:
        yield "scratch", one
    for label, path in {"untrained": None, **checkpoints}.items():
        for name, changes in APART.items():
            # the prior beside the prior is nothing new
            if path is not None or "mixed" not in changes:
                yield "as it is", Variant(f"{label}, {name}", BASE.replace(**changes), False, path)
        for name in LEARNING:
            yield "learning", Variant(f"{label}, {name}", BASE.replace(**APART[name]), True, path)
            if path is not None or "mixed" not in APART[name]:
                yield "test", Variant(f"{label}, {name}", BASE.replace(**APART[name]), False, path)
    for name, changes in WHEN_LEARNING.items():
        yield "learning", Variant(f"untrained, {name}", BASE.replace(**changes))
    for one in LONG_RUNS:
        yield "long", one


def measured(row: Row, sampler: Sampler, variant: Variant, samples: int, seed: int) -> list[Any]:
    """Graph, seed, samples, CPU seconds and what the samples are worth."""
    learner = Learner(sampler.problem, variant.recipe, seed, variant.learn)
    if variant.checkpoint is not None:
        learner.network.load_state_dict(load(variant.checkpoint)[0].state_dict())
    began = time.process_time()
    worth = np.array(list(worth_of(sampler, learner, float(row.optimum), samples, seed)))
    seconds = time.process_time() - began
    figures = (worth.mean(), worth[-LAST:].mean(), worth[:20].max(), worth[:64].max(), worth.max())
    return [row.name, seed, samples, f"{seconds:.2f}", *(f"{one:.6f}" for one in figures)]


def measure(path: Path, samples: int, seeds: int, checkpoints: dict[str, Path], tables: Sequence[str]) -> None:
    """Make the runs of the ``tables`` that the file lacks, table by table and seed by seed."""
    done = {tuple(line[key] for key in COLUMNS[:4]) for line in lines_of(path)} if path.exists() else set()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if not done:
            writer.writerow(COLUMNS)
        for table in tables:
            count = LONG if table == "long" else samples
            split: Split = "test" if table == "test" else "validation"
            samplers = [(row, Sampler(row.problem())) for row in rows_of(split)]
            own = [one for name, one in variants(checkpoints) if name == table]
            for seed, variant in itertools.product(range(seeds), own):
                for row, sampler in samplers:
                    if (table, variant.name, row.name, str(seed)) not in done:
                        writer.writerow([table, variant.name, *measured(row, sampler, variant, count, seed)])
                file.flush()


def lines_of(path: Path) -> list[dict[str, str]]:
    """The file's lines."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table_of(lines: Sequence[dict[str, str]], table: str) -> str:
    """One of the tables, as Markdown."""
    own = [line for line in lines if line["table"] == table]
    samples = max(int(line["samples"]) for line in own)
    head = (
        "variant",
        "runs",
        "mean",
        f"mean of the last {LAST}",
        "best of 20",
        "best of 64",
        f"best of {samples}",
        "CPU s",
    )
    text = ["| " + " | ".join(head) + " |", "| --- |" + " --: |" * (len(head) - 1)]
    for name in dict.fromkeys(line["variant"] for line in own):
        runs = [line for line in own if line["variant"] == name]
        cells = [name, str(len(runs))]
        for column in ("mean", "last", "best20", "best64", "best"):
            of_seed: dict[str, list[float]] = {}
            for line in runs:
                of_seed.setdefault(line["seed"], []).append(float(line[column]))
            means = [float(np.mean(values)) for values in of_seed.values()]
            cell = f"{np.mean(means):.3f}"
            if column in ("best64", "best") and len(means) > 1:
                cell += f" ± {np.std(means, ddof=1):.3f}"
            cells.append(cell)
        cells.append(f"{sum(float(line['seconds']) for line in runs):.0f}")
        text.append("| " + " | ".join(cells) + " |")
    return "\n".join(text)


def page(lines: Sequence[dict[str, str]]) -> str:
    """All tables with their titles."""
    there = [table for table in TITLES if any(line["table"] == table for line in lines)]
    return "\n\n".join(f"## {TITLES[table]}\n\n{table_of(lines, table)}" for table in there)


def named(text: str) -> tuple[str, Path]:
    """NAME=PATH."""
    name, _, path = text.partition("=")
    return name, Path(path)


def main() -> None:
    """Measure or tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, metavar="FILE", required=True)
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=tuple(TITLES), choices=tuple(TITLES))
    parser.add_argument("--checkpoint", type=named, action="append", default=[], metavar="NAME=FILE.pt")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    checkpoints = dict(arguments.checkpoint)
    if not arguments.table:
        measure(arguments.csv, arguments.samples, arguments.seeds, checkpoints, arguments.only)
    found = page(lines_of(arguments.csv))
    print(found)
    if arguments.markdown:
        trained = [
            f"{name}: {card.samples:,} samples" for name, card in ((n, load(p)[1]) for n, p in checkpoints.items())
        ]
        load_now = ", ".join(f"{one:.1f}" for one in os.getloadavg())
        head = f"""# Parts of the ring policy, one by one

`python -m benchmarks.ring_ablations --csv FILE --samples {arguments.samples} --seeds {arguments.seeds}` with a
`--checkpoint NAME=FILE.pt` for each trained policy ({"; ".join(trained) or "none"}). One thread, PyTorch
{torch.__version__}, load averages at the end {load_now}.

The five validation graphs (SqueezeNet, U-Net), 4 layers of 64. A sample is worth optimum / objective. Means over
graphs and seeds; ± is the standard deviation of the seeds' means; CPU seconds are those of all runs. *Runs* are graphs
times seeds: a table that was ended early has fewer seeds.

"""
        arguments.markdown.write_text(head + found + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
