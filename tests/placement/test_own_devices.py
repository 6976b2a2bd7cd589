"""Systems by name and from files, links fitted to measurements, training steps of converted graphs."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from chipmap.cli import main
from chipmap.inputs.reading import Conversion, read
from chipmap.instances.placement import PlacementInstance
from chipmap.instances.placement.calibrate import fit, measured
from chipmap.instances.placement.from_graph import equip, training_step
from chipmap.instances.placement.presets import PRESETS, system
from chipmap.records import InputError
from tests.placement.random_instances import made

#: A graph as published traces have it: x -> linear -> relu -> linear.
TRACED = {
    "name": "net",
    "nodes": [
        {"id": 0, "name": "x", "op": "placeholder", "kind": "input", "flops": 0, "out_bytes": 64, "weight_bytes": 0},
        {"id": 1, "name": "a", "op": "linear", "kind": "compute", "flops": 900, "out_bytes": 64, "weight_bytes": 256},
        {"id": 2, "name": "b", "op": "relu", "kind": "compute", "flops": 16, "out_bytes": 64, "weight_bytes": 0},
        {"id": 3, "name": "c", "op": "linear", "kind": "compute", "flops": 900, "out_bytes": 64, "weight_bytes": 256},
    ],
    "edges": [[0, 1, 64], [1, 2, 64], [2, 3, 64]],
    "outputs": [3],
}


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    """The graph as a file."""
    path = tmp_path / "net.json"
    path.write_text(json.dumps(TRACED))
    return path


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("devices", [1, 2, 5])
def test_every_preset_is_a_system(name: str, devices: int) -> None:
    found = system(f"{name}-{devices}")
    found.check()
    assert len(found.devices) == devices
    assert {one.kind for one in found.devices} == {one.name for one in found.classes}


def test_presets_are_what_their_sources_say() -> None:
    placeto = system("placeto")
    assert placeto.links is not None
    assert (placeto.links.kind, placeto.links.bytes_per_ns, placeto.links.gap_ns) == ("bus", 7.6, 25_000)
    assert placeto.classes[0].gap_ns == 5_700
    assert [one.kind for one in system("cpu-p100-pcie-3").devices] == ["cpu", "p100", "p100"]
    assert [one.kind for one in system("p100-v100-pcie-4").devices] == ["p100", "v100", "p100", "v100"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("p100", "no file and no system is called 'p100'"), ("p100-pcie-65", "has 65 devices"), ("p100-pcie-0", "has 0")],
)
def test_unknown_systems_are_named(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        system(text)


def test_a_system_is_read_from_a_file_or_from_an_instance(tmp_path: Path) -> None:
    whole = tmp_path / "whole.json"
    instance = made([(1, 0, 1)] * 2, [(0, 1)], devices=3)
    whole.write_bytes(instance.to_json())
    assert system(str(whole)) == instance.system
    alone = tmp_path / "alone.json"
    alone.write_bytes(instance.system.to_json())
    assert system(str(alone)) == instance.system
    broken = instance.system.replace(devices=())
    alone.write_bytes(broken.to_json())
    with pytest.raises(InputError, match=r"alone\.json: system\.devices: there is no device"):
        system(str(alone))
    for text, said in (
        ("[1]", "no JSON object"),
        ("{", "not valid JSON"),
        ('{"devices": 1}', "devices: is a whole number, not a list"),
    ):
        alone.write_text(text)
        with pytest.raises(InputError, match=said):
            system(str(alone))


def test_measured_times_go_with_their_class() -> None:
    instance = made([(7, 0, 1)] * 2, [(0, 1)])
    renamed = equip(instance, "p100-nvlink-4")
    assert renamed.time_ns == {"p100": (7.0, 7.0)}
    assert "measured times are taken as those of class 'p100'" in renamed.notes
    renamed.check()
    with pytest.raises(InputError, match="times are those of class 'gpu', which the system hasn't"):
        equip(instance, "p100-v100-pcie")
    both = instance.replace(time_ns={"gpu": (1.0, 1.0), "p100": (2.0, 2.0)})
    assert equip(both, "p100-v100-pcie").time_ns == {"p100": (2.0, 2.0)}
    with pytest.raises(InputError, match="can't be read"):
        equip(instance, costs=["a.csv"])


def test_a_converted_graph_takes_a_system_and_becomes_a_training_step(graph: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    arguments = ["convert", str(graph), "--family", "placement", "--system", "p100-v100-pcie-3", "--training"]
    assert main([*arguments, "--out", str(out)]) == 0
    instance = read(out)
    assert isinstance(instance, PlacementInstance)
    assert len(instance.system.devices) == 3
    assert instance.task.weights == "variable"
    names = {one.name for one in instance.graph.operations}
    # a and c have a gradient for their weight each, c one for its activation (a reads the input only), b one
    assert {"a/weight", "c/weight", "a/weight/update", "c/weight/update", "b/gradient"} <= names
    assert sum(name.startswith("c/gradient") for name in names) == 2
    assert sum(name.startswith("a/gradient") for name in names) == 1
    assert set(map(frozenset, instance.together)) == {
        frozenset({f"{v}/weight", f"{v}/weight/update"}) for v in ("a", "c")
    }


def test_what_has_no_training_step_is_named(graph: Path) -> None:
    instance = read(graph, family="placement")
    assert isinstance(instance, PlacementInstance)
    once = training_step(instance).instance
    once.check()
    with pytest.raises(InputError, match="has gradients already"):
        training_step(once)
    count = len(instance.graph.operations)
    with pytest.raises(InputError, match="measured times say nothing of gradients"):
        training_step(instance.replace(time_ns={"p100": (1.0,) * count}))


def test_scopes_of_a_training_step_are_those_of_the_forward_operations(graph: Path) -> None:
    instance = read(graph, family="placement", conversion=Conversion())
    assert isinstance(instance, PlacementInstance)
    step = training_step(instance.replace(scopes=("", "m.a", "m.b", "m.c"))).instance
    step.check()
    for one, scope in zip(step.graph.operations, step.scopes, strict=True):
        assert scope == ("" if one.name == "x" else f"m.{one.name[0]}")


def test_the_fit_finds_the_line_that_points_lie_on() -> None:
    random = Random(3)
    for _ in range(200):
        latency, rate = random.choice([0.0, random.uniform(1, 1e5)]), 10 ** random.uniform(-2, 3)
        points = [(size := random.randrange(1, 10 ** random.randint(1, 9)), latency + size / rate) for _ in range(20)]
        found = fit(points)
        assert found.latency_ns == pytest.approx(latency, rel=1e-4, abs=1e-3 * min(t for _, t in points))
        assert found.bytes_per_ns == pytest.approx(rate, rel=1e-3)
        assert found.rms < 1e-3


def test_no_other_line_has_less_relative_error() -> None:
    """The fit against lines around it, on noisy points; also where the latency is cut off at 0."""
    random, cut = Random(4), 0
    for _ in range(60):
        latency = random.choice([0.0, 500.0])
        points = [(10.0**k, (latency + 10.0**k / 3) * random.uniform(0.7, 1.3)) for k in range(1, 7)]
        found = fit(points)
        cut += found.cut

        def squares(a: float, rate: float, points: list[tuple[float, float]] = points) -> float:
            return sum(((a + x / rate) / t - 1) ** 2 for x, t in points)

        least = squares(found.latency_ns, found.bytes_per_ns)
        assert found.rms == pytest.approx((least / len(points)) ** 0.5)
        for a in (0.9, 1.0, 1.1):
            for b in (0.9, 1.0, 1.1):
                shift = 0.0 if a <= 1 else 1.0
                assert squares(a * found.latency_ns + shift, b * found.bytes_per_ns) >= least * (1 - 1e-9)
    assert cut


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bytes,ns\n1,5\n1,6\n", "2 points of one size"),
        ("bytes,ns\n1,5\n2,x\n", r"line 3: ns is 'x'"),
        ("bytes,ns\n1,5\n-2,1\n", r"line 3: bytes is '-2'"),
        ("bytes,ns\n1,5\n2,0\n", r"line 3: ns is '0'"),
        ("bytes,ns\n1,5\n2,inf\n", r"line 3: ns is 'inf'"),
        ("bytes,ns\n1\n", "line 2: ns is missing"),
        ("b,ns\n1,5\n", "has the columns b, ns"),
        ("", "has the columns nothing"),
        ("bytes,ns\n1,9\n1000,3\n", "larger transfers take no longer"),
    ],
)
def test_odd_measurements_are_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "links.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        fit(measured(str(path)))


def test_bytes_and_times_may_have_units(tmp_path: Path) -> None:
    path = tmp_path / "links.csv"
    path.write_text("bytes,ns\n1MB,60us\n2MiB,1.5 ms\n30,40\n")
    assert measured(str(path)) == [(1e6, 60e3), (2.0**21, 1.5e6), (30.0, 40.0)]
    path.write_text("bytes,ns\n1MB,60us\n2MiB,3MB\n")
    with pytest.raises(InputError, match="line 3: ns is '3MB'") as met:
        measured(str(path))
    assert "1.5us" in met.value.remedy
    for size, said in (("1Mb", "'1Mb' may be bits or bytes"), ("1e999MiB", "bytes is '1e999MiB'")):
        path.write_text(f"bytes,ns\n{size},60us\n2MiB,3ms\n")
        with pytest.raises(InputError, match=f"line 2: {said}"):
            measured(str(path))


def test_calibrate_writes_links_or_a_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, out = tmp_path / "links.csv", tmp_path / "out.json"
    table.write_text("where,ns,bytes\nx,20000,100000\ny,110000,1000000\n")
    assert main(["calibrate", str(table), "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert "latency 10000 ns, rate 10 bytes/ns" in said
    assert "error: 0%" in said or "error: " in said
    assert json.loads(out.read_bytes())["bytes_per_ns"] == 10.0
    assert main(["calibrate", str(table), "--system", "placeto-3", "--out", str(out)]) == 0
    found = system(str(out))
    assert found.links is not None
    assert (found.links.kind, found.links.latency_ns, found.links.gap_ns) == ("bus", 10_000.0, 25_000)
    assert len(found.devices) == 3
    assert main(["calibrate", str(tmp_path / "none.csv"), "--out", str(out)]) == 1


@pytest.mark.parametrize(("optimizer", "numbers"), [("sgd", 0), ("momentum", 4), ("adam:1", 2), ("adam:4:master", 12)])
def test_the_optimizer_of_a_training_step_is_named(graph: Path, optimizer: str, numbers: int) -> None:
    """Bytes of state per number of a weight, which has four bytes."""
    instance = read(graph, family="placement")
    assert isinstance(instance, PlacementInstance)
    step = training_step(instance, optimizer=optimizer).instance
    assert isinstance(step, PlacementInstance)
    weights = sum(one.weight_bytes for one in instance.graph.operations)
    assert sum(one.weight_bytes for one in step.graph.operations) == weights // 4 * numbers


@pytest.mark.parametrize("optimizer", ["adm", "adam:3", "adam:x", "adam:4:4", ":", "sgd:4:mastr", "adam:" + "9" * 400])
def test_what_is_no_optimizer_is_refused(graph: Path, optimizer: str) -> None:
    assert main(["convert", str(graph), "--family", "placement", "--training", "--optimizer", optimizer]) == 1
    assert main(["convert", str(graph), "--family", "placement", "--optimizer", "adam"]) == 1
