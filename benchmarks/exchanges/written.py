"""A plan as a JAX program: with ``shard_map``, collectives as the plan has them; or on whole arrays, of which the
compiler is told in which layout each kernel leaves its output (GSPMD), and puts collectives in by itself.

Collectives carry the scope ``payer|term|tensor``, by which a compiled program's are told apart. What is gathered again
in the backward phase is first multiplied by an input that is 1, or the compiler would take the forward phase's.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from benchmarks.exchanges.layouts import AXIS, WHOLE, Change, Layout
from benchmarks.exchanges.operators import Array, compute, jax, jnp
from benchmarks.exchanges.plan import Add, Held, Move, Plan, Run
from benchmarks.exchanges.steps import Layer

#: Merging collectives of several tensors would hide which moves what.
OPTIONS = {
    "xla_disable_hlo_passes": "cpu-all-reduce-combiner,all-reduce-combiner,all-gather-combiner,reduce-scatter-combiner",
    "xla_backend_optimization_level": 0,  # what runs is small, and nothing here is timed
}
Inputs = dict[str, Array]
#: The input that is 1.
AGAIN = "again"


class Program(NamedTuple):
    """A function of the layer's input and parameters, and how these are laid out on the mesh."""

    call: Callable[..., Any]
    shardings: dict[str, Any]
    shapes: dict[str, tuple[int, int, int]]
    results: tuple[str, ...]

    def compiled(self) -> str:
        """The text of the compiled program."""
        shapes = {
            name: jax.ShapeDtypeStruct(size, jnp.float32, sharding=self.shardings[name])
            for name, size in self.shapes.items()
        }
        return str(jax.jit(self.call).lower(shapes).compile(compiler_options=OPTIONS).as_text())

    def run(self, inputs: Inputs) -> dict[str, Array]:
        """What it makes of inputs, by name."""
        placed = {name: jax.device_put(value, self.shardings[name]) for name, value in inputs.items()}
        done = jax.jit(self.call).lower(placed).compile(compiler_options=OPTIONS)
        return dict(zip(self.results, done(placed), strict=True))


def mesh(chips: int) -> Any:
    """``chips`` devices of the host in a row. Raises :class:`RuntimeError` where JAX has fewer."""
    if len(jax.devices()) < chips:
        flag = f"XLA_FLAGS=--xla_force_host_platform_device_count={chips}"
        raise RuntimeError(f"JAX has {len(jax.devices())} devices; set {flag}, here {os.environ.get('XLA_FLAGS')!r}")
    kinds = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((chips,), ("x",), axis_types=kinds, devices=jax.devices()[:chips])


def spec(layout: Layout, chips: int) -> Any:
    """The partition of an array's axes; parts that several chips share lie whole on each."""
    axis = AXIS.get(layout.kind)
    whole = axis is None or layout.parts != chips
    return jax.sharding.PartitionSpec(*(None if whole or i != axis else "x" for i in range(3)))


def rests(plan: Plan) -> dict[str, Layout]:
    """How the layer's input and its parameters lie before it runs."""
    runs = [one for one in plan.instructions if isinstance(one, Run)]
    return {**{one.step.name: one.made.layout for one in runs if one.step.operator == "input"}, **plan.rests}


def with_shard_map(plan: Plan) -> Program:
    """The program of a plan, each exchange written down."""
    chips, devices, lying = plan.chips, mesh(plan.chips), rests(plan)
    lying |= {AGAIN: WHOLE} if any(isinstance(one, Move) and one.again for one in plan.instructions) else {}
    specs = {name: spec(layout, chips) for name, layout in lying.items()}

    def on_a_chip(inputs: Inputs) -> tuple[Array, ...]:
        return tuple(_Chip(plan, inputs).run())

    ends = (Layout(one.layout.kind, chips) if one.layout.kind in AXIS else one.layout for one in plan.results)
    out = tuple(spec(layout, chips) for layout in ends)
    call = jax.shard_map(on_a_chip, mesh=devices, in_specs=(specs,), out_specs=out, check_vma=False)
    names = tuple(held.tensor for held in plan.results)
    shardings = {name: jax.sharding.NamedSharding(devices, one) for name, one in specs.items()}
    sizes = {AGAIN: (1, 1, 1), **plan.layer.sizes}
    return Program(call, shardings, {name: sizes[name] for name in lying}, names)


