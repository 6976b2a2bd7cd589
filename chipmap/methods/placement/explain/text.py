"""Times and bytes of placements as people read them."""

from __future__ import annotations


def duration(ns: float) -> str:
    """A time in the unit that suits it, six significant digits: ``49.1234 ms``."""
    scale, unit = next(((s, u) for s, u in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")) if abs(ns) >= s), (1, "ns"))
    return f"{ns / scale:.6g} {unit}"


def size(count: int) -> str:
    """Bytes in the unit that suits them: ``1.5 GiB``."""
    units = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
    scale, unit = next(((s, u) for s, u in units if count >= s), (1, "bytes"))
    return f"{count / scale:.4g} {unit}"
