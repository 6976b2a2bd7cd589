"""Files of one's own to an instance: several graphs in one command, named systems, costs, dimensions, settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.multimodel_own_files import latency, totals
from chipmap.cli import main
from chipmap.inputs.reading import Conversion, read, read_graphs
from chipmap.instances.multimodel.from_graph import from_graphs
from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.modules import system
from chipmap.records import InputError
from chipmap.solve import solve
from tests.instances.samples import SAMPLES
from tests.multimodel.test_from_graph import u_net

ZOO = Path(__file__).parents[1] / "instances" / "zoo"


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


def test_bytes_of_numbers_are_those_of_the_costs_or_told() -> None:
    source = "examples/encoder.onnx"

    def made(**equipment: object) -> MultiInstance:
        return read(source, family="multimodel", conversion=equipped(**equipment))

    plain, one = made(costs=["scar-datacenter"]), made(costs=["scar-datacenter"], word_bytes="1")
    assert "tensors move with more: 4 in 'encoder'; --word-bytes 1" in plain.notes
    assert "tensors move with more" not in one.notes and "(--word-bytes)" in one.notes
    for layer, small in zip(plain.models[0].layers, one.models[0].layers, strict=True):
        assert small.costs == layer.costs
        for name in ("in_bytes", "weight_bytes", "out_bytes"):
            assert getattr(small, name) == -(-getattr(layer, name) // 4)
    assert "tensors move with more" not in made().notes, "a roofline counts the bytes that move"
    for asked in ("0", "9", "two"):
        with pytest.raises(InputError, match="--word-bytes"):
            made(word_bytes=asked)
    with pytest.raises(InputError, match="--word-bytes"):
        read(source, family="ring", conversion=equipped(word_bytes="1"))
