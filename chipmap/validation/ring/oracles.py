"""Built-in functions for C5. ``liveness``: does a compiler's buffer allocation fit each chip's SRAM?

``--oracle chipmap.validation.ring.oracles:liveness``
"""

from __future__ import annotations

from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.oracle import Verdict
from chipmap.records import kept
from chipmap.validation.ring.facts import facts

#: (first step, last step, bytes) of a buffer.
Buffer = tuple[int, int, int]


class Liveness:
    """Exact liveness of a chip's tensors, and the offsets that a compiler would give them.

    The chip runs its operations in topological order, the lowest position first. Weights and double-buffered boundary
    tensors (both as in C4) stay in SRAM all the time. A tensor made and read only on the chip has a buffer from the
    step that makes it to the step that reads it last. Buffers that live at the same time must not overlap: they are
    placed at the lowest free offset, in order of size, of size times lifetime, and of time; the chip is accepted if
    one of the three fits.

    Scope ``chip``: the set of operations decides all of that (their boundary tensors too; tensors that only pass
    through are not counted). It is not monotone: an operation more may turn a boundary tensor, counted twice, into an
    inner one, counted once.
    """

    scope = "chip"
    VERSION = "2"

    def __call__(self, instance: RingInstance, solution: RingSolution) -> list[Verdict]:
        """One rejection per chip whose buffers don't fit."""
        on: dict[int, list[int]] = {}
        for v in facts(instance).computing:
            on.setdefault(solution.chips[v], []).append(v)
        limit = instance.package.sram_bytes
        verdicts = []
        for chip, operations in sorted(on.items()):
            needed = self.bytes_on_chip(instance, tuple(operations))
            if needed > limit:
                message = f"chip {chip} needs {needed} bytes with live tensors but has {limit}"
                verdicts.append(Verdict(False, "chip", chip, tuple(operations), message))
        return verdicts or [Verdict(True)]

    def on_chip(self, instance: RingInstance, operations: tuple[int, ...]) -> bool:
        """Whether one chip can hold exactly these operations."""
        return self.bytes_on_chip(instance, operations) <= instance.package.sram_bytes

    def bytes_on_chip(self, instance: RingInstance, operations: tuple[int, ...]) -> int:
        """SRAM that a chip with exactly these operations takes: weights, boundary tensors, highest offset."""
        known = facts(instance)
        rank, touching = kept(instance, "_liveness_index", _index)
        here = set(operations)
        step = {v: i for i, v in enumerate(sorted(here, key=rank.__getitem__))}
        fixed = sum(known.weights[v] for v in here)
        fixed += sum(constant.bytes for constant in known.constants if not here.isdisjoint(constant.read_by))
        buffers = []
        for s in set().union(*(touching[v] for v in here)) if here else ():
            stored = known.stored[s]
            inside = [step[v] for v in stored.read_by if v in here]
            if stored.made_by in here and len(inside) == len(stored.read_by):
                buffers.append((step[stored.made_by], max(inside), stored.bytes))
            else:
                fixed += 2 * stored.bytes
        return fixed + _height(buffers, instance.package.sram_bytes - fixed)


def _index(instance: RingInstance) -> tuple[dict[int, int], dict[int, list[int]]]:
    """Each operation's place in the order of execution, and the storages that it makes or reads."""
    rank, known = {v: i for i, v in enumerate(instance.graph.topological_order())}, facts(instance)
    touching: dict[int, list[int]] = {v: [] for v in known.computing}
    for s, stored in enumerate(known.stored):
        for v in {stored.made_by, *stored.read_by}:
            touching[v].append(s)
    return rank, touching


def peak(buffers: list[Buffer]) -> int:
    """The most bytes alive at one step: no allocation is lower."""
    return max((sum(size for a, b, size in buffers if a <= at <= b) for at, _, _ in buffers), default=0)


def _height(buffers: list[Buffer], room: int) -> int:
    """The lowest of the three allocations, or the peak if that is beyond ``room`` already (then nothing fits)."""
    least = peak(buffers)
    if least > room:
        return least
    best = first_fit(sorted(buffers, key=lambda b: (-b[2], b)))
    if best > room:
        best = min(best, first_fit(sorted(buffers, key=lambda b: (-b[2] * (b[1] - b[0] + 1), b))))
    return best if best <= room else min(best, first_fit(sorted(buffers)))


def first_fit(order: list[Buffer]) -> int:
    """The highest byte used when each buffer in turn takes the lowest offset that is free during its life."""
    placed: list[tuple[int, Buffer]] = []
    top = 0
    for buffer in order:
        first, last, size = buffer
        offset = 0
        for at, (a, b, other) in sorted(placed):
            if a <= last and first <= b and other:
                if at - offset >= size:
                    break
                offset = max(offset, at + other)
        placed.append((offset, buffer))
        top = max(top, offset + size)
    return top


liveness = Liveness()
