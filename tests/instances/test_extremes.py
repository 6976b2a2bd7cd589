"""Numbers, lengths and depths that nobody means: each is read, or refused in words."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import pytest

import chipmap
from chipmap.instances.wafer.paint import read_paint
from chipmap.networks.importers.onnx.state import LONGEST
from chipmap.networks.importers.own import dot
from chipmap.networks.importers.own.fields import MAX_UNKNOWN
from chipmap.networks.importers.reading import import_graph
from chipmap.networks.importers.torch import file as pt2_file
from chipmap.records import InputError
from tests.instances.programs import TORCH
from tests.wafer.samples import INSTANCE, TEXT

BANNER = "#" * 60 + "\n# my network\n" + "#" * 60 + "\n"
CSV = "name,flop,bytes,inputs\na,1e6,1000,\nb,1e6,1000,a\n"
FIELDS = ("flop", "bytes", "weights", "time_ns")


def refusal(name: str, data: str) -> str:
    with pytest.raises(InputError) as error:
        import_graph(name, data.encode())
    assert error.value.remedy and len(str(error.value)) < 5_000
    return str(error.value)


@pytest.mark.parametrize("sign", ["#", "/", "/*", "//*", " #"])
def test_a_banner_is_a_comment_or_is_refused(sign: str) -> None:
    """Lines of signs at the beginning of a table and of a graph in DOT, in files without an ending that tells."""
    banner = f"{sign * 2_000}\n"
    assert "no known graph format" in refusal("x", banner + "what")
    if sign.strip() == "#":
        made = import_graph("x", (BANNER + CSV).encode()).graph
        assert [operation.name for operation in made.operations] == ["a", "b"] and len(made.tensors) == 2
    graph = BANNER + "// more\n/* ##### **/ strict digraph { a [flop=1] }"
    assert import_graph("x", graph.encode()).format == dot.FORMAT


@pytest.mark.parametrize("digits", [19, 99, 400, 4_400, 100_000])
@pytest.mark.parametrize("field", FIELDS)
def test_numbers_of_many_digits(digits: int, field: str) -> None:
    """In JSON, in a table, in DOT and from Python."""
    number = "9" * digits
    node = f'{{"name": "a", "flop": 1, "{field}": {number}}}'.replace('"flop": 1, "flop"', '"flop"')
    message = refusal("x.json", f'{{"nodes": [{node}]}}')
    assert "nodes[0]" in message and ("runs from 0 to" in message or "too large" in message)
    columns, cells = ("name,flop", "a") if field == "flop" else (f"name,flop,{field}", "a,1")
    assert f"line 2: {field} is" in refusal("x.csv", f"{columns}\n{cells},{number}\n")
    assert f"line 1: {field} is" in refusal("x.dot", f"digraph {{ a [{field}={number}] }}")
    with pytest.raises(InputError, match=f"{field} is .*: it runs from 0 to"):
        chipmap.from_edges([], [{"name": "a", "flop": 1, field: 10**digits - 1}], family="ring")


@pytest.mark.parametrize("value", ["1e999", "-1e999", "NaN", "Infinity", "1e-999", "0x10", "١٢", "1__0", "+-1", "1,00"])
@pytest.mark.parametrize("field", FIELDS)
def test_texts_that_are_hardly_numbers(value: str, field: str) -> None:
    for name, data in (
        ("x.json", json.dumps({"nodes": [{"name": "a", "flop": 1} | {field: value}]})),
        ("x.dot", f'digraph {{ a [flop=1, {field}="{value}"] }}'.replace("flop=1, flop", "flop")),
    ):
        try:
            import_graph(name, data.encode())
        except InputError as error:
            assert f"{field} is '{value}'" in str(error)


@pytest.mark.parametrize("place", ["name", "role", "kind", "inputs", "flop"])
def test_anything_in_the_place_of_a_word(place: str) -> None:
    values: list[Any] = [10**5000, [[[[]]]], {}, True, 1e308, "\ud800", "\x00", "\ufeff", "a" * 10**5, "'" * 999]
    for value in values:
        try:
            chipmap.from_edges([], [{"name": "a", "flop": 1, place: value}], family="ring")
        except InputError as error:
            assert error.remedy


def test_names_of_many_parts() -> None:
    """Graphviz joins texts with ``+``."""
    joined = '"a"+' * 5_000 + '"b"'
    made = import_graph("x.dot", f"digraph {{ {joined} [flop=1] }}".encode()).graph
    assert made.operations[0].name == "a" * 5_000 + "b"
    assert "a name is missing before '}'" in refusal("x.dot", 'digraph { "a"+ }')


def test_short_texts_make_no_endless_graphs() -> None:
    """Sets of nodes, defaults and unknown fields multiply."""
    nodes = " ".join(f"n{i}[flop=1,bytes=1];" for i in range(400))
    pair = "{" + " ".join(f"n{i}" for i in range(400)) + "}"
    assert f"more than {dot.MAX_EDGES:,} edges" in refusal("x.dot", f"digraph {{ {nodes} {pair} -> {pair} }}")
    defaults = ",".join(f"k{i}=1" for i in range(900))
    many = "".join(f"n{i}[flop=1];" for i in range(2_000))
    assert "defaults give more than" in refusal("x.dot", f"digraph {{ node [{defaults}] {many} }}")
    assert "defaults give more than" in refusal("x.dot", f"digraph {{ edge [{defaults}] {'{}' * 2_000} }}")
    assert "braces are nested" in refusal("x.dot", "digraph {" + "{" * 10_000)
    unknown = [{"name": f"n{i}", "flop": 1, f"zz{i}": 0} for i in range(MAX_UNKNOWN + 1)]
    for data in (unknown, [{"name": "a", "flop": 1} | {f"zz{i}": 0 for i in range(MAX_UNKNOWN + 1)}]):
        assert "fields that chipmap doesn't know" in refusal("x.json", json.dumps({"nodes": data}))
    long = [{"name": "a", "flop": 1} | {"z" * 500 + str(i): 0 for i in range(900)}]
    assert len(import_graph("x.json", json.dumps({"nodes": long}).encode()).notes[0]) < 2_000


def test_a_chain_of_edges_is_no_set() -> None:
    """The bound on edges between sets is none on those that are written out one by one."""
    names = [f"n{i}" for i in range(300)]
    text = f"digraph {{ {'; '.join(f'{n} [flop=1, bytes=1]' for n in names)}; {'->'.join(names)} }}"
    assert len(import_graph("x.dot", text.encode()).graph.tensors) == 300


def packed(text: str, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A .pt2 file whose graph is this text."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("small/models/model.json", text)
    return out.getvalue()


def pt2_refusal(data: bytes) -> str:
    with pytest.raises(InputError) as error:
        import_graph("x.pt2", data)
    assert error.value.remedy
    return str(error.value)


PROGRAM = json.dumps(TORCH)


def test_a_short_archive_unpacks_to_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more is unpacked than a network's graph can need; what PyTorch writes, unpacked, may be larger."""
    asked: list[int] = []
    read = zipfile.ZipExtFile.read

    def counting(self: zipfile.ZipExtFile, count: int = -1) -> bytes:
        asked.append(count)
        return read(self, count)

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counting)
    blown = PROGRAM[:-1] + " " * 12_000_000 + "}"
    data = packed(blown)
    most = pt2_file.FREE_JSON + pt2_file.MAX_RATIO * len(data)
    assert len(data) < 20_000 and f"its graph has more than {most // 2**20} MiB" in pt2_refusal(data)
    assert "unpacked" in pt2_refusal(data) and max(asked) <= most + 1
    assert len(import_graph("x.pt2", packed(blown, zipfile.ZIP_STORED)).graph.operations) == 10
    assert len(import_graph("x.pt2", packed(PROGRAM)).graph.operations) == 10


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_ways_to_pack_are_refused(method: int) -> None:
    assert "packed in a way that isn't read" in pt2_refusal(packed(PROGRAM, method))


