"""Checkpoints of family placement's policy (:mod:`chipmap.learned.checkpoint`)."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from chipmap.learned import checkpoint
from chipmap.learned.placement.moves import MovePolicy, MoveRecipe
from chipmap.records import Record


class Card(Record, frozen=True, kw_only=True):
    """What a checkpoint is: its recipe, the SHA-256 of its weights, the evaluations of the decoder and the instances
    that it was trained with."""

    schema: Literal["placement-moves-card/1"] = "placement-moves-card/1"
    recipe: MoveRecipe
    sha256: str
    samples: int = 0
    instances: tuple[str, ...] = ()


def save(
    path: Path, network: MovePolicy, recipe: MoveRecipe, samples: int = 0, instances: tuple[str, ...] = ()
) -> Card:
    """Write ``path`` (``NAME.pt``) and its card ``NAME.json``; ``instances`` are the content hashes trained on."""

    def card(sha256: str) -> Card:
        return Card(recipe=recipe, sha256=sha256, samples=samples, instances=instances)

    return checkpoint.write(path, network, card)


def load(path: Path) -> tuple[MovePolicy, Card]:
    """The policy of a checkpoint, and its card. Raises :class:`~chipmap.records.InputError` for whatever isn't one."""
    card = Card.read(path.with_suffix(".json"))
    card.recipe.check()
    network = MovePolicy(card.recipe)
    checkpoint.fill(path, card.sha256, network)
    return network, card
