"""A run's picture, drawn from its archive: an SVG, and the names of what is in it by place."""

from __future__ import annotations

import base64
import gzip
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from chipmap.family import family_of, resolve
from chipmap.report.canvas import Spot, naming
from chipmap.report.collect import Entry
from chipmap.report.page.known import problem


@dataclass(frozen=True)
class Drawn:
    """The picture of a run, and the names in it."""

    svg: str
    spots: tuple[Spot, ...]

    def json(self) -> str:
        """What the page's script takes."""
        return json.dumps({"svg": self.svg, "spots": self.spots}, ensure_ascii=False, separators=(",", ":"))


def packed(text: str) -> str:
    """The text, compressed, as a page holds it until it is looked at."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def draw(entry: Entry) -> Drawn | None:
    """The family's own picture of a run; None where there is no solution, or it can't be drawn."""
    if entry.result is None or entry.result.solution is None or not entry.drawable:
        return None
    try:
        instance = entry.instance()
        family = family_of(instance)
        solution = resolve(family.solution).make(**entry.result.solution)
        with tempfile.TemporaryDirectory() as folder, naming() as spots:
            path = Path(folder) / "picture.svg"
            family.draw(path, instance, solution, bound=entry.result.bound)
            return Drawn(path.read_text(encoding="utf-8"), tuple(spots))
    except Exception:  # a picture that can't be drawn must not hide the runs
        return None


def worth_drawing(entries: Sequence[Entry], most: int) -> list[int]:
    """The numbers of at most ``most`` runs: the best of each instance, in their order."""
    best: dict[str, int] = {}
    for i, entry in enumerate(entries):
        result = entry.result
        if result is None or result.objective is None or not entry.drawable:
            continue
        rival = best.get(problem(result))
        other = None if rival is None else entries[rival].result
        if other is None or other.objective is None or result.objective < other.objective:
            best[problem(result)] = i
    return sorted(best.values())[:most]
