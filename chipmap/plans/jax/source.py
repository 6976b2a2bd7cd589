"""A plan as the text of a JAX program: a function per kernel with its collectives, and the same layer on one device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chipmap.plans.jax.cutting import Size, cut
from chipmap.plans.jax.layouts import AXIS, WHOLE, Change, Layout, moved
from chipmap.plans.jax.operators import call, called, own_part, statistics
from chipmap.plans.jax.planning import Add, Held, Instruction, Move, Plan, Run, plan
from chipmap.plans.jax.steps import Layer, layer_of, weights
from chipmap.plans.jax.text import AGAIN, WIDTH, Names, arithmetic, assigned, broken, scoped, script


@dataclass
class _Group:
    """The instructions of a function, which runs ``step`` or brings results to where they rest."""

    name: str
    title: str
    partition: int | None
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def read(self) -> list[Held]:
        """What it takes from others, each once."""
        made, found = set[Held](), dict[Held, None]()
        for one in self.instructions:
            found |= dict.fromkeys(held for held in _read(one) if held not in made)
            made |= {_made(one)}
        return list(found)

    @property
    def made(self) -> list[Held]:
        """What it makes, each once."""
        return list(dict.fromkeys(_made(one) for one in self.instructions))


def _read(one: Instruction) -> tuple[Held, ...]:
    if isinstance(one, Move):
        return (Held(one.tensor, one.change.before),)
    if isinstance(one, Add):
        return one.tensors
    return (*one.inputs, *(() if one.parameters is None else (one.parameters,)))


def _made(one: Instruction) -> Held:
    return Held(one.tensor, one.change.after) if isinstance(one, Move) else one.made


def rests(of: Plan) -> dict[str, Layout]:
    """How the layer's input and its parameters lie before it runs."""
    runs = [one for one in of.instructions if isinstance(one, Run)]
    return {**{one.step.name: one.made.layout for one in runs if one.step.operator == "input"}, **of.rests}


def source(of: Plan, head: str = "", said: str = "", partitions: Mapping[str, int] | None = None) -> str:
    """The program of a plan: a module that needs JAX and numpy alone. ``head``: lines before all else, such as what it
    is of; ``said``: assignments behind the imports; ``partitions``: those of kernels, for comments."""
    writer = _Writer(of, partitions or {})
    body = "\n\n\n".join([writer.on_a_chip, _unsharded(of.layer)])
    kernels = "\n\n\n".join(writer.functions)
    names = set(re.findall(r"\b[a-z_]+\b", kernels + body))
    tables = "\n".join([*writer.tables(), *_references(of.layer)])
    parts = [
        "\n\n".join(part for part in (f"{head}\n{_IMPORTS}".strip(), said, tables) if part),
        *arithmetic(names),
        kernels,
        body,
        script("running"),
    ]
    return "\n\n\n".join(part for part in parts if part) + "\n"


_IMPORTS = """from __future__ import annotations

import argparse
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

Array = Any
EPSILON = 1e-5"""


