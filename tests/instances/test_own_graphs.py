"""Graphs that people write themselves, in tables, JSON, DOT and Python: what is read, and what is said of slips."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import networkx
import pytest

import chipmap
from chipmap.cli import main
from chipmap.inputs.reading import read, read_graphs
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.own.amounts import BYTES, FLOP, TIME
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError
from tests.instances import samples

NODES = "name,flop,bytes,weights\na,1e6,4KiB,64\nb,2e6,4KiB,0\nc,3e6,8,0\n"
EDGES = "source,target,bytes\na,b,\nb,c,16\na,c,\n"
#: Name, FLOP and weights of each operation; (producer, readers, bytes) of each tensor: the same graph always.
OPERATIONS = [("a", 10**6, 64), ("b", 2 * 10**6, 0), ("c", 3 * 10**6, 0)]
TENSORS = {("a", ("b", "c"), 4096), ("b", ("c",), 16), ("c", (), 8)}


def shown(graph: Any) -> tuple[Any, Any]:
    names = [operation.name for operation in graph.operations]
    tensors = {(names[t.producer], tuple(names[v] for v in t.readers), t.bytes) for t in graph.tensors}
    return [(o.name, o.flop, o.weight_bytes) for o in graph.operations], tensors


def text(data: str, name: str = "net.csv") -> ImportedGraph:
    return import_graph(name, data.encode())


def test_amounts() -> None:
    assert BYTES.read("64MiB", "bytes", "") == 64 * 2**20
    assert (
        BYTES.read(" 1.5 kB", "bytes", "") == 1500 == BYTES.read("1_500", "bytes", "") == BYTES.read(1.5e3, "bytes", "")
    )
    assert FLOP.read("2.5GFLOP", "flop", "") == 2_500_000_000 == FLOP.read("2.5e9", "flop", "")
    assert [TIME.read(t, "time_ns", "") for t in ("3", "3us", "3 µs", "2ms", "1s")] == [3, 3000, 3000, 2e6, 1e9]
    assert [TIME.read(t, "time_ns", "") for t in ("2min", "1500ps")] == [120e9, 1.5] and BYTES.read(
        "1k", "bytes", ""
    ) == 1000
    assert [BYTES.read(nothing, "bytes", "") for nothing in (None, "", "  ", math.nan)] == [None] * 4


@pytest.mark.parametrize("bad", ["fast", "-1", -1, "1e400", "0x10", "1e99", math.inf, True, [], "5 miles", "1" * 200])
def test_amounts_that_are_none(bad: Any) -> None:
    with pytest.raises(InputError, match="line 7: bytes is") as error:
        BYTES.read(bad, "bytes", "line 7")
    assert "64KiB" in error.value.remedy


def test_a_decimal_comma_is_written_with_a_point() -> None:
    with pytest.raises(InputError, match="line 7: bytes is '1,5MiB', which has a decimal comma") as error:
        BYTES.read("1,5MiB", "bytes", "line 7")
    assert error.value.remedy == "Write 1.5MiB." and BYTES.read("1,500", "bytes", "line 7") == 1500


def test_one_table_two_tables_json_dot_and_python_are_one_graph(tmp_path: Path) -> None:
    column = (
        "name,flop,bytes,weights,inputs\na,1e6,4KiB,64,\nb,2e6,4KiB,0,a\nc,3e6,8,0,a\n\nsource,target,bytes\nb,c,16\n"
    )
    fields = {"a": {"flop": 1e6, "bytes": "4KiB", "weights": 64}, "b": {"flop": "2M", "bytes": 4096}}
    fields["c"] = {"flop": 3e6, "bytes": 8}
    edges: list[Any] = [("a", "b"), ("b", "c", 16), {"source": "a", "target": "c"}]
    listed = {"nodes": [{"name": key, **values} for key, values in fields.items()], "edges": edges}
    dot = "digraph { a [flop=1e6,bytes=4KiB,weights=64] b [flop=2e6,bytes=4096]; c [flop=3e6 bytes=8]"
    dot += "\n a -> {b c}; b -> c [bytes=16] }"
    graph = networkx.DiGraph()
    graph.add_nodes_from(fields.items())
    graph.add_edges_from([("a", "b"), ("b", "c", {"bytes": 16}), ("a", "c")])
    (tmp_path / "net.nodes.csv").write_text(NODES)
    (tmp_path / "net.edges.csv").write_text(EDGES)
    (tmp_path / "elsewhere.csv").write_text(EDGES)
    pair = [tmp_path / "net.nodes.csv", tmp_path / "elsewhere.csv"]
    made = [
        text(NODES + "\n" + EDGES).graph,
        text(column).graph,
        import_graph("x.json", json.dumps(listed).encode()).graph,
        text(dot, "x").graph,
        import_graph(str(pair[0])).graph,
        read_graphs(pair, family="ring").graph,  # type: ignore[attr-defined]
        read_graphs(pair[::-1], family="ring").graph,  # type: ignore[attr-defined]
        chipmap.from_edges(edges, fields, family="ring").graph,  # type: ignore[attr-defined]
        chipmap.from_edges(edges, listed["nodes"], family="ring").graph,  # type: ignore[arg-type, attr-defined]
        chipmap.from_networkx(graph, family="ring").graph,  # type: ignore[attr-defined]
    ]
    for one in made:
        assert shown(one) == (OPERATIONS, TENSORS)


def test_windows_files() -> None:
    plain = text(NODES + "\n" + EDGES)
    for data in (b"\xef\xbb\xbf" + (NODES + "\n" + EDGES).replace("\n", "\r\n").encode(), (NODES + EDGES).encode()):
        assert import_graph("net.csv", data).graph == plain.graph


def test_bytes_that_are_not_whole_are_named() -> None:
    """Half a byte is rounded up, and a note says so: `0.5` may have meant megabytes."""
    made = text("name,flop,bytes,weights,inputs\na,1,0.5,8.25,\nb,1,1.5kB,,a\n")
    assert made.graph.tensors[0].bytes == 1 and made.graph.operations[0].weight_bytes == 9
    assert made.notes == (
        "bytes 0.5 (net.csv: line 2) and 1 other amount rounded up to whole bytes (a unit may be missing)",
    )
    assert not text("name,flop,bytes,inputs\na,1.5,0.5kB,\nb,1,2,a\n").notes


def test_times_kinds_roles_and_fields_that_are_not_used() -> None:
    imported = text("Name,time_ns,kind,role,bytes,remark,inputs\nx,,,input,8,from host,\na,1.5us,matmul,,4,,x\n")
    assert imported.time_ns == (None, 1500.0)
    assert [(o.name, o.kind, o.role) for o in imported.graph.operations] == [
        ("x", "op", "input"),
        ("a", "matmul", "compute"),
    ]
    assert imported.notes == ("fields not used: remark",)


@pytest.mark.parametrize("family", ["ring", "dataflow", "placement", "multimodel", "wafer"])
@pytest.mark.parametrize("name", ["csv", "json", "dot"])
def test_every_family_that_takes_graphs(name: str, family: str, tmp_path: Path) -> None:
    """Wafer needs products: that one graph has none of a whole shape is said by name."""
    path = tmp_path / f"net.{name}"
    path.write_bytes(samples.SAMPLES[name])
    if family == "wafer":
        with pytest.raises(InputError, match="shape") as error:
            read(path, family=family)
        assert error.value.remedy
    else:
        assert chipmap.family_of(read(path, family=family)).name == family
    with pytest.raises(InputError) as error:
        read(path)
    assert "--family" in error.value.remedy


def test_products_become_kernels_of_a_wafer() -> None:
    """A product of [64, 32] with [32, 16] numbers of 2 bytes."""
    nodes = {"x": {"role": "input", "bytes": 2 * 64 * 32}}
    nodes["a"] = {"flop": 2 * 64 * 32 * 16, "bytes": 2 * 64 * 16, "weights": 2 * 32 * 16, "kind": "matmul"}
    made: Any = chipmap.from_edges([("x", "a")], nodes, family="wafer")
    arguments = made.kernels[0].arguments
    assert (arguments["H"] * arguments["W"], arguments["C"], arguments["K"]) == (64, 32, 16)


HEADER = "name,flop,bytes\na,1,1\nb,1,1\n\n"
SLIPS = [
    ("unknown node", HEADER + "source,target\na,bb\n", "line 6: the edge a -> bb names no node", "Did you mean b?"),
    ("node twice", "name,flop,inputs\na,1,\na,2,\n", "line 3: the name 'a' is used twice", "unique"),
    ("edge twice", HEADER + "source,target\na,b\na,b\n", "line 7: the edge a -> b is given twice", "once"),
    ("cycle", HEADER + "source,target\na,b\nb,a\n", ": the graph has a cycle: ", "Remove one"),
    ("loop", HEADER + "source,target\na,a\n", "line 6: the graph has a cycle: a -> a", "Remove one"),
    ("negative", "name,flop,inputs\na,-5,\n", "line 2: flop is '-5'", "0"),
    ("no number", "name,flop,inputs\na,1,\nb,fast,a\n", "line 3: flop is 'fast'", "2e6"),
    ("no name", "name,flop,inputs\n,1,\n", "line 2: name is missing", "Give the name"),
    ("no column name", "operation,flop\na,1\n", "line 1: the column name is missing", "name,flop"),
    ("no column flop", "name,bytes\na,1\n", "line 1: the column flop is missing", "name,flop"),
    ("misspelt column", "name,flop,wieghts\na,1,1\n", "line 1: no field is called 'wieghts'", "Did you mean weights?"),
    ("column twice", "name,flop,flop\na,1,1\n", "line 1: the column 'flop' is there twice", "Keep one"),
    ("no flop", "name,flop,inputs\na,,\n", "line 2: 'a' has no flop", "role"),
    ("no bytes", "name,flop,inputs\na,1,\nb,1,a\n", "line 3: neither the edge a -> b nor node 'a' has bytes", "'a'"),
    ("role", "name,flop,role\na,1,magic\n", "line 2: role is 'magic'", "compute, view, constant, input"),
    ("semicolons", "name;flop;bytes\na;1;1\n", "line 1: cells are separated by semicolons", "commas"),
    ("tabs", "name\tflop\na\t1\n", "line 1: cells are separated by tabs", "commas"),
    ("too many cells", "name,flop,bytes\na,1,1,1\n", "line 2: 4 cells, but the first line of the table has 3", "quote"),
    ("decimal commas", "name,flop,bytes\na,1,5,1\n", "line 2: 4 cells", "quote"),
    ("empty", "", "is empty", "name,flop"),
    ("only a header", "name,flop\n", "there are no nodes", "at least one"),
    ("edges alone", "source,target\na,b\n", "line 1: is a table of edges alone", "nodes.csv edges.csv"),
    ("no edges", "name,flop\na,1\nb,1\n", "has no edges", "inputs"),
    ("open quote", 'name,flop\n"a,1\nb,1\n', "line 2: isn't CSV", "quotes"),
    ("control character", "name,flop\na\x07b,1\n", "line 2: name 'a\\x07b' holds a control character", "Leave"),
]
DOT_SLIPS = [
    ("undirected", "graph {\n a -- b }", "line 1: edges of this graph have no direction", "->"),
    ("edge", "digraph {\n a [flop=1]\n a -- b }", "line 3: -- has no direction", "->"),
    (
        "node of no statement",
        "digraph { a [flop=1,bytes=1]\n a -> b }",
        "line 2: the edge a -> b names no node",
        "node",
    ),
    ("no flop", "digraph {\n a [label=x] }", "line 2: 'a' has no flop", "role"),
    ("twice", "digraph { a [flop=1]\n a [bytes=1] }", "line 2: node 'a' is described twice", "one statement"),
    ("open", "digraph { a [flop=1]\n", "the graph isn't closed", "close"),
    ("open quote", 'digraph {\n a [label="x] }', "line 2: can't be read from", "quotes"),
    (
        "cycle",
        "digraph { a [flop=1,bytes=1]\n b [flop=1,bytes=1]\n a -> b\n b -> a }",
        "the graph has a cycle",
        "Remove",
    ),
    ("deep", "digraph " + "{" * 1000, "line 1: braces are nested too deeply", "subgraphs"),
    ("bad number", "digraph {\n a [flop=many] }", "line 2: flop is 'many'", "2e6"),
    ("empty", "digraph {}", "there are no nodes", "at least one"),
    ("only edges", "digraph { a -> b; b -> c }", "no nodes, only edges such as a -> b", "an entry of its own"),
]


@pytest.mark.parametrize(("data", "said", "remedy"), [row[1:] for row in SLIPS], ids=[row[0] for row in SLIPS])
def test_slips_in_tables(data: str, said: str, remedy: str) -> None:
    with pytest.raises(InputError) as error:
        text(data)
    assert said in str(error.value) and str(error.value).startswith("net.csv")
    assert remedy in error.value.remedy


@pytest.mark.parametrize(("data", "said", "remedy"), [row[1:] for row in DOT_SLIPS], ids=[row[0] for row in DOT_SLIPS])
def test_slips_in_dot(data: str, said: str, remedy: str) -> None:
    with pytest.raises(InputError) as error:
        text(data, "net.dot")
    assert said in str(error.value) and str(error.value).startswith("net.dot")
    assert remedy in error.value.remedy


@pytest.mark.parametrize("data", ["name,flop\nä,1\n".encode("latin-1"), "name,flop\na,1\n".encode("utf-16")])
def test_other_encodings_are_named(data: bytes) -> None:
    with pytest.raises(InputError, match=r"net\.csv: (line 2: isn't UTF-8 text|is text in UTF-16)") as error:
        import_graph("net.csv", data)
    assert "UTF-8" in error.value.remedy


def test_slips_in_json() -> None:
    node = {"name": "a", "flop": 1}
    for edges, said in (
        ([["a"]], "edges[0]: has 1 part"),
        ([["a", "b", 1]], "edges[0]: the edge a -> b names no node"),
    ):
        with pytest.raises(InputError) as error:
            import_graph("net.json", json.dumps({"nodes": [node], "edges": edges}).encode())
        assert said in str(error.value) and error.value.remedy
    with pytest.raises(InputError, match=r"nodes\[1\]: flop is -1"):
        import_graph("net.json", json.dumps({"nodes": [node, {"name": "b", "flop": -1}]}).encode())


def refused(what: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as error:
        what()
    assert error.value.remedy
    return str(error.value)


def test_slips_in_python() -> None:
    nodes = {"a": {"flop": 1, "bytes": 1}, "b": {"flop": 1}}
    slips: Iterable[tuple[Any, Any, str]] = [
        ([("a", "c")], nodes, "edges[0]: the edge a -> c names no node"),
        ([("a", "b"), "ab"], nodes, "edges[1]: is 'ab'"),
        ("a->b", nodes, "edges: is a str"),
        ([], 3, "nodes: is a int"),
        ([], {"a": 3}, "nodes['a']: is 3"),
        ([], [{"flop": 1}], "nodes[0]: name is missing"),
        ([], {1: nodes["a"], "1": nodes["a"]}, "the name '1' is used twice"),
    ]
    for edges, given, said in slips:
        assert said in refused(lambda e=edges, g=given: chipmap.from_edges(e, g, family="ring"))  # type: ignore[misc]
    assert "have no direction" in refused(lambda: chipmap.from_networkx(networkx.Graph(), family="ring"))
    assert "is a list" in refused(lambda: chipmap.from_networkx([], family="ring"))
    graph = networkx.DiGraph([(1, 2)])
    assert "node 1: '1' has no flop" in refused(lambda: chipmap.from_networkx(graph, family="ring"))


def test_tables_of_pandas() -> None:
    pandas = pytest.importorskip("pandas", reason="needs the extra pandas")
    nodes = pandas.DataFrame(
        {"name": ["a", "b", "c"], "flop": [1e6, 2e6, 3e6], "bytes": ["4KiB", 4096, 8], "weights": [64, None, pandas.NA]}
    )
    edges = pandas.DataFrame({"source": ["a", "b", "a"], "target": ["b", "c", "c"], "bytes": [None, 16, None]})
    for one in (nodes, nodes.set_index("name")):
        made: Any = chipmap.from_pandas(one, edges, family="ring", settings=["package.chips=4"])
        assert shown(made.graph) == (OPERATIONS, TENSORS) and made.package.chips == 4
    assert "nodes, row 1: flop is -2" in refused(
        lambda: chipmap.from_pandas(nodes.assign(flop=[1, -2, 3]), family="ring")
    )


def test_the_extra_is_named_where_pandas_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert 'pip install "chipmap[pandas]"' in refused(lambda: chipmap.from_pandas([], family="ring"))


def test_thirty_nodes_from_a_table_to_a_plot_in_three_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = ["name,flop,bytes,weights,inputs"]
    rows += [f"layer{i},{1 + i % 4}e9,1MiB,2MiB,{f'layer{i - 1}' if i else ''}" for i in range(30)]
    Path("mine.csv").write_text("\n".join(rows))
    assert main(["convert", "mine.csv", "--family", "ring", "--set", "package.chips=8", "--out", "mine.json"]) == 0
    assert main(["solve", "mine.json", "--time-limit", "60", "--out", "runs/mine"]) == 0
    assert main(["plot", "mine.json", "runs/mine", "--out", "mine.png"]) == 0
    assert Path("mine.png").read_bytes().startswith(b"\x89PNG")
    assert len(Path("runs/mine/mapping.csv").read_text().splitlines()) == 31
