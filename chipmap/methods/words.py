"""Numbers and names as explanations say them."""

from __future__ import annotations

from collections.abc import Iterable

#: Names listed in a sentence before "and N more".
LISTED = 3


def share(part: float, whole: float) -> str:
    """``part / whole`` in percent: ``12.3%``."""
    return f"{100 * part / whole:.3g}%" if whole else "n/a"


def listed(names: Iterable[str], count: int = LISTED) -> str:
    """``a, b, c and 4 more``."""
    all_ = list(names)
    more = len(all_) - count
    return ", ".join(all_[:count]) + (f" and {more} more" if more > 0 else "")
