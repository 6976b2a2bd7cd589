"""Operation graphs as chains of layers: bytes across cuts, weights, shapes."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from chipmap.instances.multimodel.costs import PRESETS, ROOFLINE, Shape, cost
from chipmap.instances.multimodel.from_graph import Part, chain, from_graphs, shaped
from chipmap.networks import generators as networks
from chipmap.networks.graph import Loops, Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import import_graph

ZOO = Path(__file__).parents[1] / "instances" / "zoo"


def imported(
    operations: list[Operation], tensors: list[Tensor], time_ns: tuple[float, ...] | None = None
) -> ImportedGraph:
    graph = OperationGraph.checked("net", operations, tensors)
    return ImportedGraph(graph, time_ns, "traced", ("a note",))


def op(name: str, kind: str = "relu", role: str = "compute", flop: int = 10, weight_bytes: int = 0) -> Operation:
    return Operation.make(name=name, kind=kind, role=role, flop=flop, weight_bytes=weight_bytes)


def u_net() -> ImportedGraph:
    """x -> a -> relu -> b -> c -> add(relu, c) -> d; the skip connection is a view of what relu makes."""
    operations = [
        op("x", "input", "input", 0),
        op("a", "conv", flop=1000, weight_bytes=50),
        op("relu"),
        op("b", "conv", flop=2000, weight_bytes=60),
        op("reshape", "view", "view", 0),
        op("c", "conv", flop=3000, weight_bytes=70),
        op("add", "add"),
        op("d", "mm", flop=4000, weight_bytes=80),
    ]
    tensors = [
        Tensor(producer=0, readers=(1,), bytes=7),
        Tensor(producer=1, readers=(2,), bytes=100),
        Tensor(producer=2, readers=(3, 4), bytes=100),
        Tensor(producer=3, readers=(5,), bytes=30),
        Tensor(producer=4, readers=(6,), bytes=100),
        Tensor(producer=5, readers=(6,), bytes=100),
        Tensor(producer=6, readers=(7,), bytes=90),
        Tensor(producer=7, bytes=5, output=True),
    ]
    return imported(operations, tensors)


def sizes(parts: list[Part]) -> list[tuple[str, int, int, int, int, int]]:
    return [(p.operation.name, p.in_bytes, p.weight_bytes, p.out_bytes, p.flop, p.moved) for p in parts]


def test_a_skip_connection_crosses_every_cut_on_its_way() -> None:
    """By hand: behind a 100 bytes of relu, behind b its 30 and the 100 of the skip, behind c (with add) 90."""
    assert sizes(chain(u_net(), "net")) == [
        ("a", 7, 50, 100, 1010, 7 + 50 + 100),
        ("b", 100, 60, 130, 2000, 100 + 60 + 30),
        ("c", 130, 70, 90, 3010, 30 + 100 + 70 + 90),
        ("d", 90, 80, 5, 4000, 90 + 80 + 5),
    ]


def test_inputs_results_and_constants() -> None:
    """An input read late and a result made early travel; a table's rows are fetched, not the table; a tied constant
    counts in each layer that reads it."""
    operations = [
        op("ids", "input", "input", 0),
        op("late", "input", "input", 0),
        op("table", "parameter", "constant", 0),
        op("turned", "view", "view", 0),
        Operation(name="look", kind="embedding", flop=4, moved_bytes=40),
        op("a", "mm", flop=100, weight_bytes=11),
        op("b", "mm", flop=100, weight_bytes=12),
        op("head", "mm", flop=100),
    ]
    tensors = [
        Tensor(producer=0, readers=(4,), bytes=8),
        Tensor(producer=1, readers=(6,), bytes=9),
        Tensor(producer=2, readers=(3, 4), bytes=1000),
        Tensor(producer=3, readers=(7,), bytes=1000),
        Tensor(producer=4, readers=(5,), bytes=16),
        Tensor(producer=5, readers=(6,), bytes=20, output=True),
        Tensor(producer=6, readers=(7,), bytes=30),
        Tensor(producer=7, bytes=40, output=True),
    ]
    parts = chain(imported(operations, tensors), "net")
    assert [part.fetched for part in parts] == [16, 0, 0]
    assert [(part.in_bytes, part.weight_bytes, part.out_bytes) for part in parts] == [
        (8 + 9 + 16, 11, 20 + 9),
        (20 + 9, 12, 30 + 20),
        (30, 1000, 40 + 20),
    ]


def test_a_matrix_of_several_layers_is_held_by_each_and_said_so() -> None:
    operations = [op("x", "input", "input", 0), op("w", "parameter", "constant", 0)]
    operations += [op(name, "mm", flop=100) for name in "abc"]
    tensors = [Tensor(producer=0, readers=(2,), bytes=8), Tensor(producer=1, readers=(2, 3, 4), bytes=50)]
    tensors += [Tensor(producer=v, readers=(v + 1,), bytes=8) for v in (2, 3)] + [Tensor(producer=4, bytes=8)]
    instance = from_graphs([(imported(operations, tensors), "net")])
    assert [layer.weight_bytes for layer in instance.models[0].layers] == [50, 50, 50]
    assert "hold a copy each, 100 bytes in all" in instance.notes


def random_graph(random: Random) -> ImportedGraph:
    """Products, other operations, views and inputs; each reads up to three tensors before it."""
    operations, tensors = [op("x", "input", "input", 0)], [Tensor(producer=0, bytes=random.randint(1, 50))]
    readers: list[list[int]] = [[]]
    for v in range(1, random.randint(3, 14)):
        kind = random.choice(("mm", "mm", "relu", "view", "input", "constant"))
        role = kind if kind in ("view", "input", "constant") else "compute"
        operations.append(op(f"o{v}", kind, role, random.randint(0, 99) * (role == "compute")))
        count = 0 if role in ("input", "constant") else random.randint(1, 3)
        for t in random.sample(range(len(tensors)), min(count, len(tensors))):
            readers[t].append(v)
        for _ in range(random.randint(1, 2)):
            tensors.append(Tensor(producer=v, bytes=random.randint(0, 50), output=random.random() < 0.15))
            readers.append([])
    made = [tensor.replace(readers=who) for tensor, who in zip(tensors, readers, strict=True)]
    return imported(operations, made)


def slow_layers(graph: OperationGraph) -> dict[int, int]:
    """The layer of each operation, by its definition: the last of its operands, else the first that reads it."""
    fixed: dict[int, bool] = {}
    products = [v for v, o in enumerate(graph.operations) if o.kind == "mm"]
    layers = [v for v, o in enumerate(graph.operations) if o.role == "compute" and (o.kind == "mm" or not products)]
    place: dict[int, int] = {}
    reads = graph.reads()
    for v, operation in enumerate(graph.operations):
        fixed[v] = operation.role == "constant" or (operation.role == "view" and all(fixed[u] for u in reads[v]))
        before = [place[u] for u in reads[v] if u in place]
        if v in layers:
            place[v] = layers.index(v)
        elif before and not fixed[v] and operation.role != "input":
            place[v] = max(before)
    for v in reversed(range(len(graph.operations))):
        if graph.operations[v].role == "input":
            place[v] = -1
        elif v not in place and not fixed[v]:
            after = [place[w] for w in place if v in reads[w] and graph.operations[w].role != "input"]
            place[v] = min(after, default=0)
    return place


def slow_cut(graph: OperationGraph, place: dict[int, int], cut: int, results: bool) -> int:
    """Bytes across the cut before layer ``cut``: of each storage the views that are read behind it (or returned)."""
    moving = [t for t, tensor in enumerate(graph.tensors) if tensor.producer in place]
    operands = {v: {t for t in moving if v in graph.tensors[t].readers} for v in place}
    single = {v for v in place if graph.operations[v].role == "view" and len(operands[v]) == 1}
    none = not any(tensor.output for tensor in graph.tensors)

    def root(t: int) -> int:
        v = graph.tensors[t].producer
        return root(next(iter(operands[v]))) if v in single else t

    total = 0
    for storage in {root(t) for t in moving}:
        if place[graph.tensors[storage].producer] >= cut:
            continue
        wanted = 0
        for t in moving:
            tensor = graph.tensors[t]
            late = any(place[w] >= cut for w in tensor.readers if w not in single)
            kept = results and (tensor.output or (none and not tensor.readers))
            wanted += tensor.bytes if root(t) == storage and (late or kept) else 0
        total += min(wanted, graph.tensors[storage].bytes)
    return total


def test_bytes_across_cuts_of_random_graphs() -> None:
    """Against the definition, evaluated cut by cut."""
    random, compared, skipped = Random(3), 0, 0
    for _ in range(400):
        given = random_graph(random)
        graph = given.graph
        if not any(operation.role == "compute" for operation in graph.operations):
            skipped += 1
            continue
        parts, place = chain(given, "net"), slow_layers(graph)
        for i, part in enumerate(parts):
            assert part.in_bytes - part.fetched == slow_cut(graph, place, i, results=False), graph
            assert part.out_bytes == slow_cut(graph, place, i + 1, results=True), graph
        assert sum(part.flop for part in parts) == sum(operation.flop for operation in graph.operations)
        compared += len(parts)
    assert compared > 1000 > skipped, compared


@pytest.mark.parametrize(
    ("loops", "kind", "expected"),
    [
        (
            Loops(rows=64, inner=27, columns=2 * 12 * 10, window=(3, 3), stride=(2, 2), places=(12, 10), weights=True),
            "conv",
            (Shape(K=64, C=3, Y=25, X=21, R=3, S=3, stride=2), 2),
        ),
        (
            Loops(outer=32, rows=1, inner=9, columns=64, window=(3, 3), stride=(1, 1), places=(8, 8), weights=True),
            "conv",
            (Shape(K=1, C=32, Y=10, X=10, R=3, S=3, depthwise=True), 1),
        ),
        (
            Loops(outer=2, rows=8, inner=36, columns=64, window=(3, 3), stride=(1, 1), places=(8, 8), weights=True),
            "conv",
            (Shape(K=8, C=4, Y=10, X=10, R=3, S=3), 2),
        ),
        (
            Loops(rows=64, inner=50, columns=30, window=(5,), stride=(1,), places=(30,), weights=True),
            "conv",
            (Shape(K=64, C=10, Y=34, X=1, R=5, S=1), 1),
        ),
        (Loops(rows=768, inner=256, columns=128, weights=True), "linear", (Shape(K=768, C=256, Y=128, X=1), 1)),
        (Loops(outer=12, rows=128, inner=64, columns=128), "bmm", (Shape(K=128, C=64, Y=128, X=1), 12)),
        (Loops(rows=8, inner=27, columns=64, window=(1, 3, 3), stride=(1, 1, 1), places=(4, 4, 4)), "conv", None),
        (Loops(rows=8, inner=9, columns=64, window=(3, 3), stride=(1, 2), places=(8, 8)), "conv", None),
        (Loops(rows=8, inner=9, columns=64, weights=True), "_grouped_mm", None),
        (Loops(rows=8), "relu", None),
    ],
)
def test_shapes(loops: Loops, kind: str, expected: tuple[Shape, int] | None) -> None:
    assert shaped(loops, kind) == expected
    if expected is not None and not loops.transposed:
        shape, times = expected
        assert shape.products * times == loops.outer * loops.rows * loops.inner * loops.columns
        assert not loops.window or shape.places == (*loops.places, 1)[:2]


def test_costs_of_presets() -> None:
    """A roofline from FLOP and bytes, closed forms from shapes, measured times as they are."""
    instance = from_graphs([(u_net(), "net")])
    rates = ROOFLINE
    assert instance.models[0].layers[0].costs["nvdla"] == (1, -int(-(1010 * 0.7728 + 157 * 4.2803) // 1))
    assert (rates.flop_per_ns, rates.bytes_per_ns) == (4096.0, 500.0)
    assert "all classes cost the same" in instance.notes and "a note" in instance.notes
    loops = Loops(outer=3, rows=8, inner=4, columns=5)
    product = Operation(name="bmm", kind="bmm", flop=2 * 3 * 8 * 4 * 5, loops=loops)
    shaped_graph = imported([op("x", "input", "input", 0), product], [Tensor(producer=0, readers=(1,), bytes=8)])
    for preset, hardware in PRESETS.items():
        found = from_graphs([(shaped_graph, "net")], costs=[preset]).models[0].layers[0].costs
        for kind, pair in found.items():
            assert pair == tuple(3 * one for one in cost(Shape(K=8, C=4, Y=5, X=1), kind, hardware))
    timed = imported(
        [op("a", "layer", flop=0), op("b", "layer", flop=0)], [Tensor(producer=0, readers=(1,))], (2.5, 7.0)
    )
    layers = from_graphs([(timed, "timed")]).models[0].layers
    assert [layer.costs["shidiannao"][0] for layer in layers] == [3, 7]


@pytest.mark.parametrize("kind", ["resnet", "bert"])
def test_shapes_of_traces_are_those_of_loop_nests(kind: str) -> None:
    """A trace has FLOP and bytes only: the multiply-adds are the same, on products the whole shape."""
    bert = networks.bert_encoder(layers=1, hidden=64, heads=4, sequence=32)
    graph = networks.resnet(depth=18) if kind == "resnet" else bert
    bare = graph.replace(operations=[operation.replace(loops=None) for operation in graph.operations])
    full, found = (chain(ImportedGraph(one, None, "traced"), "net") for one in (graph, bare))
    known = [part.shape for part in full if part.shape is not None]
    assert len(known) == len(full) == len(found)
    recovered = [part.shape for part in found]
    for (shape, times), again in zip(known, recovered, strict=True):
        assert again is not None
        assert shape.products * times == again[0].products * again[1]
        if kind == "bert" and times == 1:
            assert again[0] == shape


def test_shapes_multiply_as_often_as_the_operators_of_the_zoo() -> None:
    """39 exports of 13 networks: a layer's shape has half its operation's FLOP in products, and no weight is lost."""
    shapeless = set()
    for path in sorted([*ZOO.glob("*.onnx"), *ZOO.glob("*.pt2")]):
        if path.suffix == ".onnx":
            pytest.importorskip("onnx")
        graph = import_graph(str(path))
        for part in chain(graph, path.stem):
            if part.shape is None:
                shapeless.add((path.name, part.operation.kind))
            else:
                assert 2 * part.shape[0].products * part.shape[1] == part.operation.flop, (path.name, part.operation)
        weights = sum(operation.weight_bytes for operation in graph.graph.operations if not operation.moved_bytes)
        assert sum(part.weight_bytes for part in chain(graph, path.stem)) >= weights
    grouped = "transformers.grouped_mm_fallback"
    assert shapeless == {("mixtral-decomposed.pt2", grouped), ("mixtral-plain.pt2", grouped)}
