"""Clone and relay: what they change, what they report, what they refuse, and that they loosen C3."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

import chipmap
from chipmap.instances.ring import Package, Pin, RingInstance
from chipmap.instances.ring.draft import bound_names
from chipmap.instances.ring.transforms import clone, relay
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.records import InputError
from chipmap.validation.ring.facts import facts
from tests.lanes import of_all
from tests.ring.random_instances import random_instance, seeds, tiny_instance


def masked(layers: int = 6, **fields: Any) -> RingInstance:
    """A row of layers that all read one mask: C3 ties them to two chips."""
    operations = [Operation(name="mask", kind="mask", flop=1, weight_bytes=3)]
    operations += [Operation(name=f"layer{i}", kind="matmul", flop=100) for i in range(layers)]
    tensors = [Tensor(producer=0, readers=tuple(range(1, layers + 1)), bytes=8)]
    tensors += [Tensor(producer=i, readers=(i + 1,) if i < layers else (), bytes=8) for i in range(1, layers + 1)]
    graph = OperationGraph(name="masked", operations=tuple(operations), tensors=tuple(tensors))
    package = Package(chips=3, flop_per_ns=1.0, sram_bytes=10**6, sram_bytes_per_ns=100.0)
    made: dict[str, Any] = {"name": "masked", "graph": graph, "package": package}
    return RingInstance(**(made | fields))


def names(instance: RingInstance) -> list[str]:
    return [operation.name for operation in instance.graph.operations]


def edges(instance: RingInstance) -> set[tuple[str, str]]:
    called = names(instance)
    return {(called[t.producer], called[v]) for t in instance.graph.tensors for v in t.readers}


def test_clone() -> None:
    changed = clone(masked(3), ["mask"])
    assert names(changed.instance) == ["mask", "layer0", "mask@layer1", "layer1", "mask@layer2", "layer2"]
    assert changed.origin == (0, 1, 0, 2, 0, 3)
    assert changed.report == {
        "operations": 2,
        "copies": 2,
        "copies of views": 0,
        "flop of copies": 2,
        "weight bytes of copies": 6,
        "ticks of work": 2 * 100,  # 1 FLOP takes 1 ns
    }
    assert {e for e in edges(changed.instance) if "mask" in e[0]} == {
        ("mask", "layer0"),
        ("mask@layer1", "layer1"),
        ("mask@layer2", "layer2"),
    }
    assert changed.instance.content_hash != masked(3).content_hash and "cloned: mask" in changed.instance.notes


def test_relay() -> None:
    changed = relay(masked(4), ["mask"], stages=2)
    work = changed.report.pop("ticks of work")
    assert changed.report == {"operations": 2, "identities": 2, "bytes that identities write": 16}
    assert work == 2 * 16  # each identity reads and writes 8 bytes at 100 bytes/ns
    assert {e for e in edges(changed.instance) if "mask" in e[0]} == {
        ("mask", "mask/relay1"),
        ("mask/relay1", "layer0"),
        ("mask/relay1", "layer1"),
        ("mask/relay1", "mask/relay2"),
        ("mask/relay2", "layer2"),
        ("mask/relay2", "layer3"),
    }
    assert changed.origin.count(None) == 2
    assert relay(masked(6), ["mask"]).report["identities"] == 3  # one per chip


def test_both_loosen_the_triangle() -> None:
    before = chipmap.solve(masked())
    cloned, relayed = (
        chipmap.solve(clone(masked(), ["mask"]).instance),
        chipmap.solve(relay(masked(), ["mask"]).instance),
    )
    assert before.certificate.figures["chips_used"] == 2  # type: ignore[union-attr]
    for after in (cloned, relayed):
        assert after.status == "optimal" and after.objective < before.objective  # type: ignore[operator]
        assert after.certificate.figures["chips_used"] == 3  # type: ignore[union-attr]


def test_views_and_measured_times_come_along() -> None:
    graph = OperationGraph(
        name="views",
        operations=(
            Operation(name="mask", kind="mask", flop=1),
            Operation(name="view", kind="reshape", role="view"),
            Operation(name="a", kind="k"),
            Operation(name="b", kind="k"),
        ),
        tensors=(
            Tensor(producer=0, readers=(1,), bytes=8, output=True),
            Tensor(producer=1, readers=(2, 3), bytes=8),
            Tensor(producer=2, bytes=8, output=True),
            Tensor(producer=3, bytes=8, output=True),
        ),
    )
    instance = RingInstance(name="views", graph=graph, time_ns=(1.0, None, 2.0, 3.0))
    changed = clone(instance, ["mask"])
    assert names(changed.instance) == ["mask", "view", "a", "mask@b", "view@b", "b"]
    assert changed.instance.time_ns == (1.0, None, 2.0, 1.0, None, 3.0)
    assert [names(changed.instance)[t.producer] for t in changed.instance.graph.tensors if t.output] == [
        "mask",
        "a",
        "b",
    ]
    assert edges(changed.instance) == {("mask", "view"), ("view", "a"), ("mask@b", "view@b"), ("view@b", "b")}
    assert (changed.report["copies"], changed.report["copies of views"]) == (1, 1)


def test_a_clone_of_a_clone_reads_its_own() -> None:
    """Two producers in a row, both named: every reader of the second gets a row of its own."""
    instance = masked(3)
    graph = instance.graph
    operations = (Operation(name="ids", kind="arange", flop=2), *graph.operations)
    tensors = [Tensor(producer=0, readers=(1,), bytes=4)]
    tensors += [t.replace(producer=t.producer + 1, readers=tuple(v + 1 for v in t.readers)) for t in graph.tensors]
    longer = instance.replace(graph=graph.replace(operations=operations, tensors=tuple(tensors)))
    changed = clone(longer, ["ids", "mask"])
    assert changed.report["copies"] == 4
    reads = {(u, v) for u, v in edges(changed.instance) if "ids" in u}
    assert {v.partition("@")[2] for _, v in reads} == {"", "layer1", "layer2"} and len({u for u, _ in reads}) == 3


@pytest.mark.parametrize("seed", range(40))
def test_clone_keeps_everybody_elses_costs(seed: int) -> None:
    instance = tiny_instance(Random(seed))
    known = facts(instance)
    bound = bound_names(instance)
    for u in known.computing:
        name = instance.graph.operations[u].name
        if name in bound:
            continue
        readers = {v for s in known.stored if s.made_by == u for v in s.read_by}
        extra = max(0, len(readers) - 1)
        changed = clone(instance, [name])
        cloned = facts(changed.instance)
        assert len(cloned.computing) == len(known.computing) + extra and changed.report["copies"] == extra
        for v in cloned.computing:
            origin = changed.origin[v]
            assert origin in known.computing
            assert (cloned.ticks[v], cloned.weights[v]) == (known.ticks[origin], known.weights[origin])
        assert sum(changed.origin[v] == u for v in cloned.computing) == 1 + extra
        assert all(
            len(s.read_by) == 1 for s in cloned.stored if changed.origin[s.made_by] == u and s.made_by in cloned.ticks
        )


def test_names_that_are_taken() -> None:
    instance = masked(2)
    operations = [op.replace(name="mask@layer1") if op.name == "layer0" else op for op in instance.graph.operations]
    taken = instance.replace(graph=instance.graph.replace(operations=tuple(operations)))
    assert "mask@layer1'" in names(clone(taken, ["mask"]).instance)


@pytest.mark.parametrize("change", [clone, relay])
@settings(max_examples=of_all(40, few=16), deadline=None)
@given(seed=seeds)
def test_any_instance_stays_valid(change: Any, seed: int) -> None:
    random = Random(seed)
    instance = random_instance(random, side=False)
    computing = [operation.name for operation in instance.graph.operations if operation.role == "compute"]
    chosen = [name for name in computing if random.random() < 0.5]
    changed = change(instance, chosen)
    changed.instance.check()
    assert sorted(v for v in changed.origin if v is not None) == sorted(
        [*range(len(instance.graph.operations)), *_extra(changed.origin)]
    )
    kept = [op for op, v in zip(changed.instance.graph.operations, changed.origin, strict=True) if v is not None]
    assert all(op.flop == instance.graph.operations[v].flop for op, v in zip(kept, _known(changed.origin), strict=True))


def _known(origin: tuple[int | None, ...]) -> list[int]:
    return [v for v in origin if v is not None]


def _extra(origin: tuple[int | None, ...]) -> list[int]:
    known = _known(origin)
    return [v for v in set(known) for _ in range(known.count(v) - 1)]


@pytest.mark.parametrize("change", [clone, relay])
def test_refusals(change: Any) -> None:
    with pytest.raises(InputError, match="no operation is called"):
        change(masked(), ["nobody"])
    graph = OperationGraph(
        name="input",
        operations=(Operation(name="x", kind="input", role="input"), Operation(name="a", kind="k")),
        tensors=(Tensor(producer=0, readers=(1,), bytes=4),),
    )
    with pytest.raises(InputError, match="role 'input'"):
        change(RingInstance(name="input", graph=graph), ["x"])
    with pytest.raises(InputError, match="pinned"):
        clone(masked(pins=(Pin(operation="mask", chip=0),)), ["mask"])
    with pytest.raises(InputError, match="stages"):
        relay(masked(), ["mask"], stages=0)
