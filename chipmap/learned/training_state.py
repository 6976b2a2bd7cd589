"""States of a training on disk: whole or not at all, and only for the run that they belong to.

A state is ``NAME-MARK.pt`` beside ``NAME.json``, which says its SHA-256 and what run it is of. The seal is written
last, and old states go after that: whenever the run is killed, seal and one state fit each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chipmap.learned.tensors import read_tensors
from chipmap.records import InputError, Record, read_bytes
from chipmap.records.files import write_whole

_ANEW = "Begin in a new folder."


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
        write_whole(folder / target, content)
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
            try:
                return read_tensors(data)
            except ValueError as error:
                raise InputError(f"holds a state that can't be read: {error}", str(path), _ANEW) from None
    what = f"holds no state whose SHA-256 is that of {name}.json"
    raise InputError(what, str(folder), _ANEW)


@contextmanager
def resuming(folder: Path) -> Iterator[None]:
    """Within it, a state that doesn't fit the run is an :class:`InputError`: one that another hand has changed."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # a state may lack anything, or have it in another shape
        said = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise InputError(f"holds a state that doesn't fit the run: {said}", str(folder), _ANEW) from None