class _Writer:
    def __init__(self, of: Plan, partitions: Mapping[str, int]) -> None:
        self.plan, self.chips, self.partitions = of, of.chips, partitions
        self.names = Names(of.chips)
        self.groups = self._grouped()
        self.lying = rests(of)
        self.again = any(isinstance(one, Move) and one.again for one in of.instructions)
        live, self.outputs = set(of.results), list[list[Held]]()
        for group in reversed(self.groups):
            self.outputs.append([held for held in group.made if held in live])
            live = live.difference(group.made).union(group.read)
        self.outputs.reverse()

    def _grouped(self) -> list[_Group]:
        found, waiting = list[_Group](), list[Instruction]()
        for one in self.plan.instructions:
            last = found[-1] if found else None
            if isinstance(one, Run):
                if one.step.operator != "input":
                    name, kernel = self.names.function(one.step.name), one.step.kernel
                    what = f"{one.step.operator}, " + " x ".join(map(str, self.plan.layer.sizes[kernel.name]))
                    title = f"{kernel.name}: {what}, scheme {one.scheme}."
                    found.append(_Group(name, title, self.partitions.get(kernel.name), [*waiting, one]))
                waiting = []
            elif isinstance(one, Move) and last and not waiting and one.term == "T3" and self._ends(one, last):
                last.instructions.append(one)
            elif isinstance(one, Move) and one.term == "T6":
                title = f"The gradient of the parameters of {one.payer} to where these rest."
                if last is None or last.title != title:
                    found.append(_Group(self.names.function(f"rest_{one.payer}"), title, None))
                found[-1].instructions.append(one)
            else:
                waiting.append(one)
        return found

    def _ends(self, one: Move, group: _Group) -> bool:
        """Whether a sum is that of the group's own kernel."""
        run = group.instructions[-1]
        return isinstance(run, Run) and one.payer == one.tensor == run.step.name and one.change.before.kind == "sum"

    def tables(self) -> Iterable[str]:
        """Chips, sizes and layouts of inputs and results."""
        sizes, small, names = self.plan.layer.sizes, cut(self.plan), list(self.lying)
        one: Size = (1, 1, 1)
        again = {AGAIN: one} if self.again else {}
        yield f"CHIPS = {self.chips}"
        yield "#: Rows, experts and columns of the layer's input and parameters, and those that are run unless told."
        yield _table("SIZES", {name: sizes[name] for name in names} | again)
        yield _table("CUT", {name: small[name] for name in names} | again)
        yield "#: How they lie on the chips of axis x before the layer runs, and how results do afterwards."
        yield _specs("SPECS", {name: self.lying[name] for name in names} | ({AGAIN: WHOLE} if self.again else {}), self)
        if axes := self._axes(names):
            yield "#: What rows, experts and columns are."
            yield _table("AXES", axes)
        ends = {one.tensor: one.layout for one in self.plan.results}
        full = {name: Layout(one.kind, self.chips) if one.kind in AXIS else one for name, one in ends.items()}
        yield _specs("RESULTS", full, self)

    def _axes(self, names: Iterable[str]) -> dict[str, object]:
        """The names of the axes of tensors, where they are known: parameters have rows and what is summed."""
        found = dict[str, object]()
        for name in names:
            of = name.removeprefix(weights(""))
            axes = self.plan.layer.workload.axes.get(of)
            if axes is not None:
                rows = " x ".join(filter(None, (axes.outer, axes.M)))
                experts = "experts" if self.plan.layer.sizes[name][1] > 1 else ""
                found[name] = (rows, experts, axes.N if of == name else axes.K)
        return found

    @property
    def functions(self) -> list[str]:
        """A function per group."""
        return [self._function(group, out) for group, out in zip(self.groups, self.outputs, strict=True)]

    def _function(self, group: _Group, out: Sequence[Held]) -> str:
        given = [self.names.of(held) for held in group.read]
        given += [AGAIN] if any(isinstance(one, Move) and one.again for one in group.instructions) else []
        lines = [f"def {group.name}({', '.join(f'{name}: Array' for name in given)}) -> Any:"]
        lines = (
            lines
            if len(lines[0]) < WIDTH
            else broken(f"def {group.name}(", [f"{n}: Array" for n in given], ") -> Any:")
        )
        lines.append(f'    """{group.title}"""')
        for one in group.instructions:
            lines += [f"    {line}" for line in self._instruction(one)]
        return "\n".join([*lines, f"    return {', '.join(map(self.names.of, out))}"])

    def _instruction(self, one: Instruction) -> list[str]:
        target = self.names.of(_made(one))
        names = [self.names.of(held) for held in _read(one)]
        if isinstance(one, Add):
            return assigned(target, " + ".join(names))
        if isinstance(one, Run):
            value, copies = call(self.plan.layer, one, names), self._copies(one)
            lines = assigned(target, f"{value} / {copies}" if copies > 1 else value)
            return scoped(f"{one.step.name}|T3|statistics", lines) if statistics(one) else lines
        value = " * ".join([names[0], *[AGAIN] * one.again])  # differently each time, or the compiler makes one of two
        lines = assigned(target, self._changed(value, one.change))
        if one.change.collective is None:
            return lines
        link = moved(self.plan.bytes_of(one.tensor), one.change, self.chips)
        note = f"# {one.change.collective.replace('_', '-')}, {float(link) / 10**6:,.6g} MB over a chip's link"
        return [note, *scoped(f"{one.payer}|{one.term}|{one.tensor}", lines)]

    def _copies(self, one: Run) -> int:
        """How many chips have each term of a sum over chips: those with the same heads, of which there are fewer than
        chips."""
        by_heads = one.step.operator == "outer" and one.scheme == "OUTER" and one.made.layout.kind == "sum"
        return self.chips // one.inputs[0].layout.parts if by_heads else 1

    def _changed(self, value: str, one: Change) -> str:
        before, after, chips = one.before, one.after, self.chips
        if one.collective is None:
            return own_part(value, before, after)
        if one.collective == "all_reduce":
            return f'lax.psum({value}, "x")'
        if one.collective == "reduce_scatter":
            groups = _groups(_neighbours(before.parts, chips))
            return f'lax.psum_scatter({value}, "x", scatter_dimension={AXIS[after.kind]}{groups}, tiled=True)'
        if one.collective == "all_gather":
            among = _neighbours(after.parts, chips) if after.parts > 1 else _strided(before.parts, chips)
            return f'lax.all_gather({value}, "x", axis={AXIS[before.kind]}{_groups(among)}, tiled=True)'
        if before.parts != chips:  # of a part that several chips have, each sends a share
            value = own_part(value, before, Layout(before.kind, chips))
        if after.parts != chips:
            value = called("repeated", [value, str(AXIS[after.kind]), str(after.parts)])
        axes = f"split_axis={AXIS[after.kind]}, concat_axis={AXIS[before.kind]}"
        return f'lax.all_to_all({value}, "x", {axes}, tiled=True)'

    @property
    def on_a_chip(self) -> str:
        """The function that ``shard_map`` runs."""
        lines = [
            "def on_a_chip(inputs: dict[str, Array]) -> dict[str, Array]:",
            '    """What each chip does, from its parts of the inputs to its parts of the results."""',
        ]
        for name, layout in self.lying.items():
            value = f'inputs["{name}"]'
            whole = layout.kind in AXIS and layout.parts != self.chips
            value = own_part(value, WHOLE, layout) if whole else value
            lines.append(f"    {self.names.of(Held(name, layout))} = {value}")
        partition = None
        for group, out in zip(self.groups, self.outputs, strict=True):
            if group.partition is not None and group.partition != partition:
                lines.append(f"    # partition {group.partition}")
            partition = group.partition
            given = [self.names.of(held) for held in group.read]
            given += [f'inputs["{AGAIN}"]'] if any(isinstance(o, Move) and o.again for o in group.instructions) else []
            target = ", ".join(map(self.names.of, out)) or "_"
            lines += [f"    {line}" for line in assigned(target, f"{group.name}({', '.join(given)})")]
        lines.append("    return {")
        for held in self.plan.results:
            lines.append(f'        "{held.tensor}": {self._own(held)},')
        return "\n".join([*lines, "    }"])

    def _own(self, held: Held) -> str:
        """A result; of parts that several chips have, a part of these for each."""
        name, layout = self.names.of(held), held.layout
        shared = layout.kind in AXIS and layout.parts != self.chips
        return own_part(name, layout, Layout(layout.kind, self.chips)) if shared else name


