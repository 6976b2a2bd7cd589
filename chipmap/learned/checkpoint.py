"""Checkpoints: a policy's weights, as tensors alone, beside a line of JSON that says what they are.

``NAME.pt`` holds what ``torch.save`` makes of a dictionary of tensors. ``NAME.json``, its card, holds the recipe, the
SHA-256 of ``NAME.pt``, and where the weights come from. Reading executes nothing of the file: first the sum is
compared, then ``torch.load`` reads with ``weights_only``, then names, shapes and types of all tensors must be the
recipe's, and every number there and finite. What fails is refused with the reason
(:class:`~chipmap.records.InputError`).
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from chipmap.learned.tensors import MOST_BYTES, read_tensors
from chipmap.records import InputError, Record, read_bytes
from chipmap.records.files import write_whole

Card = TypeVar("Card", bound=Record)


def write(path: Path, network: nn.Module, card: Callable[[str], Card]) -> Card:
    """Write ``path`` (``NAME.pt``) and the card ``NAME.json`` that is made of its SHA-256."""
    buffer = io.BytesIO()
    torch.save({name: value.detach().cpu().clone() for name, value in network.state_dict().items()}, buffer)
    data = buffer.getvalue()
    made = card(hashlib.sha256(data).hexdigest())
    for target, content in ((path, data), (path.with_suffix(".json"), made.to_json(indent=2))):
        write_whole(target, content)
    return made


def fill(path: Path, sha256: str, network: nn.Module) -> None:
    """Give a network the weights in ``path``. Raises :class:`InputError` for what isn't its checkpoint."""
    data = _bytes(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise _refused(path, "its SHA-256 isn't the one in its card")
    try:
        found = read_tensors(data)
    except ValueError as error:
        raise _refused(path, str(error)) from None
    _fits(path, found, network.state_dict())
    network.load_state_dict(found)


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
