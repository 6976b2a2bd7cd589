"""Graphs as networkx, Graphviz and torchviz write them, and a table whose rows are looked up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chipmap.inputs.reading import decode
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError

NODES: list[dict[str, Any]] = [
    {"flop": 2000000000.0, "bytes": 1048576, "id": "conv"},
    {"flops": 1000000.0, "out_bytes": 4096, "id": "relu"},
    {"flop": 100000000.0, "bytes": 4000, "id": "fc", "name": "a label"},
]
LINKS = [{"source": "conv", "target": "relu", "key": 0}, {"source": "relu", "target": "fc"}]


@pytest.mark.parametrize("edges", ["edges", "links"])
def test_node_link_data_of_networkx(edges: str) -> None:
    data = {"directed": True, "multigraph": False, "graph": {}, "nodes": NODES, edges: LINKS}
    graph = import_graph("g.json", json.dumps(data).encode()).graph
    assert [(one.name, one.flop) for one in graph.operations] == [("conv", 2 * 10**9), ("relu", 10**6), ("fc", 10**8)]
    assert [(one.bytes, one.readers) for one in graph.tensors] == [(1048576, (1,)), (4096, (2,)), (4000, ())]
    with pytest.raises(InputError, match="no direction"):
        import_graph("g.json", json.dumps({**data, "directed": False}).encode())


GRAPHML = """<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d1" for="node" attr.name="bytes" attr.type="long" /><key id="d0" for="node" attr.name="flop" />
  <graph edgedefault="directed">
    <node id="conv"><data key="d0">2000000000.0</data><data key="d1">1048576</data></node>
    <node id="fc"><data key="d0">100000000.0</data><data key="d1">4000</data></node>
    <edge source="conv" target="fc" />
  </graph>
</graphml>"""


def test_graphml() -> None:
    graph = import_graph("g.graphml", GRAPHML.encode()).graph
    assert [(one.name, one.flop) for one in graph.operations] == [("conv", 2 * 10**9), ("fc", 10**8)]
    assert [(one.bytes, one.readers) for one in graph.tensors] == [(1048576, (1,)), (4000, ())]
    for wrong, said in (
        (GRAPHML.replace("directed", "undirected"), "no direction"),
        (GRAPHML.replace("<graphml ", "<!DOCTYPE x [<!ENTITY a 'b'>]><graphml "), "types or entities"),
        (GRAPHML[:300], "isn't valid XML"),
        (GRAPHML.replace('target="fc"', 'target="fd"'), "names no node"),
    ):
        with pytest.raises(InputError, match=said):
            import_graph("g.graphml", wrong.encode())


def test_layout_of_graphviz_is_ignored_and_said() -> None:
    text = """digraph net { node [shape=box height=0.2]
      a [flop=2e9 bytes=4096 label="conv" time=3]; b [flop=1e9 bytes=4096]; a -> b [weight=3 bytes=2048] }"""
    found = import_graph("net.dot", text.encode())
    assert [one.weight_bytes for one in found.graph.operations] == [0, 0]
    assert found.graph.tensors[0].bytes == 2048
    (note,) = found.notes
    assert note.startswith("fields not used: ") and all(name in note for name in ("height", "weight", "time", "label"))
    with pytest.raises(InputError, match="Did you mean weights"):
        import_graph("net.dot", b"digraph { a [flop=1 weight=3] }")


def test_a_look_up_moves_rows_and_not_the_table() -> None:
    """Ids of 4,096 bytes pick rows of 1 MB in a table of 600 MB: 2 MB and the ids move."""
    text = "name,flop,bytes,weights,role,inputs\ntok,0,4096,0,input,\ntable,0,600MB,0,constant,\n"
    rows = "embed,{},1MB,0,{},tok;table\nhead,6e9,1MB,0,,embed;table\n"
    plain = import_graph("t.csv", (text + rows.format("1e6", "")).encode()).graph
    marked = import_graph("t.csv", (text + rows.format("", "look-up")).encode()).graph
    assert [one.moved_bytes for one in plain.operations] == [None] * 4
    assert [one.moved_bytes for one in marked.operations] == [None, None, 2 * 10**6 + 4096, None]
    assert marked.operations[2].role == "compute" and marked.tensors == plain.tensors

    from chipmap.family import get_family, resolve

    times = []
    for one in ("", "look-up"):
        instance: Any = decode((text + rows.format("1e6", one)).encode(), "t.csv", family="ring")
        result = resolve(get_family("ring").check)(instance, resolve(get_family("ring").solution)(chips=(0,) * 4))
        times.append(result.terms["T1"])
    assert times[0] > 1.5 * times[1], "the table was read twice, once of it for the look-up"
