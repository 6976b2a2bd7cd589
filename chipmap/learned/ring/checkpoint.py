"""Checkpoints: a policy's weights, as tensors alone, beside a line of JSON that says what they are.

``NAME.pt`` holds what ``torch.save`` makes of a dictionary of tensors. ``NAME.json`` holds the recipe, the SHA-256 of
``NAME.pt``, and where the weights come from. Reading executes nothing of the file: first the sum is compared, then
``torch.load`` reads with ``weights_only``, then names, shapes and types of all tensors must be the recipe's, and every
number there and finite. What fails is refused with the reason (:class:`~chipmap.records.InputError`).
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any, Literal

import torch

from chipmap.learned.ring.policy import RingPolicy
from chipmap.learned.ring.recipe import Recipe
from chipmap.learned.tensors import MOST_BYTES, read_tensors
from chipmap.records import InputError, Record, read_bytes


class Card(Record, frozen=True, kw_only=True):
    """What a checkpoint is: its recipe, the SHA-256 of its weights, samples it was trained with and the instances."""

    schema: Literal["ring-policy-card/1"] = "ring-policy-card/1"
    recipe: Recipe
    sha256: str
    samples: int = 0
    instances: tuple[str, ...] = ()


def save(path: Path, network: RingPolicy, recipe: Recipe, samples: int = 0, instances: tuple[str, ...] = ()) -> Card:
    """Write ``path`` (``NAME.pt``) and its card ``NAME.json``; ``instances`` are the content hashes trained on."""
    buffer = io.BytesIO()
    torch.save({name: value.detach().cpu().clone() for name, value in network.state_dict().items()}, buffer)
    data = buffer.getvalue()
    card = Card(recipe=recipe, sha256=hashlib.sha256(data).hexdigest(), samples=samples, instances=instances)
    for target, content in ((path, data), (path.with_suffix(".json"), card.to_json(indent=2))):
        partial = target.with_name(target.name + ".partial")
        partial.write_bytes(content)
        partial.replace(target)
    return card


def load(path: Path) -> tuple[RingPolicy, Card]:
    """The policy of a checkpoint, and its card. Raises :class:`InputError` for whatever isn't one."""
    card, data = Card.read(path.with_suffix(".json")), _bytes(path)
    card.recipe.check()
    if hashlib.sha256(data).hexdigest() != card.sha256:
        raise _refused(path, "its SHA-256 isn't the one in its card")
    try:
        found = read_tensors(data)
    except ValueError as error:
        raise _refused(path, str(error)) from None
    network = RingPolicy(card.recipe.layers, card.recipe.width)
    _fits(path, found, network.state_dict())
    network.load_state_dict(found)
    return network, card


def _bytes(path: Path) -> bytes:
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise _refused(path, f"it has {path.stat().st_size:,} bytes")
    return read_bytes(path)


def _fits(path: Path, found: Any, wanted: dict[str, torch.Tensor]) -> None:
    """Refuse what isn't the wanted tensors, by names, types and shapes, with finite numbers."""
    if not isinstance(found, dict) or set(found) != set(wanted):
        raise _refused(path, "its tensors aren't those of its recipe")
    for name, value in wanted.items():
        other = found[name]
        if not isinstance(other, torch.Tensor) or other.shape != value.shape or other.dtype != value.dtype:
            raise _refused(path, f"tensor {name} isn't the recipe's: {tuple(value.shape)} of {value.dtype}")
        if other.device.type != "cpu" or other.layout != torch.strided:  # a tensor on "meta" has a shape alone
            raise _refused(path, f"tensor {name} has no numbers of its own ({other.device.type}, {other.layout})")
        if not bool(torch.isfinite(other).all()):
            raise _refused(path, f"tensor {name} holds numbers that aren't finite")


def _refused(path: Path, why: str) -> InputError:
    return InputError(f"is refused as a checkpoint: {why}", str(path), "Take one that chipmap has written.")
