"""The schedule ``dualpipe-v`` event by event, from the page alone (``docs/families/dataflow-schedules.md``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

#: (kind, chunk, micro-batch): a pass F, B (gradients alone), W (updates) or BW (both).
Pass = tuple[str, int, int]


class Times(NamedTuple):
    """Of a chunk's passes F, B and W by themselves, and of a pair."""

    forward: float
    backward: float
    update: float
    pair: float

    @property
    def whole(self) -> float:
        return self.forward + self.backward + self.update


class Stage:
    """What stage s runs, one after the other: single passes and pairs."""

    def __init__(self, stages: int, rounds: int, s: int) -> None:
        self.order: list[tuple[Pass, ...]] = []
        self.counts: Counter[tuple[str, int]] = Counter()
        self.waiting: list[Pass] = []
        behind = stages - 1 - s
        for _ in range(2 * behind):
            self.add("F0")
        for _ in range(s + 1):
            self.add("F0", "F1")
        for _ in range(behind):
            self.add("B1", "W", "F1")
        for i in range(rounds - 2 * stages + s + 1):
            self.add(*(("F0", "BW1") if i == 0 and s == stages - 1 else ("F0BW1",)), "F1BW0")
        for _ in range(behind):
            self.add("BW1", "F1BW0")
        for i in range(2 * s + 2):
            self.add(("BW" if i <= s else "B") + str(1 - i % 2))
        for _ in range(behind):
            self.add("W", "B0")
        for _ in range(s + 1):
            self.add("W")

    def add(self, *runs: str) -> None:
        """Passes and pairs, of the next micro-batches of their chunks; W is that which waits longest."""
        for run in runs:
            if run == "W":
                self.order.append((self.waiting.pop(0),))
                continue
            passes = [run[:2], run[2:]] if len(run) > 3 else [run]
            self.order.append(tuple(self._next(one[:-1], int(one[-1])) for one in passes))

    def _next(self, kind: str, chunk: int) -> Pass:
        which = "F" if kind == "F" else "B"
        micro = self.counts[which, chunk]
        self.counts[which, chunk] += 1
        if kind == "B":
            self.waiting.append(("W", chunk, micro))
        return kind, chunk, micro


def held(order: Sequence[tuple[Pass, ...]], layers: int) -> Iterator[tuple[int, int]]:
    """What a stage holds while each layer of each pass runs, by passes through a layer: those that have left what their
    B reads, and those whose gradients wait for their W, without the gradients of the layer that runs.

    Chunks have so many ``layers``. Of a pair the forward pass is through before the backward one begins.
    """
    saved = late = 0
    for kind in (kind for passes in order for kind, _, _ in passes):
        for _ in range(layers):
            saved += kind == "F"
            yield saved, late - (kind == "W")
            saved -= "B" in kind
            late += (kind == "B") - (kind == "W")


def simulated(stages: int, rounds: int, times: Times, hop: float = 0.0) -> float:
    """When all is done, with a transfer of ``hop`` between stages, there and back alike."""
    return _Run(stages, times, hop).of([Stage(stages, rounds, s).order for s in range(stages)])


class _Run:
    def __init__(self, stages: int, times: Times, hop: float) -> None:
        self.stages, self.times, self.hop = stages, times, hop
        self.done: dict[tuple[str, int, int], float] = {}

    def of(self, orders: list[list[tuple[Pass, ...]]]) -> float:
        todo, clock = [list(order) for order in orders], [0.0] * self.stages
        while any(todo):
            before = len(self.done)
            for s, order in enumerate(todo):
                while order and all(self.ready(s, one) is not None for one in order[0]):
                    passes = order.pop(0)
                    clock[s] = max(clock[s], *(self.ready(s, one) or 0.0 for one in passes)) + self.length(passes)
                    for kind, chunk, micro in passes:
                        self.done.update({(part, self.place(s, chunk), micro): clock[s] for part in kind})
            assert len(self.done) > before, "stages wait for each other"
        return max(clock)

    def place(self, s: int, chunk: int) -> int:
        """Of a chunk among those of all stages, in the order of the network."""
        return 2 * self.stages - 1 - s if chunk else s

    def ready(self, s: int, one: Pass) -> float | None:
        """When the pass has what it reads; None where that isn't known yet."""
        (kind, chunk, micro), last = one, 2 * self.stages - 1
        at = self.place(s, chunk)
        if kind == "W":
            return self.done.get(("B", at, micro))
        forward = kind == "F"
        if at == (0 if forward else last):
            return 0.0 if forward else self.done.get(("F", at, micro))
        before = at - 1 if forward else at + 1
        ended = self.done.get((kind[0], before, micro))
        same = {at, before} == {self.stages - 1, self.stages}
        return None if ended is None else ended + (0.0 if same else self.hop)

    def length(self, passes: tuple[Pass, ...]) -> float:
        if len(passes) > 1:
            return self.times.pair
        each = {"F": self.times.forward, "B": self.times.backward, "W": self.times.update}
        return sum(each[kind] for kind in passes[0][0])
