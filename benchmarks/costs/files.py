"""Programs of random chains and of networks of images as files, for `chipmap measure`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn


class Making(NamedTuple):
    """A program's name, the seed of its parameters, and what makes the module and the shape of its input."""

    name: str
    seed: int
    make: Callable[[], tuple[nn.Module, Sequence[int]]]


def write(folder: Path, makings: Iterable[Making]) -> Iterator[str]:
    """Export the programs that aren't there, and yield the name of each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, seed, make in makings:
        path = folder / f"{name}.pt2"
        if path.exists():
            continue
        torch.manual_seed(seed)
        module, shape = make()
        with torch.no_grad():
            torch.export.save(torch.export.export(module.eval(), (torch.randn(tuple(shape)),), strict=False), path)
        yield name
