"""Changed instances: splitting keeps what it must keep, pins follow."""

from __future__ import annotations

import random

import pytest

from chipmap.instances.graph import Operation, OperationGraph, Tensor
from chipmap.instances.ring import Package, Pin, RingInstance
from chipmap.instances.ring.variants import packaged, split, without
from chipmap.records import InputError
from chipmap.validation.ring.facts import facts
from tests.ring.random_instances import tiny_instance


def masked(layers: int = 3) -> RingInstance:
    """A mask, made from an input and expanded by a view, that every layer of a chain reads."""
    operations = [
        Operation(name="ids", kind="input", role="input"),
        Operation(name="mask", kind="compare", flop=8_000, weight_bytes=4),
        Operation(name="expand", kind="view", role="view"),
        *(Operation(name=f"layer{i}", kind="matmul", flop=4_000_000, weight_bytes=64) for i in range(layers)),
    ]
    tensors = [
        Tensor(producer=0, readers=(1,), bytes=16),
        Tensor(producer=1, readers=(2,), bytes=32),
        Tensor(producer=2, readers=tuple(range(3, 3 + layers)), bytes=512),
        *(Tensor(producer=3 + i, readers=(4 + i,), bytes=128) for i in range(layers - 1)),
        Tensor(producer=2 + layers, bytes=128, output=True),
    ]
    graph = OperationGraph(name="masked", operations=tuple(operations), tensors=tuple(tensors))
    return RingInstance(name="masked", graph=graph, package=Package(chips=3))


@pytest.mark.parametrize("seed", range(40))
def test_split_of_random_instances(seed: int) -> None:
    instance = tiny_instance(random.Random(seed))
    known = facts(instance)
    for u in known.computing:
        after = split(instance, instance.graph.operations[u].name, 3)
        assert len(facts(after).computing) == len(known.computing) + 2
        flop = instance.graph.operations[u].flop
        pieces = [op for op in after.graph.operations if "(part" in op.name]
        assert len(pieces) == 3 and flop <= sum(op.flop for op in pieces) <= flop + 2


def test_pins_follow_the_parts() -> None:
    instance = masked().replace(pins=(Pin(operation="layer0", chip=0),), together=(("layer0", "layer1"),))
    after = split(instance, "layer0", 2)
    assert [(pin.operation, pin.chip) for pin in after.pins] == [("layer0 (part 1)", 0), ("layer0 (part 2)", 0)]
    assert after.together == (("layer0 (part 1)", "layer0 (part 2)", "layer1"),)


def test_package_and_constraints() -> None:
    instance = masked().replace(pins=(Pin(operation="layer0", chip=2),))
    assert without(instance, "C3", "C4").constraints == ("C1", "C2")
    assert packaged(instance, chips=5).package.chips == 5
    with pytest.raises(InputError, match="chip 2 does not exist"):
        packaged(instance, chips=2)
