"""What the models of frames have in common: decision variables, and the way to schedules.

Statement: ``docs/families/multimodel-frames.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chipmap.formulations.multimodel.choices import Decisions
from chipmap.instances.multimodel.instance import FrameRun, MultiSolution
from chipmap.instances.multimodel.problem import MultiProblem, Segment, placed
from chipmap.instances.multimodel.rates import Frame, frames_of, hyperperiod


def segments_of(mapping: list[Segment], m: int) -> list[Segment]:
    """The segments of one model, in the order of its chain."""
    return sorted(segment for segment in mapping if segment[0] == m)


@dataclass(frozen=True, eq=False)
class FrameDecisions:
    """The mapping's variables ``x[m, l, 0, c]``, and by number f of a frame: ``run[f]``, ``start[f, c]`` in ns, and
    ``turn[f, c]``, the whole hyperperiods before its start."""

    problem: MultiProblem
    x: Callable[[int, int, int, int], Any]
    run: dict[int, Any]
    start: dict[tuple[int, int], Any]
    turn: dict[tuple[int, int], Any]

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames by number."""
        return frames_of(self.problem.instance)

    def encode(self, solution: MultiSolution) -> list[tuple[Any, float]] | None:
        """(variable, value) of a schedule; None where the models can't hold it."""
        pairs = Decisions(self.problem, self.x).encode(solution)
        if pairs is None or not solution.windows:
            return None
        length, starts = hyperperiod(self.problem.instance), self.starts(solution)
        for f, frame in enumerate(self.frames):
            pairs.append((self.run[f], float(f in starts)))
            for c in range(self.problem.chiplets):
                start = starts.get(f, {}).get(c, frame.release)
                if not frame.release <= start <= frame.due:
                    return None
                pairs += [(self.start[f, c], float(start)), (self.turn[f, c], float(start // length))]
        return pairs

    def starts(self, solution: MultiSolution) -> dict[int, dict[int, int]]:
        """Of each frame that is run: its starts by chiplet."""
        (mapping,) = placed(self.problem, solution)
        at = {model.name: m for m, model in enumerate(self.problem.instance.models)}
        numbers = {(frame.m, frame.number): f for f, frame in enumerate(self.frames)}
        return {
            numbers[at[run.model], run.frame]: {
                c: start for (*_, c), start in zip(segments_of(mapping, at[run.model]), run.starts, strict=True)
            }
            for run in solution.frames
        }

    def decode(self, value: Callable[[Any], float]) -> MultiSolution:
        """The schedule that the variables' values stand for."""
        mapped = Decisions(self.problem, self.x).decode(value)
        (mapping,) = placed(self.problem, mapped)
        ran = tuple(
            FrameRun(
                model=self.problem.instance.models[frame.m].name,
                frame=frame.number,
                starts=tuple(round(value(self.start[f, c])) for *_, c in segments_of(mapping, frame.m)),
            )
            for f, frame in enumerate(self.frames)
            if value(self.run[f]) > 0.5
        )
        return mapped.replace(frames=ran)
