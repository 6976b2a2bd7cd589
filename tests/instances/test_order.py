"""How an operator goes through memory: rows, how far apart their numbers lie, operands in another order."""

from __future__ import annotations

from collections import defaultdict
from itertools import permutations, product
from math import prod
from random import Random

import pytest

from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.networks.importers.operators.order import PLAIN, order
from chipmap.networks.importers.steps import Step, Value
from chipmap.networks.works import works
from chipmap.records import InputError


def strides_of(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor whose axes lie in this order in memory, the last one quickest."""
    found, step = [0] * len(shape), 1
    for axis in reversed(axes):
        found[axis], step = step, step * shape[axis]
    return tuple(found)


def said(kind: str, operands: list[Value], made: Value, **arguments: object) -> tuple[int, int, int]:
    values = {value.name: value for value in (*operands, made)}
    return order(Step("s", kind, tuple(one.name for one in operands), (made.name,), arguments=arguments), values)


def test_rows_are_those_of_an_enumeration() -> None:
    """All numbers are listed by the result that they go into; neighbours of a row are as far apart as the nearest."""
    draw = Random(1)
    for _ in range(200):
        shape = tuple(draw.randint(1, 5) for _ in range(draw.randint(1, 4)))
        axes = draw.choice(list(permutations(range(len(shape)))))
        strides = strides_of(shape, axes)
        mixed = sorted(draw.sample(range(len(shape)), draw.randint(1, len(shape))))
        rows = defaultdict(list)
        for place in product(*map(range, shape)):
            key = tuple(i for axis, i in enumerate(place) if axis not in mixed)
            rows[key].append(sum(i * stride for i, stride in zip(place, strides, strict=True)))
        (count,) = {len(row) for row in rows.values()}
        apart = min((abs(a - b) for row in rows.values() for a in row for b in row if a != b), default=1)
        made = Value("y", tuple(1 if axis in mixed else size for axis, size in enumerate(shape)), 32)
        found = said("amax", [Value("x", shape, 32, strides)], made, dim=mixed, keepdim=True)
        assert found[0] == count and found[2] == 0
        assert found[1] <= apart or count == 1  # of several axes the nearest numbers of one of them
        if len(mixed) == 1 and count > 1:
            assert found[1] == apart


@pytest.mark.parametrize(
    ("kind", "arguments", "wanted"),
    [
        ("softmax", {"dim": -1}, (16, 1, 0)),
        ("softmax", {"dim": 1}, (8, 16, 0)),
        ("sum", {}, (512, 1, 0)),
        ("layer_norm", {"normalized_shape": [8, 16]}, (128, 1, 0)),
        ("max_pool2d", {"kernel_size": [3, 3], "stride": [2, 2]}, (9, 4, 0)),
        ("max_pool1d", {"kernel_size": [3]}, (3, 3, 0)),
        ("index_select", {"dim": 0}, (4, 128, 0)),
        ("relu", {}, PLAIN),
        ("add_", {}, PLAIN),
    ],
)
def test_operators_say_what_they_mix(kind: str, arguments: dict[str, object], wanted: tuple[int, int, int]) -> None:
    x = Value("x", (4, 8, 16), 32, (128, 16, 1))
    assert said(kind, [x], Value("y", x.shape, 32, x.strides), **arguments) == wanted


def test_operands_in_another_order_are_counted() -> None:
    """A copy of a turned tensor; a sum of two that are turned alike, whose result is too, reads both in order."""
    shape, turned = (6, 8), (1, 6)
    x, y = Value("x", shape, 32, turned), Value("z", shape, 32, (8, 1))
    assert said("clone", [x], Value("y", shape, 32, (8, 1))) == (1, 1, x.bytes)
    assert said("add", [x, y], Value("y", shape, 32, (8, 1))) == (1, 1, x.bytes)
    assert said("add", [x, x], Value("y", shape, 32, turned)) == PLAIN


def test_products_count_operands_that_are_copied() -> None:
    """Heads lie behind tokens: the batch of both can't be taken as one dimension, unless there is one sample."""
    for samples, bytes_ in ((1, 0), (2, 2 * 4 * 3 * 5 * 8)):
        shape = (samples, 3, 5, 8)
        x = Value("x", shape, 32, (120, 8, 24, 1))
        y = Value("y", (samples, 3, 8, 5), 32, (120, 40, 5, 1))
        assert said("matmul", [x, y], Value("p", (samples, 3, 5, 5), 32)) == (1, 1, bytes_)


def test_works_have_it_and_instances_without_shapes_do_not() -> None:
    operations = [
        Operation(name="x", kind="input", role="input"),
        Operation(name="m", kind="max", flop=7, order=(4, 16, 0)),
    ]
    graph = OperationGraph.checked("net", operations, [Tensor(producer=0, readers=(1,), bytes=8)])
    assert works(graph)[1][-3:] == (4, 16, 0)
    bare = graph.without_loops()
    assert bare.operations[1].order == () and prod(works(bare)[1][-3:-1]) == 1


@pytest.mark.parametrize("order", [(1, 2), (1, 2, 3, 4), (1, -1, 0)])
def test_an_order_of_other_numbers_is_refused(order: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="order is"):
        OperationGraph.checked("net", [Operation(name="m", kind="max", order=order)], [])


def test_operands_below_minus_one_are_refused() -> None:
    with pytest.raises(InputError, match="operands is"):
        OperationGraph.checked("net", [Operation(name="m", kind="div", operands=(0, -2))], [])


def test_graphs_without_training_steps_hold_no_order_of_operands() -> None:
    graph = OperationGraph.checked("net", [Operation(name="m", kind="div", operands=(0, -1), order=(4, 16, 0))], [])
    assert graph.without_loops().operations[0].operands == (0, -1)
    assert graph.without_operands().operations[0] == Operation(name="m", kind="div")
