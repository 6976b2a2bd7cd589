"""Where the published graphs lie: under $CHIPMAP_DATA, else ../shared/data beside the checkout. Tests skip without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CHIPMAP_DATA") or Path(__file__).parents[2].parent / "shared" / "data") / "graphs"
FORMATS = {
    "traced": ("torchvision-like/*.json", "transformers-like/*.json"),
    "dnn-partitioning": ("dnn-partitioning/*-inputs/*/*.json",),
    "piper": ("piper/*.json",),
    "pipedream": ("pipedream/*.graph.txt",),
}


def published(name: str) -> Path:
    """The file ``name`` of the folder of graphs; skips the test when it isn't there."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"{path} is not there (set CHIPMAP_DATA)")
    return path


def all_published(kind: str) -> list[Path]:
    """All files of a format; skips the test when there is none."""
    found = sorted(path for pattern in FORMATS[kind] for path in FOLDER.glob(pattern))
    if not found:
        pytest.skip(f"no {kind} graphs in {FOLDER} (set CHIPMAP_DATA)")
    return found
