"""A plan as a JAX program: with ``shard_map``, the one that `chipmap emit` writes; or on whole arrays, of which the
compiler is told in which layout each kernel leaves its output (GSPMD), and puts collectives in by itself.

Collectives carry the scope ``payer|term|tensor``, by which a compiled program's are told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

from chipmap.plans.jax.layouts import Layout
from chipmap.plans.jax.planning import Plan, Run
from chipmap.plans.jax.source import source, spec
from chipmap.plans.jax.steps import Layer
from chipmap.plans.jax.text import word
from chipmap.records import InputError

try:
    import jax
    import jax.numpy as jnp
except ModuleNotFoundError as error:  # told in one sentence, with the extra that has it
    raise InputError(
        "JAX isn't installed", "jax", "Install the extra judges: pip install 'chipmap[judges]'."
    ) from error

#: Merging collectives of several tensors would hide which moves what.
OPTIONS = {
    "xla_disable_hlo_passes": "cpu-all-reduce-combiner,all-reduce-combiner,all-gather-combiner,reduce-scatter-combiner",
    "xla_backend_optimization_level": 0,  # what runs is small, and nothing here is timed
}
Array = Any
Inputs = dict[str, Array]


class Program(NamedTuple):
    """A function of the layer's input and parameters, how these are laid out on the mesh, and the module that was
    written."""

    call: Callable[..., Any]
    shardings: dict[str, Any]
    shapes: dict[str, tuple[int, int, int]]
    results: tuple[str, ...]
    module: Any

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


def module_of(text: str) -> Any:
    """The module that a program's text is."""
    module = ModuleType("program")
    exec(compile(text, "program", "exec"), module.__dict__)  # what `chipmap emit` writes
    return module


def with_shard_map(plan: Plan) -> Program:
    """The program of a plan, each exchange written down, as `chipmap emit` writes it."""
    module = module_of(source(plan))

    def call(inputs: Inputs) -> tuple[Array, ...]:
        made = module.sharded()(inputs)
        return tuple(made[name] for name in module.RESULTS)

    return Program(call, module.shardings(), module.SIZES, tuple(module.RESULTS), module)


def as_whole(plan: Plan, layouts: Mapping[str, Layout], lying: Mapping[str, Layout], chips: int) -> Program:
    """The program on whole arrays of a ``plan`` for one chip: each kernel's output lies as ``layouts`` says,
    inputs lie as ``lying`` says, and the compiler finds the exchanges."""
    module = module_of(source(plan))
    module.CHIPS = chips
    devices = module.mesh()

    def sharding(layout: Layout) -> Any:
        return jax.sharding.NamedSharding(devices, eval(spec(layout, chips), {"P": jax.sharding.PartitionSpec}))

    shardings = {name: sharding(one) for name, one in lying.items()}

    def whole(inputs: Inputs) -> tuple[Array, ...]:
        held: dict[str, Array] = dict(inputs)
        for one in plan.instructions:
            if not isinstance(one, Run) or one.step.operator == "input":
                continue
            name = one.step.name
            read = [*one.inputs, *(() if one.parameters is None else (one.parameters,))]
            given = {each.tensor: held[each.tensor] for each in read}  # each once, as a kernel's function takes it
            with jax.named_scope(f"{name}|T3|"):
                made = getattr(module, f"run_{word(name)}")(*given.values())
                if chips > 1:
                    made = jax.lax.with_sharding_constraint(made, sharding(layouts[name]))
            held[name] = made
        return tuple(_at_rest(held, one.tensor, plan.layer, shardings) for one in plan.results)

    names = tuple(one.tensor for one in plan.results)
    return Program(whole, shardings, {name: plan.layer.sizes[name] for name in lying}, names, module)


def _at_rest(held: Inputs, name: str, layer: Layer, shardings: Mapping[str, Any]) -> Array:
    """A result; the gradient of parameters as these rest."""
    step = layer.step(name)
    if step.operator != "update":
        return held[name]
    with jax.named_scope(f"{name}|T6|{name}"):
        return jax.lax.with_sharding_constraint(held[name], shardings[f"W:{step.parameters}"])
