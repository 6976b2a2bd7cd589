"""Which tensors of a PyTorch program are one storage, and what readers see after an operator changed it in place."""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.networks.importers.operators import aten
from chipmap.networks.importers.steps import Program, Step, Value


class Changes:
    """Follows the steps of ``program``, and says what later ones read.

    A tensor and its views share a storage. An operator whose kind ends in ``_`` changes its first operand. Who names
    that operand afterwards reads the operator's result. Who names another view reads a step of kind ``alias``, put in
    between, which has the view's shape: of the result, if that is all of the storage, else of the view and of each
    result since. Whether a view and a changed part overlap is not worked out: they count as if they did.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.storage: dict[str, str] = {}  # value -> the first value of its storage
        self.changes: dict[str, list[tuple[str, str]]] = {}  # storage -> what was changed, the result
        self.seen: dict[str, int] = {}  # value -> how many changes of its storage it shows
        self.current: dict[str, str] = {}  # value -> what has taken its place
        self.moving: set[str] = set()  # values that depend on an input

    def read(self, name: str) -> str:
        """What a step reads that names ``name``; adds the step that makes it, if there has to be one."""
        start = self.current.get(name, name)
        storage = self.storage.get(start, start)
        changes = self.changes.get(storage, ())
        now, parts = start, list[str]()
        for target, result in changes[self.seen.get(start, 0) :]:
            if target == start or self._bytes(target) >= self._bytes(storage):
                now, parts = result, []
            else:
                parts.append(result)
        if parts or (now != start and self._value(now).shape != self._value(start).shape):
            now = self._alias(name, start, [now, *parts])
        if now != start:
            self.current[name] = now
            self.storage[now] = storage
            self.seen[now] = len(changes)
        return now

    def add(self, step: Step) -> None:
        """Note what a step that is about to be added to the program does to storages."""
        if not step.fixed and any(name in self.moving or name in self.program.inputs for name in step.reads):
            self.moving.update(step.makes)
        if not step.reads or not step.makes:
            return
        target, result = step.reads[0], step.makes[0]
        storage = self.storage.get(target, target)
        in_place = step.kind.endswith("_") and not step.kind.endswith("__")
        if step.view and (step.kind in aten.VIEWS or step.kind in aten.CONVERSIONS):
            for made in step.makes:
                self.storage[made] = storage
                self.seen[made] = len(self.changes.get(storage, ()))
            if in_place:  # squeeze_ and the like change the shape that its operand goes by
                self.current[target] = result
        elif in_place:
            self.changes.setdefault(storage, []).append((target, result))
            self.storage[result] = storage
            self.seen[result] = len(self.changes[storage])

    def kept(self) -> list[str]:
        """Results of changes to inputs, parameters and buffers: they outlast the run, as outputs do."""
        lasting = {*self.program.inputs, *self.program.parameters}
        made = [result for storage, changes in self.changes.items() if storage in lasting for _, result in changes]
        return [name for name in made if name in self.moving]

    def _alias(self, name: str, start: str, sources: Sequence[str]) -> str:
        """A step for what ``name`` (last seen as ``start``) is after changes; nothing is moved for it.

        A changed part of stored data counts as new data: its reader reads all of it.
        """
        like = self._value(start)
        made = Value(f"{name}_after_{sources[-1]}", like.shape, like.bits)
        self.program.values[made.name] = made
        stored = sources[0] not in self.moving
        step = Step(made.name, "alias", tuple(sources), (made.name,), view=not stored, moved=0 if stored else None)
        self.add(step)
        self.program.steps.append(step)
        return made.name

    def _value(self, name: str) -> Value:
        return self.program.values[name]

    def _bytes(self, name: str) -> int:
        return self._value(name).bytes
