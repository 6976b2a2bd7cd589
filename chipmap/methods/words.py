"""Numbers, times, bytes and names as explanations say them."""

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


def duration(ns: float) -> str:
    """A time in the unit that suits it, six significant digits: ``49.1234 ms``."""
    scale, unit = next(((s, u) for s, u in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")) if abs(ns) >= s), (1, "ns"))
    return f"{ns / scale:.6g} {unit}"


def size(count: int) -> str:
    """Bytes in the unit that suits them: ``1.5 GiB``."""
    units = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
    scale, unit = next(((s, u) for s, u in units if count >= s), (1, "bytes"))
    return f"{count / scale:.4g} {unit}"
