"""What a checkpoint is worth on graphs that it wasn't trained on: as it is, and after learning on each of them.

A process of its own judges (``python -m chipmap.learned.ring.judging CHECKPOINT SPLIT SAMPLES SEED`` prints a line of
JSON), so that training goes on meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast, get_args

import numpy as np

from chipmap.heuristics.ring.sampling.evaluate import INVALID
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.heuristics.ring.sampling.search import Policy, search
from chipmap.records import Record


class Judged(Record, frozen=True, kw_only=True):
    """Means over graphs. ``zero_shot``: what a sample is worth, optimum / objective, of a policy that stays as it is;
    ``tuned``: the best of 1, 2, … samples, averaged over their number, while the policy learns on the graph."""

    samples: int
    zero_shot: float
    tuned: float


def worth_of(sampler: Sampler, policy: Policy, optimum: float, samples: int, seed: int) -> Iterator[float]:
    """Optimum / objective of each of so many samples of a strategy; 0 for one without a valid mapping."""
    for _, value in search(sampler, policy, seed, samples):
        yield optimum / value if value < INVALID else 0.0


def judge(checkpoint: Path, split: str, samples: int, seed: int = 0) -> Judged:
    """The checkpoint on the graphs of a split. Raises :class:`~chipmap.records.InputError` for what is none."""
    import torch

    from chipmap.learned.ring.checkpoint import load
    from chipmap.learned.ring.data import Split, rows_of
    from chipmap.learned.ring.ppo import Learner

    torch.set_num_threads(1)
    network, card = load(checkpoint)
    as_it_is, tuned = list[float](), list[float]()
    for row in rows_of(cast(Split, split)):
        sampler = Sampler(row.problem())
        optimum = float(row.optimum or max(1, sampler.problem.least_ticks))
        for learns, found in ((False, as_it_is), (True, tuned)):
            learner = Learner(sampler.problem, card.recipe, seed, learns)
            learner.network.load_state_dict(network.state_dict())
            worth = list(worth_of(sampler, learner, optimum, samples, seed))
            found.append(float(np.mean(np.maximum.accumulate(worth) if learns else worth)))
    return Judged(samples=samples, zero_shot=_mean(as_it_is), tuned=_mean(tuned))


def judged_elsewhere(weights: bytes, card: bytes, samples: int, seed: int) -> Judged:
    """:func:`judge` on the validation graphs, where the checkpoint comes as the bytes of its two files."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "judged.pt"
        path.write_bytes(weights)
        path.with_suffix(".json").write_bytes(card)
        return judge(path, "validation", samples, seed)


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 6)


def main(arguments: Sequence[str]) -> None:
    """Judge and print."""
    from chipmap.learned.ring.data import Split

    path, split, samples, seed = arguments
    assert split in get_args(Split)
    sys.stdout.buffer.write(judge(Path(path), split, int(samples), int(seed)).to_json() + b"\n")


if __name__ == "__main__":
    main(sys.argv[1:])
