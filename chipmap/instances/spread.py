"""How far measured periods lie from those by learned times: ``time_spread`` of an instance."""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.records import InputError

_REMEDY = "Give two numbers: at most 1, and at least 1; or none where times are measured."


def check_spread(spread: Sequence[float]) -> None:
    """Raise :class:`InputError` unless there are no factors, or one of at most 1 and one of at least 1."""
    if len(spread) not in (0, 2) or (spread and not 0 < spread[0] <= 1 <= spread[1] <= 1000):
        raise InputError(f"is {list(spread)}", "time_spread", _REMEDY)
