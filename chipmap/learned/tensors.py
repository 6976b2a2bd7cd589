"""What ``torch.save`` wrote, read without executing anything of it and without unpacking more than it can need."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import torch

from chipmap.records import InputError

#: More bytes are no policy and no state of a training: the largest recipe has 0.2 GB.
MOST_BYTES = 1 << 30


def read_tensors(data: bytes) -> Any:
    """The tensors, lists and dictionaries in ``data``. Raises :class:`ValueError` with the reason for anything else.

    ``torch.save`` packs nothing. What is packed, or unpacks to more than :data:`MOST_BYTES`, is not its work.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except Exception as error:  # zipfile raises errors of many classes
        raise ValueError(f"it holds more than tensors, or is damaged ({type(error).__name__})") from None
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("its tensors are packed, as torch.save doesn't")
    if sum(entry.file_size for entry in entries) > MOST_BYTES:
        raise ValueError(f"it unpacks to more than {MOST_BYTES:,} bytes")
    try:
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever the bytes make it raise
        raise ValueError(f"it holds more than tensors, or is damaged ({type(error).__name__})") from None


def require_device(name: str) -> None:
    """Raise :class:`InputError` where PyTorch can't compute on a device of that name."""
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        said = str(error).splitlines()[0][:160]
        raise InputError(f"is {name!r}, which PyTorch can't use: {said}", "--device", "Give cpu, or cuda.") from None
