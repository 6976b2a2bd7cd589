"""BERT-large on 36 chips by learned policies: the paper's recipe beside ours (paper, table 3). Needs torch.

    python -m benchmarks.ring_learned_bert --csv FILE [--samples 400] [--seeds 3] [--paper NAME.pt]
    python -m benchmarks.ring_learned_bert --csv FILE --table [--markdown FILE]

Strategies: random search, annealing, our prior without a network, and of either recipe training from scratch, the
pre-trained policy as it is (zero-shot) and learning on (fine-tuned). ``--paper``: a checkpoint trained by the paper's
recipe on the same 66 graphs (without it there are no rows for that). Ours is the one that is shipped; both recipes have
its sizes. A sample is worth optimum / objective; ``ring/auto`` proves the optimum. The CSV has a line per run; a run
that is in it is not made again.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.ring_learned import THRESHOLDS, geomean, lines_of
from chipmap.heuristics.ring.greedy import greedy
from chipmap.heuristics.ring.sampling.evaluate import Evaluator
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import Annealing, Policy, Uniform
from chipmap.inputs.reading import read
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.learned.ring.checkpoint import load
from chipmap.learned.ring.from_options import SHIPPED
from chipmap.learned.ring.judging import worth_of
from chipmap.learned.ring.ppo import Learner
from chipmap.solve import solve

INSTANCE = "ring/bert-large-36"
#: Samples after which the best so far stands in the file.
AT = (1, 20, 100, 200, 400, 1000)
COLUMNS = ("strategy", "seed", "samples", "seconds", "mean", *(f"best{n}" for n in AT), *map(str, THRESHOLDS))


def strategies(sampler: Sampler, samples: int, seed: int, paper: Path | None) -> Iterator[tuple[str, Policy]]:
    """(name, strategy), the cheap ones first."""
    problem = sampler.problem
    yield "random", Uniform()
    yield "annealing", Annealing(problem.n, problem.chips, seed, samples)
    for recipe, path in (("ours", SHIPPED), ("paper's", paper)):
        if path is None:
            continue
        network, card = load(path)
        yield f"{recipe}, untrained", Learner(problem, card.recipe, seed, learn=False)
        yield f"{recipe}, from scratch", Learner(problem, card.recipe, seed)
        for name, learn in (("zero-shot", False), ("fine-tuned", True)):
            learner = Learner(problem, card.recipe, seed, learn)
            learner.network.load_state_dict(network.state_dict())
            yield f"{recipe}, {name}", learner


def measure(path: Path, sampler: Sampler, optimum: float, samples: int, seeds: int, paper: Path | None) -> None:
    """Make the runs that the file lacks, seed by seed."""
    done = {(line["strategy"], line["seed"]) for line in lines_of(path)} if path.exists() else set()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        if not done:
            writer.writerow(COLUMNS)
        for seed in range(seeds):
            for name, policy in strategies(sampler, samples, seed, paper):
                if (name, str(seed)) in done:
                    continue
                began = time.process_time()
                worth = np.array(list(worth_of(sampler, policy, optimum, samples, seed)))
                writer.writerow([name, seed, samples, f"{time.process_time() - began:.1f}", *figures(worth)])
                file.flush()


def figures(worth: np.ndarray[Any, np.dtype[np.float64]]) -> list[Any]:
    """The mean, the best after :data:`AT` samples, and the first sample at each threshold (empty: never)."""
    best = np.maximum.accumulate(worth)
    after = [f"{best[n - 1]:.6f}" if n <= len(best) else "" for n in AT]
    first = [int(np.argmax(best >= one)) + 1 if best[-1] >= one else "" for one in THRESHOLDS]
    return [f"{worth.mean():.6f}", *after, *first]


def table(lines: Sequence[dict[str, str]]) -> str:
    """A row per strategy, and how many of from scratch's samples the fine-tuned policy needs."""
    samples = int(lines[0]["samples"])
    marks = [n for n in AT if n <= samples]
    head = ["runs", *(f"samples to {one:.2f}" for one in THRESHOLDS), "mean", *(f"best of {n}" for n in marks), "CPU s"]
    text = ["| strategy | " + " | ".join(head) + " |", "| --- |" + " --: |" * len(head)]
    needed: dict[str, list[float | None]] = {}
    for name in dict.fromkeys(line["strategy"] for line in lines):
        own = [line for line in lines if line["strategy"] == name]
        cells, needed[name] = [str(len(own))], []
        for one in THRESHOLDS:
            never = sum(not line[str(one)] for line in own)
            found = geomean(float(line[str(one)] or samples) for line in own)
            needed[name].append(None if never == len(own) else found)
            cells.append(f"{found:.0f}" + (f" ({never} never)" if never else ""))
        cells.append(f"{np.mean([float(line['mean']) for line in own]):.3f}")
        cells += [f"{geomean(float(line[f'best{n}']) for line in own):.3f}" for n in marks]
        cells.append(f"{sum(float(line['seconds']) for line in own):.0f}")
        text.append(f"| {name} | " + " | ".join(cells) + " |")
    for recipe in ("ours", "paper's"):
        if f"{recipe}, fine-tuned" in needed:
            pairs = zip(needed[f"{recipe}, fine-tuned"], needed[f"{recipe}, from scratch"], strict=True)
            factors = ", ".join(f"{tuned / scratch:.2f}" if tuned and scratch else "never" for tuned, scratch in pairs)
            text += ["", f"Fine-tuned / from scratch, samples to the thresholds, {recipe}: {factors}."]
    return "\n".join(text)