def _groups(groups: list[list[int]] | None) -> str:
    return "" if groups is None else f", axis_index_groups={groups}"


def _neighbours(parts: int, chips: int) -> list[list[int]] | None:
    """Groups of the chips that have the same one of so many parts."""
    each = chips // parts
    return None if parts == 1 else [list(range(i * each, (i + 1) * each)) for i in range(parts)]


def _strided(parts: int, chips: int) -> list[list[int]] | None:
    """Groups of chips that have all parts, one each."""
    each = chips // parts
    return None if each == 1 else [list(range(i, chips, each)) for i in range(each)]


def _table(name: str, values: Mapping[str, object]) -> str:
    lines = [f'    "{key}": {value},' for key, value in values.items()]
    return "\n".join([f"{name} = {{", *lines, "}"])


def _specs(name: str, layouts: Mapping[str, Layout], writer: _Writer) -> str:
    return _table(name, {key: spec(layout, writer.chips) for key, layout in layouts.items()})


def spec(layout: Layout, chips: int) -> str:
    """The partition of an array's axes; parts that several chips share lie whole on each."""
    axis = AXIS.get(layout.kind)
    if axis is None or layout.parts != chips or chips == 1:
        return "P()"
    return f'P({"None, " * axis}"x")'


def _unsharded(layer: Layer) -> str:
    """The forward phase on one device."""
    forward = _forward(layer)
    alone = plan(forward, dict.fromkeys((step.name for step in forward.steps), "NONE"), 1)
    names = Names(1, plain=True)
    lines = [
        "def unsharded(inputs: dict[str, Array]) -> dict[str, Array]:",
        '    """The forward phase on one device."""',
    ]
    for name, layout in rests(alone).items():
        lines.append(f'    {names.of(Held(name, layout))} = inputs["{name}"]')
    for one in alone.instructions:
        if isinstance(one, Run) and one.step.operator != "input":
            value = call(forward, one, [names.of(held) for held in _read(one)])
            lines += [f"    {line}" for line in assigned(names.of(one.made), value)]
    results = ", ".join(f'"{held.tensor}": {names.of(held)}' for held in alone.results)
    return "\n".join([*lines, f"    return {{{results}}}"])


def _references(layer: Layer) -> list[str]:
    """Which results are gradients, and of which input; the output whose gradient is handed back."""
    loss = next((step for step in layer.steps if step.operator == "loss"), None)
    found = {step.name: weights(step.parameters) for step in layer.steps if step.operator == "update"}
    entry = next((step.name for step in layer.steps if step.operator == "input"), "")
    for maker, _ in layer.workload.carries:
        if layer.step(maker).kernel.phase == "backward":
            found[maker] = entry
    return [
        "#: Results that are gradients, and of what: of half the sum of the squares of this output.",
        _table("GRADIENTS", {name: f'"{of}"' for name, of in found.items()})
        if loss
        else "GRADIENTS: dict[str, str] = {}",
        f'OUTPUT = "{loss.operands[0] if loss else ""}"',
    ]


def _forward(layer: Layer) -> Layer:
    """The forward phase alone."""
    workload = layer.workload
    kernels = [kernel for kernel in workload.kernels if kernel.phase == "forward"]
    names = {kernel.name for kernel in kernels}
    edges = [edge for edge in workload.edges if names.issuperset(edge)]
    carries = [edge for edge in workload.carries if names.issuperset(edge)]
    return layer_of(workload.replace(kernels=kernels, edges=edges, carries=carries))
