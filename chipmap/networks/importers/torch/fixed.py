"""Steps that need only the shapes of what they read, or of some of it, and whether they can do without reading it.

``zeros_like(h)`` is known before the network runs: a constant, which is placed with its first reader. Whoever splits
the graph passes ``h`` to it all the same. That is no way back to an earlier chip as long as each reader also depends
on ``h`` by another way. Otherwise the step is taken for a computing one, which reads ``h``.

``y.type_as(h)`` reads ``y``. It reads ``h`` only where ``y`` doesn't depend on it.
"""

from __future__ import annotations

from dataclasses import replace

from chipmap.networks.importers.operators.aten import LIKE_ANOTHER
from chipmap.networks.importers.recomputed import recomputed
from chipmap.networks.importers.steps import Program, Step, Value

#: Bits of a number that travels between operators.
_NUMBER = 64


def settle_fixed(program: Program) -> None:
    """Replace those fixed steps of ``program`` that must read what they name."""
    settled = _Settled(program)
    left = [i for i, step in enumerate(program.steps) if step.fixed and step.reads]
    again = True
    while again:  # a step that computes makes readers of others compute, so that these are asked again
        again = False
        for i in left:
            step = program.steps[i]
            if step.fixed and not all(settled.reached_otherwise(source, i) for source in settled.sources(step)):
                program.steps[i] = _computing(step, program)
                settled.compute(i)
                again = True
    for i, step in enumerate(program.steps):
        if step.kind in LIKE_ANOTHER and len(step.reads) > 1:
            program.steps[i] = replace(step, reads=step.reads[:1])
            if not all(settled.depends(i, source) for source in settled.sources(step)):
                program.steps[i] = step


def _computing(step: Step, program: Program) -> Step:
    for name in step.makes:
        value = program.values[name]
        program.values[name] = Value(name, value.shape, value.bits or _NUMBER)
    made = [program.values[name] for name in step.makes]
    return replace(
        step, fixed=False, flop=sum(value.elements for value in made), moved=sum(value.bytes for value in made)
    )


class _Settled:
    def __init__(self, program: Program) -> None:
        self.steps = program.steps
        self.maker = {name: i for i, step in enumerate(program.steps) for name in step.makes}
        self.users: list[list[int]] = [[] for _ in program.steps]
        for i, step in enumerate(program.steps):
            for name in dict.fromkeys(step.reads):
                if name in self.maker:
                    self.users[self.maker[name]].append(i)
        inputs = set(program.inputs)
        self.constant: list[bool] = []  # of each step
        again = recomputed(program)
        for step in program.steps:
            makers = [self.maker.get(name) for name in step.reads if name not in inputs]
            still = not any(name in inputs for name in step.reads) and not any(name in again for name in step.makes)
            self.constant.append(
                step.fixed or (still and all(maker is None or self.constant[maker] for maker in makers))
            )

    def compute(self, fixed: int) -> None:
        """Note that a step, and with it those constants that are made of it, isn't constant."""
        stack = [fixed]
        while stack:
            step = stack.pop()
            self.constant[step] = False
            stack += [user for user in self.users[step] if self.constant[user] and not self.steps[user].fixed]

    def sources(self, step: Step) -> list[int]:
        """The steps that depend on an input and make what ``step`` reads."""
        makers = [self.maker[name] for name in dict.fromkeys(step.reads) if name in self.maker]
        return [maker for maker in makers if not self.constant[maker]]

    def reached_otherwise(self, source: int, fixed: int) -> bool:
        """Whether each reader of ``fixed``, through constants, depends on ``source`` by a way around it."""
        stack, seen = [fixed], {fixed}
        while stack:
            users = self.users[stack.pop()]
            if not users:
                return False
            for user in users:
                if user in seen:
                    continue
                seen.add(user)
                if self.constant[user]:
                    stack.append(user)
                elif not self.depends(user, source):
                    return False
        return True

    def depends(self, step: int, source: int) -> bool:
        """Whether a step reads ``source`` directly or through others, none of them constant."""
        stack, seen = [step], {step}
        while stack:
            for name in self.steps[stack.pop()].reads:
                maker = self.maker.get(name, -1)
                if maker == source:
                    return True
                if maker > source and maker not in seen and not self.constant[maker]:
                    seen.add(maker)
                    stack.append(maker)
        return False
