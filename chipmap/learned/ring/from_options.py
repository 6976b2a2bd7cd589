"""The learner that a run's own options ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from chipmap.instances.ring.problem import RingProblem
from chipmap.learned.ring.checkpoint import load
from chipmap.learned.ring.ppo import OURS, PAPER, Learner
from chipmap.learned.ring.recipe import REFINED
from chipmap.records import InputError

#: The policy that ``--warm-start learned`` takes.
SHIPPED = Path(__file__).resolve().parents[1] / "checkpoints" / "ring.pt"
#: The first is the usual one.
RECIPES = {"refined": REFINED, "ours": OURS, "paper": PAPER}


def learner(problem: RingProblem, native: dict[str, Any], seed: int) -> Learner:
    """The policy of ``checkpoint`` (a path), or an untrained one of ``recipe``; ``learn`` false: it stays as it is.

    On one thread, so that the result doesn't depend on how many there are. Raises :class:`InputError`.
    """
    torch.set_num_threads(1)
    recipe, path, learn = native.get("recipe", "refined"), native.get("checkpoint"), native.get("learn", True)
    if recipe not in RECIPES:
        raise InputError(f"is {recipe!r}", "--native recipe", f"Give one of: {', '.join(RECIPES)}.")
    if not isinstance(learn, bool):
        raise InputError(f"is {learn!r}", "--native learn", "Give true or false.")
    if path is None:
        return Learner(problem, RECIPES[recipe], seed, learn)
    if not isinstance(path, str):
        raise InputError(f"is {path!r}", "--native checkpoint", "Give the path of NAME.pt.")
    if "recipe" in native:
        raise InputError("has a recipe of its own", "--native checkpoint", "Give no recipe beside it.")
    return _loaded(Path(path), problem, seed, learn)


def shipped(problem: RingProblem, seed: int) -> Learner:
    """The policy that is shipped, as it is. Raises :class:`InputError` for too many chips."""
    torch.set_num_threads(1)
    return _loaded(SHIPPED, problem, seed, learn=False)


def _loaded(path: Path, problem: RingProblem, seed: int, learn: bool) -> Learner:
    network, card = load(path)
    found = Learner(problem, card.recipe, seed, learn)
    found.network.load_state_dict(network.state_dict())
    return found
