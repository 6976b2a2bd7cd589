"""Changed instances: cloning and splitting keep what they must keep."""

from __future__ import annotations

import random

import pytest

from chipmap.instances.graph import Operation, OperationGraph, Tensor
from chipmap.instances.ring import Package, Pin, RingInstance
from chipmap.instances.ring.variants import clone, packaged, split, without
from chipmap.records import InputError
from chipmap.validation.ring_facts import facts
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


def test_clone_through_a_view() -> None:
    before = masked()
    after = clone(before, "mask")
    old, new = facts(before), facts(after)
    names = [op.name for op in after.graph.operations]
    copies = [v for v, name in enumerate(names) if name == "mask" or name.startswith("mask (copy")]
    assert len(copies) == 3 and set(copies) <= set(new.computing)
    assert {new.ticks[v] for v in copies} == {old.ticks[1]} and {new.weights[v] for v in copies} == {old.weights[1]}
    for v in range(3, 6):
        assert (new.ticks[v], new.weights[v]) == (old.ticks[v], old.weights[v])
        (source,) = [s for s in new.stored if v in s.read_by and s.made_by in copies]
        assert source.read_by == (v,) and source.bytes == 32
    assert before == masked()


@pytest.mark.parametrize("seed", range(40))
def test_clone_and_split_of_random_instances(seed: int) -> None:
    instance = tiny_instance(random.Random(seed))
    known = facts(instance)
    for u in known.computing:
        readers = {v for s in known.stored if s.made_by == u for v in s.read_by}
        cloned = facts(clone(instance, instance.graph.operations[u].name))
        kept = [v for v in known.computing if v in cloned.ticks]
        assert set(kept) == set(known.computing), "nobody dies"
        assert all(cloned.ticks[v] == known.ticks[v] for v in kept)
        assert len(cloned.computing) == len(known.computing) + max(0, len(readers) - 1)
        assert sum(cloned.ticks.values()) == sum(known.ticks.values()) + max(0, len(readers) - 1) * known.ticks[u]
        parts = facts(split(instance, instance.graph.operations[u].name, 3))
        assert len(parts.computing) == len(known.computing) + 2
        flop = instance.graph.operations[u].flop
        pieces = [
            op for op in split(instance, instance.graph.operations[u].name, 3).graph.operations if "(part" in op.name
        ]
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
