"""Layers that take measured or learned times of their operations, on the classes that were measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from chipmap.inputs.reading import Conversion, read, read_graphs
from chipmap.instances.measured import fingerprint
from chipmap.instances.multimodel import MultiInstance
from chipmap.networks.importers.reading import import_graphs
from chipmap.records import InputError, Source

HEADER = "graph,operation,module,operator,class,ns,repeat,samples,flop,read,weights,written\n"
NVDLA = "nvdla-2x2"


def file(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def net(folder: Path, name: str = "net.csv", flop: int = 4 * 10**9) -> str:
    """Three operations in a row, each a layer."""
    text = f"name,flop,bytes,inputs\na,{flop},8,\nb,2e9,8,a\nc,2e9,8,b\n"
    return file(folder, name, text)


def given(nets: list[str], costs: list[str], system: str = NVDLA) -> MultiInstance:
    found = read_graphs(nets, (), "multimodel", Conversion(equipment={"costs": costs, "system": system}))
    assert isinstance(found, MultiInstance)
    return found


def hashed(path: str) -> str:
    ((imported, _),) = import_graphs([(Source(path), "net")], {}, None, None)
    return fingerprint(imported.graph)


def test_a_layer_takes_the_time_of_its_operations(tmp_path: Path) -> None:
    """Energies stay; an operation without a time keeps the preset's; a table of layers goes before."""
    source, plain = net(tmp_path), given([net(tmp_path)], [])
    remark = "# measured by hand, on a chip of which there is more to say than stands in 64 bytes\n"
    costs = file(tmp_path, "costs.csv", f"{remark}operation,class,ns\na,nvdla,123us\nc,nvdla,7.5\n")
    found = given([source], [costs])
    before, after = ([layer.costs["nvdla"] for layer in one.models[0].layers] for one in (plain, found))
    assert after == [(123_000, before[0][1]), before[1], (8, before[2][1])]
    assert "not measured: 1 operation with 25% of the FLOP (b)" in found.notes
    own = file(tmp_path, "own.csv", "model,layer,class,ns,pj\nnet,a,nvdla,5,6\n")
    assert given([source], [costs, own]).models[0].layers[0].costs["nvdla"] == (5, 6)


def test_several_graphs_have_tables_of_their_own(tmp_path: Path) -> None:
    """A table says by a hash which graph was measured; one of none of them is refused."""
    nets = [net(tmp_path), net(tmp_path, "other.csv", 10**9)]
    costs = file(tmp_path, "costs.csv", f"operation,graph,ns\na,{hashed(nets[1])},77\n")
    found = given(nets, [costs])
    plain = given(nets, [])
    assert found.models[0] == plain.models[0]
    assert [layer.costs["nvdla"][0] for layer in found.models[1].layers] == [
        77,
        *(layer.costs["nvdla"][0] for layer in plain.models[1].layers[1:]),
    ]
    for text, words in (
        ("operation,graph,ns\na,0123,1\n", "was measured on none of the graphs"),
        ("operation,ns\na,1\n", "doesn't say which of 2 graphs"),
    ):
        with pytest.raises(InputError, match=words):
            given(nets, [file(tmp_path, "bad.csv", text)])


def test_classes_have_their_own_times(tmp_path: Path) -> None:
    costs = file(tmp_path, "costs.csv", "operation,class,ns\na,nvdla,5\na,shidiannao,9\n")
    found = given([net(tmp_path)], [costs], "het-sides-3x3")
    assert {kind: ns for kind, (ns, _) in found.models[0].layers[0].costs.items()} == {"nvdla": 5, "shidiannao": 9}
    with pytest.raises(InputError, match="doesn't say which class"):
        given([net(tmp_path)], [file(tmp_path, "one.csv", "operation,ns\na,5\n")], "het-sides-3x3")


def test_learned_times(tmp_path: Path) -> None:
    """Predictions stand in all layers of all models; an instance, which has no operations, refuses them."""
    lines = [
        f"g{g},o{i},{'ab'[g]}.{i},linear,,{(1 + i + g) * 1000},,,{(1 + i) * 10**6},{64 * i},{8 * i},{32}\n"
        for g in range(2)
        for i in range(12)
    ]
    costs = "learned:" + file(tmp_path, "learned.csv", HEADER + "".join(lines))
    nets = [net(tmp_path), net(tmp_path, "other.csv", 10**9)]
    found, plain = given(nets, [costs]), given(nets, [])
    assert found.notes.count("learned times from 2 networks of 2 architectures") == 2
    for old, new in zip(plain.models, found.models, strict=True):
        for one, other in zip(old.layers, new.layers, strict=True):
            assert one.costs["nvdla"][1] == other.costs["nvdla"][1] and one.costs["nvdla"][0] != other.costs["nvdla"][0]
    own = file(tmp_path, "instance.json", found.to_json().decode())
    with pytest.raises(InputError, match="keeps only layers"):
        read(own, conversion=Conversion(equipment={"costs": [costs]}))
