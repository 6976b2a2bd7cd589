"""Outputs and gradients of a plan's program against those of one device, at sizes that are quickly run.

The one device computes the forward kernels alone; its gradients are JAX's own, of half the sum of the squared outputs,
which is the loss whose gradient ``Loss_b`` hands back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.exchanges.operators import Array, compute, jax, jnp
from benchmarks.exchanges.plan import Plan, Run, plan
from benchmarks.exchanges.steps import Layer, layer_of, weights
from benchmarks.exchanges.written import AGAIN, Inputs, Program


class Compared(NamedTuple):
    """The largest difference of any number, over the largest number of the same tensor; of outputs and of gradients."""

    outputs: float
    gradients: float


def random_inputs(layer: Layer, program: Program, seed: int = 0) -> Inputs:
    """Numbers of which sums over inner dimensions stay near 1."""
    random = np.random.default_rng(seed)
    found = {}
    for name, size in program.shapes.items():
        scale = size[2] ** -0.5 if name.startswith("W:") else 1.0
        drawn = np.ones(size) if name == AGAIN else random.standard_normal(size) * scale
        found[name] = jnp.asarray(drawn, jnp.float32)
    return found


def compared(made: Plan, program: Program, seed: int = 0) -> Compared:
    """How far a program's results are from those of one device."""
    layer = made.layer
    inputs = random_inputs(layer, program, seed)
    wanted = reference(layer, inputs)
    found = program.run(inputs)
    differences = {name: _difference(found[name], wanted[name]) for name in found}
    phases = {step.name: step.kernel.phase for step in layer.steps}
    forward = [d for name, d in differences.items() if phases[name] == "forward"]
    backward = [d for name, d in differences.items() if phases[name] == "backward"]
    return Compared(max(forward, default=0.0), max(backward, default=0.0))


def _difference(found: Array, wanted: Array) -> float:
    a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    return float(np.abs(a - b).max() / np.abs(b).max())


def reference(layer: Layer, inputs: Inputs) -> Inputs:
    """The layer's outputs and, of layers with a backward phase, gradients of its input and parameters, by kernel."""
    workload = layer.workload
    backward = any(kernel.phase == "backward" for kernel in workload.kernels)
    forward = _forward(layer) if backward else layer
    alone = plan(forward, dict.fromkeys((step.name for step in forward.steps), "NONE"), 1)
    outputs = [held.tensor for held in alone.results]

    def run(given: Inputs) -> Inputs:
        held = dict(given)
        for one in alone.instructions:
            if isinstance(one, Run) and one.step.operator != "input":
                parameters = None if one.parameters is None else held[one.parameters.tensor]
                operands = [held[each.tensor] for each in one.inputs]
                held[one.step.name] = compute(forward, one, operands, parameters, 0)
        return {name: held[name] for name in outputs}

    made: Inputs = jax.jit(run)(inputs)
    if not backward:
        return made
    lost = next(step for step in layer.steps if step.operator == "loss").operands[0]
    slopes = jax.jit(jax.grad(lambda given: (run(given)[lost] ** 2).sum() / 2))(inputs)
    entry = next(step.name for step in layer.steps if step.operator == "input")
    for step in layer.steps:
        if step.operator == "update":
            made[step.name] = slopes[weights(step.parameters)]
    first = [maker for maker, _ in workload.carries if layer.step(maker).kernel.phase == "backward"]
    made |= dict.fromkeys(first, slopes[entry])
    return made


def _forward(layer: Layer) -> Layer:
    """The forward phase alone."""
    workload = layer.workload
    kernels = [kernel for kernel in workload.kernels if kernel.phase == "forward"]
    names = {kernel.name for kernel in kernels}
    edges = [edge for edge in workload.edges if names.issuperset(edge)]
    carries = [edge for edge in workload.carries if names.issuperset(edge)]
    return layer_of(workload.replace(kernels=kernels, edges=edges, carries=carries))
