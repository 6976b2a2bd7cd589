"""The types of generators' parameters: their ranges are checked when a generator is called by name."""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec

from chipmap.records import InputError

#: How often a part repeats.
Count = Annotated[int, msgspec.Meta(ge=1, le=1000)]
#: Operations of a graph that is no network.
Many = Annotated[int, msgspec.Meta(ge=1, le=100_000)]
#: Things of which every pair is looked at, and chiplets along one side of a module.
Few = Annotated[int, msgspec.Meta(ge=1, le=2000)]
Side = Annotated[int, msgspec.Meta(ge=1, le=64)]
#: Length of a dimension.
Size = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
#: Bytes of a number.
WordBytes = Annotated[int, msgspec.Meta(ge=1, le=16)]
#: FLOP or bytes.
Whole = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
Seed = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


def require(holds: bool, what: str, where: str, remedy: str) -> None:
    """Raise :class:`InputError` unless ``holds``."""
    if not holds:
        raise InputError(what, where, remedy)


def require_divisible(name: str, value: Any, by: str, divisor: Any) -> None:
    """Raise :class:`InputError` unless ``divisor`` divides ``value``; ``by`` says what the divisor is in words."""
    below = value // divisor * divisor
    near = " or ".join(str(one) for one in (below, below + divisor) if one)
    changed = re.search(r"[a-z]\w*", by)
    remedy = f"Give a multiple, such as {near}{f', or change {changed[0]}' if changed else ''}."
    said = by if by == str(divisor) else f"{by} = {divisor}"
    require(value % divisor == 0, f"is {value}, not a multiple of {said}", name, remedy)
