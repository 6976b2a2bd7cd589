"""The fabric of family ``wafer``: its tiles, and those on which no kernel may lie (C5)."""

from __future__ import annotations

from typing import ClassVar

from chipmap.records import InputError, Record

#: Largest side of a fabric, and largest number of a rectangle: beyond them 64-bit counts overflow.
MAX_SIDE = 20_000
MAX_NUMBER = 1_000_000


class Rectangle(Record, frozen=True, kw_only=True):
    """The tiles from (``x``, ``y``), its lower left corner, ``width`` to the right and ``height`` up."""

    x: int
    y: int
    width: int
    height: int

    def check(self, where: str) -> None:
        """Raise :class:`InputError` for a side below 1, and for numbers beyond any fabric."""
        if min(self.width, self.height) < 1 or max(abs(self.x), abs(self.y), self.width, self.height) > MAX_NUMBER:
            what = f"is {self.width} x {self.height} tiles at ({self.x}, {self.y})"
            raise InputError(what, where, "Give sides of at least 1 tile.")


class Fabric(Record, frozen=True, kw_only=True):
    """The fabric: ``width`` × ``height`` tiles with ``memory_words`` words of memory each.

    C5: no kernel covers a tile of a rectangle of ``keep_out``, or a tile (x, y) of ``defects``.
    """

    LATER_FIELDS: ClassVar[tuple[str, ...]] = ("keep_out", "defects")

    width: int = 633
    height: int = 633
    memory_words: int = 24_576
    keep_out: tuple[Rectangle, ...] = ()
    defects: tuple[tuple[int, int], ...] = ()

    def check(self) -> None:
        """Raise :class:`InputError` for sides, a memory or tiles that there aren't."""
        for name in ("width", "height"):
            if not 1 <= (side := getattr(self, name)) <= MAX_SIDE:
                raise InputError(f"is {side}", f"fabric.{name}", f"Give 1 to {MAX_SIDE:,} tiles.")
        if not 1 <= self.memory_words <= 10**9:
            raise InputError(f"is {self.memory_words}", "fabric.memory_words", "Give 1 to 1e9 words.")
        for i, rectangle in enumerate(self.keep_out):
            rectangle.check(f"fabric.keep_out[{i}]")
        for i, (x, y) in enumerate(self.defects):
            if not (0 <= x < self.width and 0 <= y < self.height):
                remedy = f"The fabric has columns 0 to {self.width - 1} and rows 0 to {self.height - 1}."
                raise InputError(f"tile ({x}, {y}) isn't on the fabric", f"fabric.defects[{i}]", remedy)

    @property
    def has_holes(self) -> bool:
        """Whether there are tiles on which no kernel may lie (C5)."""
        return bool(self.keep_out or self.defects)