class _Chip:
    """A chip's run through a plan."""

    def __init__(self, plan: Plan, inputs: Inputs) -> None:
        self.plan, self.chips = plan, plan.chips
        self.index = jax.lax.axis_index("x")
        self.held: dict[Held, Array] = {}
        self.again = inputs.get(AGAIN)
        for name, layout in rests(plan).items():
            whole = layout.kind in AXIS and layout.parts != self.chips
            value = inputs[name]
            self.held[Held(name, layout)] = self._slice(value, Layout("RR"), layout) if whole else value

    def run(self) -> list[Array]:
        for one in self.plan.instructions:
            if isinstance(one, Move):
                self._move(one)
            elif isinstance(one, Add):
                parts = [self.held[held] for held in one.tensors]
                self.held[one.made] = sum(parts[1:], parts[0])
            elif one.step.operator != "input":
                self._run(one)
        return [self._own(one) for one in self.plan.results]

    def _own(self, held: Held) -> Array:
        """A result; of parts that several chips have, a part of these for each."""
        layout = held.layout
        if layout.kind not in AXIS or layout.parts == self.chips:
            return self.held[held]
        return self._slice(self.held[held], layout, Layout(layout.kind, self.chips))

    def _run(self, one: Run) -> None:
        layout, place = one.made.layout, self.index
        if layout.kind in AXIS:
            place = place * layout.parts // self.chips
        parameters = None if one.parameters is None else self.held[one.parameters]
        inputs = [self.held[held] for held in one.inputs]
        with jax.named_scope(f"{one.step.name}|T3|statistics"):
            self.held[one.made] = compute(self.plan.layer, one, inputs, parameters, place)

    def _move(self, one: Move) -> None:
        before, after = one.change.before, one.change.after
        value = self.held[Held(one.tensor, before)]
        if one.again:
            value = value * self.again
        with jax.named_scope(f"{one.payer}|{one.term}|{one.tensor}"):
            self.held[Held(one.tensor, after)] = self._changed(value, one.change)

    def _changed(self, value: Array, one: Change) -> Array:
        before, after = one.before, one.after
        if one.collective is None:
            return self._slice(value, before, after)
        if one.collective == "all_reduce":
            return jax.lax.psum(value, "x")
        if one.collective == "reduce_scatter":
            groups = self._neighbours(before.parts)
            axis = AXIS[after.kind]
            return jax.lax.psum_scatter(value, "x", scatter_dimension=axis, axis_index_groups=groups, tiled=True)
        if one.collective == "all_gather":
            groups = self._neighbours(after.parts) if after.parts > 1 else self._strided(before.parts)
            return jax.lax.all_gather(value, "x", axis=AXIS[before.kind], axis_index_groups=groups, tiled=True)
        if before.parts != self.chips:  # of a part that several chips have, each sends a share
            value = self._slice(value, before, Layout(before.kind, self.chips))
        value = self._copied(value, after)
        return jax.lax.all_to_all(value, "x", split_axis=AXIS[after.kind], concat_axis=AXIS[before.kind], tiled=True)

    def _copied(self, value: Array, after: Layout) -> Array:
        """Parts that several chips are to have, once for each."""
        if after.parts == self.chips:
            return value
        axis = AXIS[after.kind]
        size = value.shape[axis] // after.parts
        parts = [jax.lax.slice_in_dim(value, i * size, (i + 1) * size, axis=axis) for i in range(after.parts)]
        return jnp.concatenate([one for one in parts for _ in range(self.chips // after.parts)], axis=axis)

    def _neighbours(self, parts: int) -> list[list[int]] | None:
        """Groups of the chips that have the same one of so many parts."""
        each = self.chips // parts
        return None if parts == 1 else [list(range(i * each, (i + 1) * each)) for i in range(parts)]

    def _strided(self, parts: int) -> list[list[int]] | None:
        """Groups of chips that have all parts, one each."""
        each = self.chips // parts
        return None if each == 1 else [list(range(i, self.chips, each)) for i in range(each)]

    def _slice(self, value: Array, before: Layout, after: Layout) -> Array:
        """A chip's part of ``after``, out of its part of ``before``."""
        axis = AXIS[after.kind]
        each = after.parts // before.parts
        size = value.shape[axis] // each
        place = (self.index * after.parts // self.chips) % each
        return jax.lax.dynamic_slice_in_dim(value, place * size, size, axis=axis)


def as_whole(plan: Plan, layouts: Mapping[str, Layout], lying: Mapping[str, Layout], chips: int) -> Program:
    """The program on whole arrays of a ``plan`` for one chip: each kernel's output lies as ``layouts`` says,
    inputs lie as ``lying`` says, and the compiler finds the exchanges."""
    devices = mesh(chips)
    shardings = {name: jax.sharding.NamedSharding(devices, spec(one, chips)) for name, one in lying.items()}

    def whole(inputs: Inputs) -> tuple[Array, ...]:
        held: dict[str, Array] = dict(inputs)
        for one in plan.instructions:
            if not isinstance(one, Run) or one.step.operator == "input":
                continue
            parameters = None if one.parameters is None else held[one.parameters.tensor]
            operands = [held[each.tensor] for each in one.inputs]
            name = one.step.name
            with jax.named_scope(f"{name}|T3|"):
                made = compute(plan.layer, one, operands, parameters, 0)
                if chips > 1:
                    sharding = jax.sharding.NamedSharding(devices, spec(layouts[name], chips))
                    made = jax.lax.with_sharding_constraint(made, sharding)
            held[name] = made
        return tuple(_at_rest(held, one.tensor, plan.layer, shardings) for one in plan.results)

    names = tuple(one.tensor for one in plan.results)
    return Program(whole, shardings, {name: plan.layer.sizes[name] for name in lying}, names)


def _at_rest(held: Inputs, name: str, layer: Layer, shardings: Mapping[str, Any]) -> Array:
    """A result; the gradient of parameters as these rest."""
    step = layer.step(name)
    if step.operator != "update":
        return held[name]
    with jax.named_scope(f"{name}|T6|{name}"):
        return jax.lax.with_sharding_constraint(held[name], shardings[f"W:{step.parameters}"])
