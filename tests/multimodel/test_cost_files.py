"""Costs from files: the house's own columns and MAESTRO's, also for one class; and what is wrong with bad ones."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from chipmap.heuristics.multimodel.baselines import whole_models
from chipmap.heuristics.multimodel.bounds import least_objective
from chipmap.inputs.reading import Conversion, read
from chipmap.instances.multimodel import Chiplet, Layer, Model, Module, MultiInstance, Task
from chipmap.instances.multimodel.problem import multi_problem, schedule
from chipmap.methods.multimodel.at_once import too_few_links, too_large
from chipmap.records import InputError
from chipmap.validation.multimodel.checker import check
from tests.instances.mutations import mutated_bytes, mutated_structure

ZOO = Path(__file__).parents[1] / "instances" / "zoo"


def small(**changes: Any) -> MultiInstance:
    """Two models of two and one layers on two chiplets of classes nvdla and shidiannao."""
    costs = {"nvdla": (10, 100), "shidiannao": (20, 50)}
    a = Model(name="a", batch=2, layers=(Layer(name="one", costs=costs), Layer(name="two", costs=costs)))
    b = Model(name="b", layers=(Layer(name="only", costs=costs),))
    chiplets = (Chiplet(name="c0", kind="nvdla", hops=1), Chiplet(name="c1", kind="shidiannao", hops=1))
    module = Module(chiplets=chiplets, links=(("c0", "c1"),))
    given = {"name": "small", "task": Task(windows=2), "models": (a, b), "module": module, **changes}
    return MultiInstance(**given)


def put(folder: Path, text: str | bytes, name: str = "costs.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def costs_of(instance: MultiInstance) -> dict[tuple[str, str], dict[str, tuple[int, int]]]:
    return {(model.name, layer.name): layer.costs for model in instance.models for layer in model.layers}


def with_costs(folder: Path, *given: str, system: str = "") -> MultiInstance:
    put(folder, small().to_json(), "small.json")
    equipment = {"costs": list(given), **({"system": system} if system else {})}
    found = read(folder / "small.json", conversion=Conversion(equipment=equipment))
    assert isinstance(found, MultiInstance)
    return found


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_file_replaces_what_it_names(tmp_path: Path, separator: str) -> None:
    """One layer on one class: everything else keeps its costs. Columns in any order, with a byte order mark."""
    path = put(tmp_path, "\ufefflayer,model,class,pj,ns\r\ntwo,a,nvdla,7,3\r\n\r\n".replace(",", separator))
    found = costs_of(with_costs(tmp_path, str(path)))
    old = costs_of(small())
    assert found == {**old, ("a", "two"): {"nvdla": (3, 7), "shidiannao": (20, 50)}}


def test_a_class_of_a_users_own(tmp_path: Path) -> None:
    """A system with a class that no preset knows: the file gives all its costs, the other class keeps its own."""
    module = small().module
    own = module.replace(chiplets=[module.chiplets[0], module.chiplets[1].replace(**{"class": "mine"})])
    system = put(tmp_path, own.to_json(), "system.json")
    rows = "".join(f"{m},{k},mine,{n},{n}\n" for n, (m, k) in enumerate((("a", "one"), ("a", "two"), ("b", "only"))))
    found = with_costs(tmp_path, str(put(tmp_path, f"model,layer,class,ns,pj\n{rows}")), system=str(system))
    assert [layer.costs["mine"] for model in found.models for layer in model.layers] == [(0, 0), (1, 1), (2, 2)]
    assert found.models[0].layers[0].costs["nvdla"] == (10, 100)


HEADER = "Neural Network Name, Layer Number, NumPEs, Runtime (Cycles), Activity count-based Energy (nJ), Area, Area\n"


def test_maestros_results(tmp_path: Path) -> None:
    """Cycles at 250 MHz and energies in nJ, rounded up; by name in any order, or one by one."""
    path = put(tmp_path, HEADER + "a,two,64,1001,1.5e+00,1,2\na,one,64,2,0.0001\n")
    found = costs_of(with_costs(tmp_path, f"{path},class=nvdla,mhz=250"))
    assert found["a", "one"]["nvdla"] == (8, 1) and found["a", "two"]["nvdla"] == (4004, 1500)
    assert found["b", "only"] == {"nvdla": (10, 100), "shidiannao": (20, 50)}
    path = put(tmp_path, HEADER + "Net,CONV1,64,10,1,1,2\nNet,CONV1,64,20,2,1,2\n")
    found = costs_of(with_costs(tmp_path, f"{path},model=a,class=shidiannao,mhz=1000,pj=0.23"))
    assert [found["a", name]["shidiannao"] for name in ("one", "two")] == [(10, 1), (20, 1)]
    path = put(tmp_path, HEADER + "a,x,64,10,1,1,2\na,y,64,20,2,1,2\nb,z,64,30,3,1,2\n")
    found = costs_of(with_costs(tmp_path, f"{path},class=nvdla,mhz=1000"))
    assert [found[key]["nvdla"][0] for key in (("a", "one"), ("a", "two"), ("b", "only"))] == [10, 20, 30]


def test_graphs_take_a_preset_and_files(tmp_path: Path) -> None:
    """A later file stands before an earlier one, and any before the preset."""
    graph = ZOO / "resnet-onnx.onnx"
    plain = read(graph, family="multimodel", conversion=Conversion(equipment={"costs": ["scar-datacenter"]}))
    assert isinstance(plain, MultiInstance)
    names = [layer.name for layer in plain.models[0].layers]
    text = "model,layer,class,ns,pj\n" + "".join(f"resnet-onnx,{name},nvdla,5,6\n" for name in names)
    first = put(tmp_path, text)
    second = put(tmp_path, f"model,layer,class,ns,pj\nresnet-onnx,{names[0]},nvdla,7,8\n", "second.csv")
    given = {"costs": [str(first), "scar-datacenter", str(second)]}
    found = read(graph, family="multimodel", conversion=Conversion(equipment=given))
    assert isinstance(found, MultiInstance)
    assert [layer.costs["nvdla"] for layer in found.models[0].layers] == [(7, 8), *[(5, 6)] * (len(names) - 1)]
    for old, new in zip(plain.models[0].layers, found.models[0].layers, strict=True):
        assert old.costs["shidiannao"] == new.costs["shidiannao"]


OWN = "model,layer,class,ns,pj\n"
KEYS = [(m, k, c) for m, k in (("a", "one"), ("a", "two"), ("b", "only")) for c in ("nvdla", "shidiannao")]


def test_mutated_files_of_costs(tmp_path: Path) -> None:
    """500 changed files of both kinds: an instance, or an error with a remedy."""
    own = OWN + "".join(f"{m},{k},{c},{n},{n}\n" for n, (m, k, c) in enumerate(KEYS))
    maestro = HEADER + "a,one,64,10,1.5,1,2\na,two,64,20,2e3,1,2\nb,only,64,30,3,1,2\n"
    random, read_well = Random(7), 0
    for i in range(500):
        data = (maestro if i % 2 else own).encode()
        data = mutated_bytes(data, random) if i % 4 < 2 else mutated_structure(data, random)
        path = put(tmp_path, data)
        try:
            found = with_costs(tmp_path, f"{path},class=nvdla,mhz=500" if i % 2 else str(path))
            found.check()
            read_well += 1
        except InputError as error:
            assert error.remedy and len(str(error)) < 1500
    assert 50 < read_well < 450, read_well


def test_mutated_systems(tmp_path: Path) -> None:
    """500 changed files of a module with classes: an instance, or an error with a remedy."""
    rates = b'{"flop_per_ns":4096.0,"bytes_per_ns":500.0,"pj_per_flop":0.8,"pj_per_byte":4.3}'
    text = small().module.to_json()[:-1] + b',"classes":{"nvdla":' + rates + b',"shidiannao":' + rates + b"}}"
    random, sound = Random(13), 0
    for i in range(500):
        path = put(tmp_path, mutated_bytes(text, random) if i % 2 else mutated_structure(text, random), "system.json")
        try:
            multi_problem(with_costs(tmp_path, system=str(path)))
            sound += 1
        except InputError as error:
            assert error.remedy
    assert 50 < sound < 450, sound


def test_mutated_instances(tmp_path: Path) -> None:
    """1,000 changed instance files: refused with a remedy, or an instance with costs, bounds and a checked schedule."""
    random, sound = Random(11), 0
    text = small().to_json()
    for i in range(1000):
        path = put(tmp_path, mutated_bytes(text, random) if i % 2 else mutated_structure(text, random), "mutant.json")
        try:
            instance = read(path)
            assert isinstance(instance, MultiInstance)
            problem = multi_problem(instance)
        except InputError as error:
            assert error.remedy
            continue
        windows = whole_models(problem)
        if windows is None:
            assert too_large(problem) or too_few_links(problem)
            continue
        certificate = check(instance, schedule(problem, windows))
        assert {violation.label for violation in certificate.violations} <= {"C4"}
        assert certificate.objective is not None and least_objective(problem) <= certificate.objective
        sound += 1
    assert 50 < sound < 950, sound