def test_very_many_values_are_refused_before_they_are_read() -> None:
    start = PROGRAM.index('"outputs": [') + len('"outputs": [')
    text = PROGRAM[:start] + "{}," * pt2_file.MAX_VALUES + PROGRAM[start:]
    assert "objects and lists, more than 2,500,000" in pt2_refusal(packed(text, zipfile.ZIP_STORED))


def test_names_that_begin_many_others_are_short() -> None:
    """A name of a million characters stands once in a file, and a million times in a graph."""
    program = json.loads(PROGRAM)
    node = program["graph_module"]["graph"]["nodes"][0]
    node["name"], node["outputs"] = "n" * 10_000, [{}] * 2_000
    assert "has 2,000 results and a name of 10,000 characters" in pt2_refusal(packed(json.dumps(program)))
    onnx = pytest.importorskip("onnx")
    from chipmap.networks.importers.onnx.state import Place

    inner = Place().inside(onnx.NodeProto(name="n" * 500))
    with pytest.raises(InputError, match=f"more than {LONGEST:,} characters"):
        for _ in range(5):
            inner = inner.inside(onnx.NodeProto(name="n" * 500))


def test_suggestions_for_many_dimensions_are_looked_up() -> None:
    """Each of thousands of dimensions has its own value in the export."""
    program = json.loads(PROGRAM)
    values = program["graph_module"]["graph"]["tensor_values"]
    first = next(iter(values.values()))
    sizes = [{"as_expr": {"expr_str": f"s{i}", "hint": {"as_int": i + 2}}} for i in range(3_000)]
    first["sizes"] = sizes
    assert "--dim s0=2 --dim s1=3" in pt2_refusal(packed(json.dumps(program)))


@pytest.mark.parametrize("zeros", [20, 30_000])
def test_numbers_behind_many_zeros(zeros: int) -> None:
    """Python refuses to convert more than 4,300 digits, zeros in front as well."""
    padded = TEXT.replace("20 0 R90", f"{'0' * zeros}20 -{'0' * zeros}3 R90")
    places = {one.kernel: one for one in read_paint(padded.encode(), "x.paint", INSTANCE).placements}
    assert (places["k2"].x, places["k2"].y) == (20, -3)
    with pytest.raises(InputError, match="too large"):
        read_paint(TEXT.replace("20 0 R90", f"{'9' * zeros} 0 R90").encode(), "x.paint", INSTANCE)
