"""What a checkpoint of the policy of moves is worth on graphs that it wasn't trained on.

A process of its own judges (``python -m chipmap.learned.placement.judging CHECKPOINT SPLIT EVALUATIONS SEED`` prints a
line of JSON), so that training goes on meanwhile.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np

from chipmap.learned.ring.judging import Judged


def judge(checkpoint: Path, split: str, evaluations: int, seed: int = 0) -> Judged:
    """Means over the graphs of a split of (step time of the best human split) / (that after so many evaluations): of
    the policy as it is (``zero_shot``), and learning on the graph (``tuned``). Raises
    :class:`~chipmap.records.InputError` for what is no checkpoint."""
    import torch

    from chipmap.learned.placement.checkpoint import load
    from chipmap.learned.placement.data import Split, rows_of
    from chipmap.learned.placement.moves import MoveTrainer, Walk, walk
    from chipmap.learned.placement.scene import Scene

    torch.set_num_threads(1)
    network, card = load(checkpoint)
    found: dict[bool, list[float]] = {False: [], True: []}
    for row in rows_of(cast(Split, split)):
        scene = Scene(row.problem())
        for learn, shares in found.items():
            trainer = MoveTrainer(card.recipe, seed)
            trainer.network.load_state_dict(network.state_dict())
            task = Walk(scene, card.recipe, seed)
            first = task.worth.step
            shares.append(first / max(1, walk(task, trainer, evaluations, learn).step))
    zero_shot, tuned = (round(float(np.mean(shares)), 6) for shares in found.values())
    return Judged(samples=evaluations, zero_shot=zero_shot, tuned=tuned)


def judged_elsewhere(weights: bytes, card: bytes, evaluations: int, seed: int) -> Judged:
    """:func:`judge` on the validation graphs, where the checkpoint comes as the bytes of its two files."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "judged.pt"
        path.write_bytes(weights)
        path.with_suffix(".json").write_bytes(card)
        return judge(path, "validation", evaluations, seed)


if __name__ == "__main__":
    path, split, evaluations, seed = sys.argv[1:]
    sys.stdout.buffer.write(judge(Path(path), split, int(evaluations), int(seed)).to_json() + b"\n")
