"""What the models of family ``multimodel`` have in common: choices, decision variables, and the way to schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from chipmap.instances.multimodel.instance import MultiInstance, MultiSolution
from chipmap.instances.multimodel.problem import MultiProblem, Segment, placed, schedule
from chipmap.records import InputError


@dataclass(frozen=True)
class MultiChoices:
    """``cuts`` are inequalities that follow, and speed up proofs. ``upper``: only schedules of at most so many ticks.

    ``busy``: T[w] >= Σ q · t[m, w, c] for each chiplet. ``layer``: the slowest segment of model m in window w takes as
    long as each layer there, with the transfers right before and behind it.
    """

    cuts: tuple[Literal["busy", "layer"], ...] = ("busy", "layer")
    upper: int | None = None


class Decisions:
    """The decision variables ``x[m, l, w, c]`` of a model, and schedules as their values.

    ``x`` gives a variable, or a number where none is needed.
    """

    def __init__(self, problem: MultiProblem, x: Callable[[int, int, int, int], Any]) -> None:
        self.problem, self.x = problem, x

    def encode(self, solution: MultiSolution) -> list[tuple[Any, float]] | None:
        """(variable, value) of a schedule; None where a model can't hold it."""
        windows = placed(self.problem, solution)
        if len(windows) > self.problem.windows:
            return None
        on = {(m, layer, w, c) for w, run in enumerate(windows) for m, i, j, c in run for layer in range(i, j + 1)}
        return [(self.x(*key), float(key in on)) for key in places(self.problem)]

    def decode(self, value: Callable[[Any], float]) -> MultiSolution:
        """The schedule that the variables' values stand for."""
        windows: list[list[Segment]] = [[] for _ in range(self.problem.windows)]
        for m, model in enumerate(self.problem.models):
            before: tuple[int, int] | None = None
            for layer in range(model.layers):
                here = max(
                    ((w, c) for w in range(self.problem.windows) for c in range(self.problem.chiplets)),
                    key=lambda place: value(self.x(m, layer, *place)),
                )
                w, c = here
                if here == before:
                    _, first, _, _ = windows[w].pop()
                    windows[w].append((m, first, layer, c))
                else:
                    windows[w].append((m, layer, layer, c))
                before = here
        return schedule(self.problem, windows)


def refuse_frames(instance: MultiInstance) -> None:
    """Raise :class:`InputError` for objective ``frames``, whose models stand alone."""
    if instance.task.objective == "frames":
        remedy = "Take build(instance), and add to its model."
        raise InputError("models of frames stand alone", "task.objective", remedy)


def places(problem: MultiProblem) -> Iterator[tuple[int, int, int, int]]:
    """All (m, l, w, c)."""
    for m, model in enumerate(problem.models):
        for layer in range(model.layers):
            for w in range(problem.windows):
                for c in range(problem.chiplets):
                    yield m, layer, w, c