def main() -> None:
    """Measure or tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, metavar="FILE", required=True)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--paper", type=Path, metavar="NAME.pt")
    parser.add_argument("--table", action="store_true", help="measure nothing")
    parser.add_argument("--markdown", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    instance = read(INSTANCE)
    assert isinstance(instance, RingInstance)
    proved = solve(instance, "ring/auto", time_limit=60.0)
    assert proved.status == "optimal" and proved.objective is not None
    sampler = Sampler(ring_problem(contract(instance).instance))
    if not arguments.table:
        measure(arguments.csv, sampler, float(proved.objective), arguments.samples, arguments.seeds, arguments.paper)
    lines = lines_of(arguments.csv)
    found = table(lines)
    print(found)
    if arguments.markdown:
        arguments.markdown.write_text(head(arguments, sampler, proved.objective) + found + "\n", encoding="utf-8")


def head(arguments: argparse.Namespace, sampler: Sampler, optimum: int) -> str:
    """What was measured, and on what."""
    problem = sampler.problem
    chips = greedy(problem)
    own = optimum / int(Evaluator(problem)(np.array([chips]))[0]) if chips is not None else 0.0
    recipes = [f"ours: {load(SHIPPED)[1].samples:,} samples"]
    if arguments.paper:
        recipes.append(f"the paper's: {load(arguments.paper)[1].samples:,} samples")
    sizes = load(SHIPPED)[1].recipe
    load_now = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"""# BERT-large on 36 chips by learned policies

`python -m benchmarks.ring_learned_bert --csv FILE --samples {arguments.samples} --seeds {arguments.seeds}
--paper FILE.pt`, one thread, PyTorch {torch.__version__}, load averages at the end {load_now}.

`{INSTANCE}`: {problem.n} operations after contraction (the paper's graph has 2,138 nodes); the optimum is proved.
chipmap's greedy mapping alone is worth {own:.3f} of it. No training graph has attention. Both recipes have here
{sizes.layers} layers of {sizes.width}, T = {sizes.rounds}; pre-trained with {"; ".join(recipes)}.
The paper's recipe: no prior, the proposed assignment is credited, advantage by reward, FIX. The paper's table 3 has
2.55 to 2.65 times an unpublished greedy as thresholds; its fine-tuned policy reaches the second with 1/21 of the
samples from scratch.

Samples until the best so far is a threshold's share of the optimum (geometric mean over seeds; a run that never gets
there counts as all its samples); the mean of a sample; the best so far.

"""


if __name__ == "__main__":
    main()
