"""Outputs and gradients of a plan's program against those of one device, at sizes that are quickly run.

The one device computes the forward kernels alone, as the written program states them too; its gradients are JAX's own,
of half the sum of the squared outputs, which is the loss whose gradient ``Loss_b`` hands back.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.exchanges.written import Program
from chipmap.plans.jax.planning import Plan


class Compared(NamedTuple):
    """The largest difference of any number, over the largest number of the same tensor; of outputs and of gradients."""

    outputs: float
    gradients: float


def compared(made: Plan, program: Program, seed: int = 0) -> Compared:
    """How far a program's results are from those of one device."""
    inputs = program.module.random_inputs(program.shapes, seed)
    wanted, found = program.module.expected(inputs), program.run(inputs)
    differences = {name: program.module.difference(found[name], wanted[name]) for name in found}
    phases = {step.name: step.kernel.phase for step in made.layer.steps}
    forward = [d for name, d in differences.items() if phases[name] == "forward"]
    backward = [d for name, d in differences.items() if phases[name] == "backward"]
    return Compared(max(forward, default=0.0), max(backward, default=0.0))
