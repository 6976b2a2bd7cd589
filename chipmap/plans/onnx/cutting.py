"""The model of each stage: what it runs, holds, receives and hands on.

A node without a stage of its own (a view, or what is computed of constants) is made again in each stage that reads it,
so that what crosses a boundary is what the instance counts: the bytes that an operation made. Initializers go with the
nodes that read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chipmap.plans.onnx.program import SHAPES, OnnxProgram
from chipmap.records import InputError


@dataclass
class StageModel:
    """A stage by names of tensors and positions of nodes.

    ``receives``: tensor -> the stage that makes it. ``inputs`` are those of the whole model. ``known``: results of
    nodes whose values follow from shapes. ``outputs`` of the whole model are among what it ``gives``.
    """

    receives: dict[str, int] = field(default_factory=dict)
    inputs: dict[str, None] = field(default_factory=dict)
    stored: dict[str, None] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)
    nodes: set[int] = field(default_factory=set)
    gives: dict[str, None] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)


def cut(program: OnnxProgram, homes: Mapping[int, Sequence[int]], count: int) -> list[StageModel]:
    """The stages of a program, ``homes`` of whose nodes are given."""
    homes = _with_shapes(program, homes)
    stages = [StageModel() for _ in range(count)]
    for name in program.outputs:
        s = _last(program, homes, name)
        stages[s or 0].outputs.append(name)
        stages[s or 0].gives[name] = None
    for s in reversed(range(count)):
        _want(program, homes, stages, s)
    return stages


def boundaries(program: OnnxProgram, stages: Sequence[StageModel]) -> list[int | None]:
    """The bytes over each boundary between a stage and the next one, as a chain hands them on; None: not known."""
    found: list[int | None] = []
    for b in range(1, len(stages)):
        passing = {name for stage in stages[b:] for name, source in stage.receives.items() if source < b}
        sizes = [program.size(name) for name in passing]
        found.append(None if None in sizes else sum(size or 0 for size in sizes))
    return found


def _want(program: OnnxProgram, homes: Mapping[int, Sequence[int]], stages: Sequence[StageModel], s: int) -> None:
    """Note what a stage makes, holds and must receive."""
    stage, seen, left = stages[s], set[str](), list(stages[s].gives)
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        i = program.makers.get(name)
        if name in program.stored:
            stage.stored[name] = None
        elif i is None:
            stage.inputs[name] = None
        elif s not in homes.get(i, (s,)):
            source = _source(program, homes[i], name, s)
            stage.receives[name] = source
            stages[source].gives[name] = None
        elif i not in homes and program.known(i) is not None:
            stage.known[name] = i
        elif i not in stage.nodes:
            stage.nodes.add(i)
            left += program.reads[i]


def _source(program: OnnxProgram, homes: Iterable[int], name: str, s: int) -> int:
    earlier = [home for home in homes if home < s]
    if not earlier:
        what = f"stage {s} reads {name!r}, which is made in a later one"
        raise InputError(what, program.path, "Solve the instance again: its stages must have an order.")
    return earlier[-1]


def _with_shapes(program: OnnxProgram, homes: Mapping[int, Sequence[int]]) -> dict[int, Sequence[int]]:
    """Homes with those of nodes that need a shape which isn't known beforehand: where the tensor is made."""
    found = dict(homes)
    for i, node in enumerate(program.nodes):
        if node.op_type in SHAPES and i not in found and node.input and program.known(i) is None:
            home = _last(program, found, node.input[0])
            if home is not None:
                found[i] = [home]
    return found


def _last(program: OnnxProgram, homes: Mapping[int, Sequence[int]], name: str) -> int | None:
    """The last stage that has a part in a tensor: its maker's, or where it has none that of what this reads."""
    seen, left, found = set[int](), [name], list[int]()
    while left:
        i = program.makers.get(left.pop())
        if i is None or i in seen:
            continue
        seen.add(i)
        if i in homes:
            found.append(homes[i][0])
        elif program.known(i) is None:
            left += program.reads[i]
    return max(found, default=None)
