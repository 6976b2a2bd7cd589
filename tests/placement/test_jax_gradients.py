"""Products of training steps before JAX: as many FLOP as the products of what ``jax.grad`` derives."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from random import Random
from typing import Any

import pytest

from chipmap.instances.placement.training import training
from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.program import imported
from chipmap.networks.importers.steps import Program, Step, Value

jax: Any = pytest.importorskip("jax", reason="needs the extra judges")

ROWS, NETWORKS = 6, 60
#: A step of a network: (what it does, the tensors that it reads, its columns).
Layer = tuple[str, tuple[int, ...], int]


def network(random: Random) -> list[Layer]:
    """Random layers; tensor 0 is the input, which layers with weights read. Everything is [ROWS, columns]."""
    found: list[Layer] = [("input", (), 4)]
    while len(found) < random.randint(4, 9):
        kind = random.choice(("linear", "linear", "relu", "add", "shared", "scores"))
        weighed = kind in ("linear", "shared")
        if not weighed and len(found) == 1:
            continue
        a = random.randrange(0 if weighed else 1, len(found))
        alike = [b for b in range(1, len(found)) if found[b][2] == found[a][2]]
        square = [b for b in range(1, len(found)) if found[b][2] == ROWS and b != a]
        if kind == "scores":  # [ROWS, ROWS] times [ROWS, columns]
            if not square:
                continue
            found.append(("scores", (random.choice(square), a), found[a][2]))
        elif kind == "add":
            found.append(("add", (a, random.choice(alike)), found[a][2]))
        elif kind == "shared":  # one weight of the size of the columns, read by all such layers
            found.append(("shared", (a,), found[a][2]))
        else:
            found.append((kind, (a,), random.choice((3, 4, ROWS)) if kind == "linear" else found[a][2]))
    return found


def loose(layers: list[Layer]) -> list[int]:
    """Layers that none reads, but for the input."""
    read = {a for _, reads, _ in layers for a in reads}
    return [i for i in range(1, len(layers)) if i not in read]


def by_jax(layers: list[Layer]) -> int:
    """FLOP of all products of the network and its derivatives by its weights."""
    ones = jax.numpy.ones
    linear = {i: layers[reads[0]][2] for i, (kind, reads, _) in enumerate(layers) if kind == "linear"}
    weights = {f"w{i}": ones((before, layers[i][2])) for i, before in linear.items()}
    weights |= {f"s{columns}": ones((columns, columns)) for kind, _, columns in layers if kind == "shared"}

    def loss(weights: Any, x: Any) -> Any:
        made = [x]
        for i, (kind, reads, columns) in enumerate(layers[1:], 1):
            a, b = made[reads[0]], made[reads[-1]]
            if kind in ("linear", "shared"):
                made.append(a @ weights[f"w{i}" if kind == "linear" else f"s{columns}"])
            elif kind == "scores":
                made.append(a @ b)
            else:
                made.append(jax.nn.relu(a) if kind == "relu" else a + b)
        return sum(jax.numpy.sin(made[i]).sum() for i in loose(layers))

    jaxpr = jax.make_jaxpr(jax.value_and_grad(loss))(weights, ones((ROWS, layers[0][2])))
    return products(jaxpr.jaxpr)


def products(jaxpr: Any) -> int:
    """2 · result · inner over all products, those of inner programs as well."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (inner, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            total += 2 * prod(equation.outvars[0].aval.shape) * prod(shape[axis] for axis in inner)
        for value in equation.params.values():
            closed = getattr(value, "jaxpr", value)
            total += products(closed) if hasattr(closed, "eqns") else 0
    return total


def by_hand(layers: list[Layer]) -> OperationGraph:
    """The same network as a program."""
    program = Program("p", "by hand")
    program.values["t0"] = Value("t0", (ROWS, layers[0][2]), 32)
    program.inputs = ["t0"]
    for i, (kind, reads, columns) in enumerate(layers[1:], 1):
        names, flop = [f"t{a}" for a in reads], ROWS * columns
        if kind in ("linear", "shared"):
            weight = f"w{i}" if kind == "linear" else f"s{columns}"
            program.values[weight] = Value(weight, (layers[reads[0]][2], columns), 32)
            if weight not in program.parameters:
                program.parameters.append(weight)
            names, flop = [*names, weight], 2 * ROWS * layers[reads[0]][2] * columns
        elif kind == "scores":
            flop = 2 * ROWS * ROWS * columns
        program.values[f"t{i}"] = Value(f"t{i}", (ROWS, columns), 32)
        step = "matmul" if kind in ("linear", "shared", "scores") else kind
        program.steps.append(Step(f"t{i}", step, tuple(names), (f"t{i}",), flop))
    program.outputs = [f"t{i}" for i in loose(layers)]
    return imported(program, "here", "test").graph


def test_products_of_training_steps_are_those_that_jax_derives(record_property: Callable[[str, object], None]) -> None:
    random, compared, total = Random(3), 0, 0
    while compared < NETWORKS:
        layers = network(random)
        if not any(kind in ("linear", "shared") for kind, _, _ in layers):
            continue
        step = training(by_hand(layers)).graph.operations
        found = sum(one.flop for one in step if one.kind == "matmul")
        wanted = by_jax(layers)
        assert found == wanted, layers
        compared, total = compared + 1, total + wanted
    record_property("training steps whose products have the FLOP of JAX's derivatives", compared)
    record_property("FLOP of these products", total)
