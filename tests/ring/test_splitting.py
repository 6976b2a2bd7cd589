"""Splitting an operation: nothing is lost or made, readers read what they read, and what can't be split is refused."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import chipmap
from chipmap.instances.ring import Forbidden, Package, Pin, RingInstance, RingSolution
from chipmap.instances.ring.describe import files
from chipmap.instances.ring.draft import bound_names
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.ring.splitting import RANGES, WAYS, split
from chipmap.networks.graph import Loops, Operation, OperationGraph, Tensor
from chipmap.records import InputError
from chipmap.validation.ring.facts import facts
from tests.ring.random_instances import tiny_instance


def head(vocabulary: int = 1003, **fields: Any) -> RingInstance:
    """Two layers, a head whose table an embedding shares (through a view), and somebody who reads the result."""
    operations = (
        Operation(name="table", kind="parameter", role="constant"),
        Operation(name="turned", kind="permute", role="view"),
        Operation(name="embedding", kind="embedding", flop=1, moved_bytes=80),
        Operation(name="layer", kind="mm", flop=100, weight_bytes=50),
        Operation(name="head", kind="mm", flop=1001, weight_bytes=17),
        Operation(name="softmax", kind="softmax", flop=3),
    )
    tensors = (
        Tensor(producer=0, readers=(1, 2), bytes=vocabulary),
        Tensor(producer=1, readers=(4,), bytes=vocabulary),
        Tensor(producer=2, readers=(3,), bytes=40),
        Tensor(producer=3, readers=(4,), bytes=41),
        Tensor(producer=4, readers=(5,), bytes=501),
        Tensor(producer=5, bytes=501, output=True),
    )
    graph = OperationGraph(name="head", operations=operations, tensors=tensors)
    package = Package(chips=4, flop_per_ns=1.0, sram_bytes=10**5, sram_bytes_per_ns=1000.0)
    made: dict[str, Any] = {"name": "head", "graph": graph, "package": package}
    return RingInstance(**(made | fields))


def parts(instance: RingInstance, name: str) -> list[int]:
    """Positions of the parts of an operation."""
    names = [f"{name}/part{i}" for i in range(1, 10)]
    called = {operation.name: v for v, operation in enumerate(instance.graph.operations)}
    return [called[one] for one in names if one in called]


def read_bytes(instance: RingInstance, v: int, role: str) -> int:
    """Bytes of what v reads directly from operations of this role."""
    graph = instance.graph
    return sum(t.bytes for t in graph.tensors if v in t.readers and graph.operations[t.producer].role == role)


def test_rows_share_weights_and_the_table_and_a_gather_puts_them_together() -> None:
    made = split(head(), ["head"], 3)
    after = made.instance
    where = parts(after, "head")
    known = facts(after)
    operations = after.graph.operations
    assert [operations[v].flop for v in where] == [333, 334, 334]
    assert [operations[v].weight_bytes for v in where] == [5, 6, 6]
    assert [read_bytes(after, v, "constant") for v in where] == [334, 334, 335]
    assert [int(ring_problem(after).weight_bytes[v]) for v in where] == [5 + 334, 6 + 334, 6 + 335]
    tensors = {operations[t.producer].name: t for t in after.graph.tensors if operations[t.producer].role == "compute"}
    assert tensors["layer"].bytes == 41 and sorted(tensors["layer"].readers) == where, "sent once, to all"
    assert [tensors[f"head/part{i}"].bytes for i in (1, 2, 3)] == [167, 167, 167]
    whole = tensors["head/gather"]
    assert (whole.bytes, [operations[v].name for v in whole.readers]) == (501, ["softmax"])
    gather = whole.producer
    assert known.ticks[gather] == 100 * 2 * 501 // 1000 + 1  # reads and writes 501 bytes at 1,000 bytes/ns
    assert made.report["gathers"] == 1 and made.report["bytes that these write"] == 501
    assert "split in 3 by rows: head" in after.notes and after.content_hash != head().content_hash
    assert [made.origin[v] for v in where] == [4, 4, 4] and made.origin[gather] is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(25))
def test_no_flop_and_no_byte_is_lost(seed: int, way: str) -> None:
    instance = tiny_instance(Random(seed))
    known, graph = facts(instance), instance.graph
    named = {pin.operation for pin in instance.pins} | {name for group in instance.together for name in group}
    for u in known.computing:
        whole = graph.operations[u]
        try:
            made = split(instance, [whole.name], 3, way)
        except InputError as error:
            assert whole.name in named or "fewer than 3" in error.what
            continue
        after = made.instance
        where = parts(after, whole.name)
        assert len(where) == 3 and whole.name not in {one.name for one in after.graph.operations}
        assert sum(after.graph.operations[v].flop for v in where) == whole.flop
        weights = sum(after.graph.operations[v].weight_bytes for v in where)
        assert weights == whole.weight_bytes * (3 if way == "columns" else 1)
        for tensor in [t for t in graph.tensors if t.producer == u]:
            again = [
                t for t in after.graph.tensors if t.bytes == tensor.bytes and len(t.readers) == len(tensor.readers)
            ]
            assert again or not tensor.readers
        made_bytes = sum(t.bytes for t in after.graph.tensors if t.producer in where)
        assert made_bytes == sum(t.bytes for t in graph.tensors if t.producer == u) * (3 if way == "inner" else 1)
        others = {one.name: one for v, one in enumerate(graph.operations) if v != u}
        kept = {one.name: one for one in after.graph.operations if one.name in others}
        assert kept == others
        ticks = facts(after).ticks
        for v, origin in enumerate(made.origin):
            if origin is not None and origin != u and origin in known.ticks:
                assert ticks[v] == known.ticks[origin], "everybody else costs what it cost"


def test_columns_keep_weights_whole_and_slice_activations() -> None:
    after = split(head(), ["head"], 3, "columns").instance
    where = parts(after, "head")
    assert [after.graph.operations[v].weight_bytes for v in where] == [17] * 3
    views = [[t.bytes for t in after.graph.tensors if v in t.readers] for v in where]
    assert [sorted(sizes) for sizes in views] == [[13, 1003], [14, 1003], [14, 1003]]
    known = facts(after)
    (layer,) = [stored for stored in known.stored if after.graph.operations[stored.made_by].name == "layer"]
    assert layer.bytes == 41 and sorted(layer.read_by) == where, "links carry the whole tensor"


def test_inner_makes_whole_results_and_a_sum() -> None:
    made = split(head(), ["head"], 4, "inner")
    operations = made.instance.graph.operations
    sizes = [t.bytes for t in made.instance.graph.tensors if t.producer in parts(made.instance, "head")]
    total = [operation for operation in operations if operation.name == "head/sum"]
    assert sizes == [501] * 4 and [operation.flop for operation in total] == [3 * 501]
    assert made.report["sums"] == 1 and made.report["flop of sums"] == 3 * 501


def test_what_nothing_reads_leaves_in_parts_but_sums() -> None:
    after = split(head(), ["softmax"], 2).instance
    assert [t.output for t in after.graph.tensors if t.producer in parts(after, "softmax")] == [True, True]
    assert not [one for one in after.graph.operations if one.kind == "gather"]
    summed = split(head(), ["softmax"], 2, "inner").instance
    (last,) = [t for t in summed.graph.tensors if t.output]
    assert summed.graph.operations[last.producer].name == "softmax/sum"


def test_measured_times_and_forbidden_chips_come_along() -> None:
    times = (None, None, 1.0, 2.0, 9.0, 3.0)
    instance = head(time_ns=times, forbidden=(Forbidden(operation="head", chips=(0,)),))
    after = split(instance, ["head"], 3).instance
    where = parts(after, "head")
    assert after.time_ns is not None and [facts(after).ticks[v] for v in where] == [300] * 3
    assert [(entry.operation, entry.chips) for entry in after.forbidden] == [(f"head/part{i}", (0,)) for i in (1, 2, 3)]
    assert bound_names(after) == {"head/part1", "head/part2", "head/part3"}


def test_loop_nests_are_divided_and_say_what_can_be() -> None:
    loops = Loops(rows=5, inner=7, columns=2, weights=True, splits=("rows", "inner"), whole_bytes=2)
    operations = [
        operation.replace(loops=loops) if operation.name == "head" else operation
        for operation in head().graph.operations
    ]
    instance = head(graph=head().graph.replace(operations=operations))
    after = split(instance, ["head"], 5).instance
    assert [after.graph.operations[v].loops.rows for v in parts(after, "head")] == [1] * 5  # type: ignore[union-attr]
    assert [after.graph.operations[v].weight_bytes for v in parts(after, "head")] == [2 + 3] * 5
    with pytest.raises(InputError, match="has 5 rows"):
        split(instance, ["head"], 6)
    with pytest.raises(InputError, match="can't be computed apart") as raised:
        split(instance, ["head"], 2, "columns")
    assert raised.value.remedy == "Choose from: rows, inner."
    assert set(RANGES) == set(WAYS)


@pytest.mark.parametrize(
    ("fields", "arguments", "message"),
    [
        ({}, ("head", 1), "is 1"),
        ({}, ("head", 10_001), "makes 501 bytes at most, fewer than 10,001\n  Give 2 to 501 parts."),
        ({}, ("head", 502), "makes 501 bytes at most"),
        ({}, ("head", 2, "diagonals"), "can't be split by 'diagonals'"),
        ({}, ("table", 2), "has role 'constant'"),
        ({}, ("hand", 2), "no operation is called 'hand'"),
        ({"pins": (Pin(operation="head", chip=1),)}, ("head", 2), "is pinned"),
        ({"together": (("layer", "head"),)}, ("head", 2), "is in a keep-together group"),
    ],
)
def test_refused(fields: dict[str, Any], arguments: tuple[Any, ...], message: str) -> None:
    name, *rest = arguments
    with pytest.raises(InputError) as raised:
        split(head(**fields), [name], *rest)
    assert message in str(raised.value) or "by 'diagonals'" in raised.value.what


def test_the_mapping_names_the_parts_and_the_period_falls() -> None:
    before = chipmap.solve(head())
    after = split(head(), ["head"], 4).instance
    found = chipmap.solve(after)
    assert (before.status, found.status) == ("optimal", "optimal")
    assert found.objective < before.objective  # type: ignore[operator]
    text = files(after, RingSolution.make(**(found.solution or {})))["mapping.csv"].decode()
    assert all(f"head/part{i}," in text for i in (1, 2, 3, 4)) and "head/gather," in text
