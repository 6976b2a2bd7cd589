"""Readers of published formats: what they read from small files by hand, from all real files, and from broken ones."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.from_graph import from_graph
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import FORMATS, import_graph
from chipmap.records import InputError
from tests.instances import samples
from tests.instances.mutations import mutated_bytes, mutated_structure
from tests.instances.published import FORMATS as PATTERNS
from tests.instances.published import all_published, published

#: Mutations per format.
ROUNDS = 600


def read(data: Any, name: str = "small.json") -> ImportedGraph:
    return import_graph(name, data if isinstance(data, bytes) else json.dumps(data).encode())


def changed(sample: dict[str, Any], *path: str | int, **to: Any) -> bytes:
    """The sample with the fields ``to`` set (None: removed) on what ``path`` leads to."""
    copy = json.loads(json.dumps(sample))
    place = copy
    for step in path:
        place = place[step]
    for key, value in to.items():
        if value is None:
            del place[key]
        else:
            place[key] = value
    return json.dumps(copy).encode()


def tensors(imported: ImportedGraph) -> set[tuple[str, tuple[str, ...], int]]:
    names = [operation.name for operation in imported.graph.operations]
    return {(names[t.producer], tuple(names[v] for v in t.readers), t.bytes) for t in imported.graph.tensors}


def test_every_format_has_a_sample_and_is_listed() -> None:
    assert set(samples.SAMPLES) == set(FORMATS)
    assert set(PATTERNS) < set(FORMATS)
    for name, data in samples.SAMPLES.items():
        if name == "onnx":
            pytest.importorskip("onnx", reason="needs the extra onnx")
        assert import_graph("small", data).format == name


def test_traced() -> None:
    imported = read(samples.TRACED)
    assert imported.time_ns is None
    assert [(op.name, op.role) for op in imported.graph.operations] == [
        ("x", "input"),
        ("mask", "constant"),
        ("conv", "compute"),
        ("flat", "view"),
        ("add", "compute"),
        ("add#5", "compute"),
    ]
    assert imported.graph.operations[2].weight_bytes == 7
    assert ("conv", ("flat", "add#5"), 20) in tensors(imported)
    assert [t.producer for t in imported.graph.tensors if t.output] == [4]
    # the sum makes no output: dead
    assert ring_problem(from_graph(imported, "x")).computing.tolist() == [False, False, True, False, True, False]


def test_look_ups_and_shared_weights_of_traced_graphs() -> None:
    """A look-up in a parameter moves rows; a head without weights is named, since nothing says whose it shares."""
    fields = ("id", "name", "op", "kind", "flops", "out_bytes", "weight_bytes")
    rows = [
        (0, "ids", "input", "input", 0, 16, 0),
        (1, "words", "embedding", "compute", 8000, 64, 32000),
        (2, "of_words", "index", "compute", 16, 32, 0),
        # [4, 4] · [4, 256] with its matrix and a bias, then [4, 256] · [256, 500] with a bias alone
        (3, "dense", "addmm", "compute", 2 * 4 * 4 * 256, 4096, 4 * (1024 + 256)),
        (4, "head", "mm", "compute", 64000, 8000, 0),
        (5, "scores", "bmm", "compute", 99, 8, 0),
        (6, "biased", "addmm", "compute", 2 * 4 * 256 * 500, 8000, 4 * 500),
    ]
    nodes = [dict(zip(fields, row, strict=True)) for row in rows]
    edges = [[0, 1, 16], [1, 2, 64], [0, 2, 16], [1, 3, 64], [3, 4, 4096], [3, 5, 4096], [1, 5, 64], [3, 6, 4096]]
    imported = read({"name": "tied", "nodes": nodes, "edges": edges, "outputs": [2, 4, 5, 6]})
    assert [(op.flop, op.moved_bytes) for op in imported.graph.operations[1:4]] == [
        (8000, 16 + 128),
        (16, None),
        (8192, None),
    ]
    assert imported.notes == ("products without weights, which they share with operations before them: head, biased",)


def test_dnn_partitioning() -> None:
    imported = read(samples.DNN_PARTITIONING)
    assert [(op.name, op.role, op.weight_bytes) for op in imported.graph.operations] == [
        ("ids", "input", 0),
        ("table", "constant", 0),
        ("Gather1", "compute", 0),
        ("MatMul1", "compute", 99),
        ("Split1", "compute", 0),
    ]
    assert imported.time_ns == (None, None, 0.25e6, 1.5e6, 0.0)
    assert tensors(imported) == {
        ("ids", ("Gather1",), 0),
        ("table", ("Gather1",), 64),
        ("Gather1", ("MatMul1",), 16),
        ("MatMul1", ("Split1",), 1),
    }
    assert imported.together == (("MatMul1", "Split1"),)
    assert "1 backward nodes left out" in imported.notes


def test_dnn_partitioning_without_sizes_of_edges() -> None:
    plain = json.loads(json.dumps(samples.DNN_PARTITIONING))
    for edge in plain["edges"]:
        del edge["size"]
    imported = read(plain)
    assert ("MatMul1", ("Split1",), 100) in tensors(imported)
    assert imported.graph.operations[3].weight_bytes == 0
    assert any("edges give no size" in note for note in imported.notes)


def test_piper_takes_the_plain_option() -> None:
    imported = read(samples.PIPER)
    assert [(op.name, op.kind, op.weight_bytes) for op in imported.graph.operations] == [
        ("Embedding", "Embedding", 64),
        ("Layer", "Layer", 128),
        ("Layer#12", "Layer", 128),
    ]
    assert imported.time_ns == pytest.approx((2e6, 3e7, 3e7))
    assert tensors(imported) == {("Embedding", ("Layer",), 256), ("Layer", ("Layer#12",), 256)}


def test_piper_in_milliseconds() -> None:
    data = changed(samples.PIPER, "nodes", 1, "TMPCs", "1", 0, timePerSample=30)
    imported = read(data)
    assert imported.time_ns is not None
    assert imported.time_ns[1] == pytest.approx(3e7)
    assert "as ms" in imported.notes[0]


def test_pipedream() -> None:
    imported = read(samples.PIPEDREAM.encode(), "folder/net.graph.txt")
    assert imported.graph.name == "net"
    assert [(op.name, op.kind, op.role, op.weight_bytes) for op in imported.graph.operations] == [
        ("node1", "Input", "input", 0),
        ("node2", "Conv2d", "compute", 32),
        ("node3", "LSTM", "compute", 0),
    ]
    assert imported.time_ns == (None, 0.5e6, 0.25e6)
    assert tensors(imported) == {("node1", ("node2",), 64), ("node2", ("node3",), 128), ("node3", (), 8)}


def test_windows_line_ends_and_byte_order_mark() -> None:
    data = b"\xef\xbb\xbf" + samples.PIPEDREAM.replace("\n", "\r\n").encode()
    assert read(data).graph == read(samples.PIPEDREAM.encode()).graph
    assert read(b"\xef\xbb\xbf" + samples.SAMPLES["piper"]).graph == read(samples.PIPER).graph


def test_from_graph_carries_times_groups_and_notes() -> None:
    imported = read(samples.DNN_PARTITIONING)
    instance = from_graph(imported, "mine")
    assert (instance.name, instance.package.chips) == ("mine", 36)
    assert instance.time_ns == imported.time_ns
    assert instance.together == imported.together
    assert instance.constraints == ("C1", "C2", "C3")
    assert "C4 (memory) is off unless asked for" in instance.notes
    assert from_graph(read(samples.TRACED), "x").constraints == ("C1", "C2", "C3", "C4")


T, D, P = samples.TRACED, samples.DNN_PARTITIONING, samples.PIPER
BROKEN: list[tuple[str, bytes, str]] = [
    ("no format", b"hello", "no known graph format"),
    ("empty", b"", "no known graph format"),
    ("binary", bytes(range(256)) * 4, "no known graph format"),
    ("other JSON", b'{"schema": "ring/1"}', "no known graph format"),
    ("no nodes", b'{"nodes": []}', "no known graph format"),
    ("unknown nodes", b'{"nodes": [{"id": 1}]}', "nodes have id"),
    ("broken JSON", samples.SAMPLES["traced"][:-40], "not valid JSON"),
    ("deep", b'{"nodes": ' + b"[" * 100_000, "nested too deeply"),
    ("traced: missing field", changed(T, "nodes", 2, flops=None), "nodes[2]."),
    ("traced: wrong type", changed(T, "nodes", 2, flops="many"), "nodes[2].flops"),
    ("traced: negative", changed(T, "nodes", 2, out_bytes=-1), "nodes[2].out_bytes"),
    ("traced: huge", changed(T, "nodes", 2, out_bytes=10**16), "nodes[2].out_bytes"),
    ("traced: kind", changed(T, "nodes", 2, kind="magic"), "nodes[2].kind"),
    ("traced: id twice", changed(T, "nodes", 2, id=1), "node ids are not 0, 1, 2"),
    ("traced: cycle", changed(T, edges=[[2, 4, 1], [4, 2, 1]]), "edges[1]: edge 4 -> 2 leads backwards"),
    ("traced: no such node", changed(T, edges=[[2, 6, 1]]), "edges[0]: edge 2 -> 6 names no node"),
    ("traced: output", changed(T, outputs=[9]), "outputs[0]: output 9 names no node"),
    ("dnn: missing field", changed(D, "nodes", 2, fpgaLatency=None), "nodes[2]."),
    ("dnn: negative", changed(D, "nodes", 2, fpgaLatency=-0.5), "nodes[2].fpgaLatency: -0.5 is no time"),
    ("dnn: size", changed(D, "nodes", 3, size=-1), "nodes[3].size: -1.0 is no size"),
    ("dnn: huge", changed(D, "nodes", 3, size=1e300), "nodes[3].size: 1e+300 is no size"),
    ("dnn: edge size", changed(D, "edges", 2, size=-1), "edges[2].size: -1.0 is no size"),
    ("dnn: id twice", changed(D, "nodes", 4, id=5), "nodes[4]: the id 5 is used twice"),
    ("dnn: no such node", changed(D, "edges", 1, destId=77), "edges[1].destId: no node has the id 77"),
    ("dnn: cycle", changed(D, "edges", 3, destId=4), "the graph has a cycle: MatMul1 -> Gather1 -> MatMul1"),
    ("dnn: one size missing", changed(D, "edges", 2, size=None), "edges[2]: size is missing"),
    ("piper: no options", changed(P, "nodes", 1, TMPCs={}), "nodes[1].TMPCs: there is no option of degree 1"),
    ("piper: negative", changed(P, "nodes", 2, "TMPCs", "1", 0, timePerSample=-1), "nodes[2].timePerSample: -1.0"),
    (
        "piper: text",
        changed(P, "nodes", 2, "TMPCs", "1", 0, timePerSample="1"),
        "nodes[2].TMPCs[...][0].timePerSample: is text",
    ),
    ("piper: id twice", changed(P, "nodes", 2, id=10), "nodes[2]: the id 10 is used twice"),
    ("piper: cycle", changed(P, "edges", 1, destId=10), "the graph has a cycle"),
    ("piper: bytes", changed(P, "edges", 1, communicationCost=-4), "edges[1].communicationCost: -4.0 is no size"),
]
PIPEDREAM_BROKEN: list[tuple[str, str, str, str]] = [
    ("nan", "forward_compute_time=0.5", "forward_compute_time=nan", "node2: forward_compute_time: nan is no time"),
    ("infinite", "parameter_size=32.000", "parameter_size=inf", "node2: parameter_size: inf is no size"),
    ("negative", "activation_size=128.000", "activation_size=-1", "node2: activation_size: -1.0 is no size"),
    ("text", "forward_compute_time=0.5", "forward_compute_time=fast", "line 2: forward_compute_time is 'fast'"),
    ("list", "[6.0; 2.0]", "[6.0; ]", "line 3: activation_size is '[6.0; ]'"),
    ("missing", ", parameter_size=32.000", "", "line 2: parameter_size is missing"),
    ("id twice", "node3 -- LSTM", "node2 -- LSTM", "layers[2]: the id 'node2' is used twice"),
    ("no such node", "\tnode2 -- node3", "\tnode2 -- node4", "line 5: no node has the id 'node4'"),
    ("cut edge", "\tnode2 -- node3\n", "\tnode2", "line 5: this isn't an edge"),
    ("cut layer", "node3 -- LSTM(8, 8) -- ", "node3", "line 3: this isn't a layer"),
    ("cycle", "\tnode1 -- node2", "\tnode3 -- node2", "the graph has a cycle"),
]
BROKEN += [
    (f"pipedream: {name}", samples.PIPEDREAM.replace(old, new).encode(), said)
    for name, old, new, said in PIPEDREAM_BROKEN
]


@pytest.mark.parametrize(("data", "said"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_broken_files_name_file_place_and_remedy(data: bytes, said: str) -> None:
    with pytest.raises(InputError) as error:
        import_graph("broken.file", data)
    assert said in str(error.value)
    assert error.value.where.startswith("broken.file")
    assert error.value.remedy


def test_a_missing_file() -> None:
    with pytest.raises(InputError, match=r"nowhere\.json: can't be read"):
        import_graph("nowhere.json")


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_mutated_files_are_read_or_refused_in_words(name: str) -> None:
    """Whatever happens to a file, the reader returns a graph that passes its check, or raises an InputError."""
    if name == "onnx":
        pytest.importorskip("onnx", reason="needs the extra onnx")
    refused = 0
    for seed in range(ROUNDS):
        change = mutated_structure if seed % 2 else mutated_bytes
        data = change(samples.SAMPLES[name], Random(f"{name} {seed}"))
        try:
            from_graph(import_graph("mutated.file", data), "mutated").graph.check()
        except InputError as error:
            refused += 1
            assert error.remedy, f"seed {seed}: {error}"
    # if nearly all were refused, or hardly any, the mutations would test little
    assert 0.3 * ROUNDS < refused < 0.97 * ROUNDS


@pytest.mark.parametrize("name", PATTERNS)
def test_every_published_file(name: str) -> None:
    for path in all_published(name):
        imported = import_graph(str(path))
        assert imported.format == name
        again = import_graph("elsewhere.json", path.read_bytes())
        assert (again.graph.operations, again.graph.tensors) == (imported.graph.operations, imported.graph.tensors)
        contraction = contract(from_graph(imported, path.name))
        assert contraction.report["left"] > 0


def test_traced_graphs_have_the_published_numbers_of_operations_and_work() -> None:
    """N and total work / 36 (in µs, one decimal) of the published reference values."""
    rows = json.loads(published("ring_reference_36chips.json").read_bytes())["rows"]
    files = {path.stem: path for path in all_published("traced")}
    compared = 0
    for row in rows:
        if "N" in row and row["name"] in files:
            instance = from_graph(import_graph(str(files[row["name"]])), row["name"]).replace(traffic="twice_out")
            problem = ring_problem(instance)
            assert int(problem.computing.sum()) == row["N"], row["name"]
            if "avg_us" in row:
                # rounding up to ticks adds at most one tick per operation
                assert problem.total_ticks / 36 / 1e5 == pytest.approx(row["avg_us"], abs=0.0501 + 1e-5 * row["N"] / 36)
            compared += 1
    assert compared >= 54


@pytest.mark.parametrize(("file", "forward_ms"), [("resnet50", 182.488), ("vgg16", 233.902)])
def test_pipedream_profiles_sum_to_their_forward_time(file: str, forward_ms: float) -> None:
    imported = import_graph(str(published(f"pipedream/{file}.graph.txt")))
    assert sum(time for time in imported.time_ns or () if time is not None) == pytest.approx(forward_ms * 1e6)


def test_dnn_partitioning_repeats_the_profile_of_pipedream() -> None:
    """The layer graph of ResNet-50 and the profile that it was made from: same layers, times, tensors, weights."""
    ours = import_graph(str(published("dnn-partitioning/throughput-inputs/LayerGraphs/resnet50_inference.json")))
    theirs = import_graph(str(published("pipedream/resnet50.graph.txt")))
    of = [
        {op.name: (op.weight_bytes, time) for op, time in zip(i.graph.operations, i.time_ns or (), strict=True)}
        for i in (ours, theirs)
    ]
    layers = [name for name, (_, time) in of[1].items() if time is not None]
    assert len(layers) == 176
    assert all(of[0][name][1] == pytest.approx(of[1][name][1]) for name in layers)
    read = [{row for row in tensors(i) if row[1]} for i in (ours, theirs)]
    assert {(row[0], frozenset(row[1]), row[2]) for row in read[0]} == {(r[0], frozenset(r[1]), r[2]) for r in read[1]}
