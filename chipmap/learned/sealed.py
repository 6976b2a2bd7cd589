"""States of a training on disk: whole or not at all, and only for the run that they belong to.

A state is ``NAME-MARK.pt`` beside ``NAME.json``, which says its SHA-256 and what run it is of. The seal is written
last, and old states go after that: whenever the run is killed, seal and one state fit each other.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import torch

from chipmap.records import InputError, Record, read_bytes


class _Seal(Record, frozen=True, kw_only=True):
    """The SHA-256 of a state, and of the recipe, seed and instances that it belongs to."""

    sha256: str
    of: str


def write_sealed(folder: Path, name: str, data: bytes, of: str, mark: str) -> None:
    """Write a state; ``of`` names its run, ``mark`` its place in it."""
    folder.mkdir(parents=True, exist_ok=True)
    seal = _Seal(sha256=hashlib.sha256(data).hexdigest(), of=of)
    file = f"{name}-{mark}.pt"
    for target, content in ((file, data), (f"{name}.json", seal.to_json())):
        partial = folder / f"{target}.partial"
        partial.write_bytes(content)
        partial.replace(folder / target)
    for old in folder.glob(f"{name}-*.pt"):
        if old.name != file:
            old.unlink()


def read_sealed(folder: Path, name: str, of: str) -> Any:
    """The state that the seal is of, read with weights only. Raises :class:`InputError` for another run's, and where
    no state fits the seal."""
    seal = _Seal.read(folder / f"{name}.json")
    if seal.of != of:
        raise InputError("belongs to another run", str(folder), "Give another folder, or that run's recipe and seed.")
    for path in sorted(folder.glob(f"{name}-*.pt")):
        data = read_bytes(path)
        if hashlib.sha256(data).hexdigest() == seal.sha256:
            return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    what = f"holds no state whose SHA-256 is that of {name}.json"
    raise InputError(what, str(folder), "Begin in a new folder.")
