"""Operation graphs as chains of layers: bytes across cuts, weights, shapes, systems and several files at once."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from benchmarks.multimodel_own_files import latency, totals
from chipmap.cli import main
from chipmap.inputs.reading import Conversion, read, read_graphs
from chipmap.instances.multimodel.costs import PRESETS, ROOFLINE, Shape, cost
from chipmap.instances.multimodel.from_graph import Part, chain, from_graphs, shaped
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.modules import system
from chipmap.networks import generators as networks
from chipmap.networks.graph import Loops, Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError
from chipmap.solve import solve
from tests.instances.samples import SAMPLES

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


def equipped(**equipment: object) -> Conversion:
    return Conversion(equipment=equipment)


def test_one_command_makes_an_instance_of_several_files(tmp_path: Path) -> None:
    """ONNX and PyTorch, batch by --set, a named system; the second of two files of one name gets another."""
    out = tmp_path / "three.json"
    files = [str(ZOO / name) for name in ("resnet-onnx.onnx", "bert-plain.pt2", "bert-plain.pt2")]
    settings = ["--set", "models.0.batch=8", "--set", "models.0.mini_batch=2", "--set", "task.windows=3"]
    command = ["convert", *files, "--family", "multimodel", "--system", "het-cb-3x3", *settings, "--out", str(out)]
    assert main(command) == 0
    instance = read(out)
    assert isinstance(instance, MultiInstance)
    # the file's 60,296 bytes of parameters, without the 16 that only a view reads (a shape)
    assert [(m.name, m.batch, m.mini_batch) for m in instance.models] == [
        ("resnet-onnx", 8, 2),
        ("bert-plain", 1, 1),
        ("bert-plain-2", 1, 1),
    ]
    assert instance.task.windows == 3 and len(instance.module.chiplets) == 9
    assert sum(layer.weight_bytes for layer in instance.models[0].layers) == 60_280


@pytest.mark.parametrize("sample", SAMPLES)
def test_every_format_becomes_a_chain(sample: str, tmp_path: Path) -> None:
    path = tmp_path / "graph"
    path.write_bytes(SAMPLES[sample])
    try:
        instance = read(path, family="multimodel")
    except InputError as error:
        assert error.remedy
        return
    assert isinstance(instance, MultiInstance) and instance.models[0].layers


@pytest.mark.parametrize(
    ("name", "first", "second", "links"),
    [
        ("nvdla-3x3", 9, 0, 12),
        ("shidiannao-3x3-triangular", 0, 9, 16),
        ("het-sides-3x3", 6, 3, 12),
        ("het-cb-3x3", 5, 4, 12),
        ("het-cross-3x3", 4, 5, 12),
        ("het-sides-6x6", 12, 24, 60),
        ("het-cb-6x6-triangular", 18, 18, 85),
        ("het-cross-6x6", 16, 20, 60),
    ],
)
def test_named_systems(name: str, first: int, second: int, links: int) -> None:
    """How many chiplets of each class, how many links; interfaces to DRAM on the left and right columns."""
    module = system(name).module
    kinds = [chiplet.kind for chiplet in module.chiplets]
    assert (kinds.count("nvdla"), kinds.count("shidiannao"), len(module.links)) == (first, second, links)
    hops = [chiplet.hops for chiplet in module.chiplets if chiplet.y == 0]
    assert hops == ([1, 2, 1] if len(kinds) == 9 else [1, 2, 3, 3, 2, 1])


def test_settings_come_after_the_system(tmp_path: Path) -> None:
    """Six models on one chiplet: a converted instance has windows enough, another gets them by --set."""
    files = [ZOO / "resnet-plain.pt2"] * 6
    instance = read_graphs(files, family="multimodel", conversion=equipped(system="nvdla-1x1"))
    assert isinstance(instance, MultiInstance) and instance.task.windows == 6
    short = read("multimodel/scar-5-whole", conversion=equipped(system="nvdla-1x1"))
    ended = solve(short, isolate=False)
    assert ended.status == "infeasible" and ended.infeasibility[0].label == "C2"
    path = tmp_path / "scar.json"
    path.write_bytes(read("multimodel/scar-5-whole").to_json())
    for source in ("multimodel/scar-5-whole", path):
        one = read(source, ["task.windows=7"], conversion=equipped(system="nvdla-1x1"))
        assert isinstance(one, MultiInstance) and one.task.windows == 7 and len(one.module.chiplets) == 1


def test_an_instance_gets_another_system(tmp_path: Path) -> None:
    instance = read("multimodel/scar-8-whole", ["task.windows=3"], conversion=equipped(system="het-cross-6x6"))
    assert isinstance(instance, MultiInstance)
    assert len(instance.module.chiplets) == 36 and instance.task.windows == 3
    kinds = [[chiplet.kind[0] for chiplet in instance.module.chiplets if chiplet.y == y] for y in range(6)]
    assert kinds == [list("nnssnn")] * 2 + [list("ssssss")] * 2 + [list("nnssnn")] * 2
    path = tmp_path / "system.json"
    path.write_bytes(json.dumps(json.loads(instance.to_json())["module"]).encode())
    assert read("multimodel/scar-8-whole", conversion=equipped(system=str(path))).module == instance.module  # type: ignore[attr-defined]
    path.write_bytes(instance.to_json())  # an instance's module
    assert read("multimodel/scar-8-whole", conversion=equipped(system=str(path))).module == instance.module  # type: ignore[attr-defined]


def test_three_files_to_a_schedule_whose_times_add_up(tmp_path: Path) -> None:
    """Three ONNX files that our exporter made, one command each to convert and to solve; T1 and T2 from files alone."""
    files = [str(ZOO / f"{name}-onnx.onnx") for name in ("resnet", "bert", "vit")]
    made, archive = tmp_path / "mine.json", tmp_path / "run"
    settings = ["--set", "models.0.batch=4", "--set", "models.1.batch=6", "--set", "models.1.mini_batch=3"]
    assert main(["convert", *files, "--family", "multimodel", *settings, "--out", str(made)]) == 0
    command = ["solve", str(made), "--method", "search", "--time-limit", "5", "--quiet", "--out", str(archive)]
    assert main(command) == 0
    instance, solution, result = (
        json.loads(path.read_bytes()) for path in (made, archive / "solution.json", archive / "result.json")
    )
    assert totals(instance, solution) == result["certificate"]["terms"]
    assert latency(json.loads((archive / "trace.json").read_bytes())) == result["certificate"]["terms"]["T1"]
    assert result["gap"] is not None and 0 <= result["gap"] < 1


def test_dimensions_of_several_files(tmp_path: Path) -> None:
    """A name belongs to every file that has it, with a file's name before it to that file; unknown ones are refused."""
    pytest.importorskip("onnx")
    from onnx import helper

    from tests.instances.onnx_models import model, tensor, weight

    product = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    for name, rows in (("one", "batch"), ("two", "batch"), ("fixed", 5)):
        (tmp_path / f"{name}.onnx").write_bytes(model([product], [tensor("x", rows, 8)], [weight("w", 8, 4)]))
    files = [str(tmp_path / f"{name}.onnx") for name in ("one", "two", "fixed")]

    def read_bytes_in(*dims: str) -> list[int]:
        instance = read_graphs(files, family="multimodel", conversion=Conversion(dims))
        assert isinstance(instance, MultiInstance)
        return [model.layers[0].in_bytes // (4 * 8) for model in instance.models]

    assert read_bytes_in("batch=3") == [3, 3, 5]
    assert read_bytes_in("batch=3", "two:batch=7") == [3, 7, 5]
    assert read_bytes_in("one:batch=2", "two:batch=4") == [2, 4, 5]
    for dims, message in (
        (("one:batch=2",), "two.onnx: the dimension 'batch' of tensor 'x' has no value"),
        (("batch=3", "tokens=4"), "there is no dimension or tensor 'tokens'"),
        (("batch=3", "fixed:batch=4"), "fixed.onnx: there is no dimension or tensor 'batch'"),
    ):
        with pytest.raises(InputError) as caught:
            read_bytes_in(*dims)
        assert message in str(caught.value) and caught.value.remedy


def test_classes_with_rates_of_their_own(tmp_path: Path) -> None:
    """A user's system: a class that computes twice as fast, one that moves ten times as much; none may be left out."""
    rates = {"flop_per_ns": 100.0, "bytes_per_ns": 10.0, "pj_per_flop": 0.5, "pj_per_byte": 2.0}
    classes = {"fast": {**rates, "flop_per_ns": 200.0}, "wide": {**rates, "bytes_per_ns": 100.0, "pj_per_byte": 4.0}}
    chiplets = [{"name": kind, "class": kind, "hops": 1} for kind in classes]
    path = tmp_path / "system.json"
    path.write_text(json.dumps({"chiplets": chiplets, "links": [["fast", "wide"]], "classes": classes}))
    found = from_graphs([(u_net(), "net")], str(path))
    a = found.models[0].layers[0]  # 1,010 FLOP and 157 bytes
    assert a.costs == {"fast": (16, 505 + 314), "wide": (11, 505 + 628)}
    assert "all classes cost the same" not in found.notes
    del classes["wide"]
    path.write_text(json.dumps({"chiplets": chiplets, "classes": classes}))
    with pytest.raises(InputError, match=r"class 'wide' has no rates\n.*fast: give them for all"):
        from_graphs([(u_net(), "net")], str(path))


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
