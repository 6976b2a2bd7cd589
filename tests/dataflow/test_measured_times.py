"""Kernels that take measured or learned times: on one chip they take just as long, whatever the machine reaches."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from chipmap.cli import main
from chipmap.inputs.reading import Conversion, read
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.from_graph import from_graph
from chipmap.instances.dataflow.measured import equip, equip_graph, flop_within
from chipmap.instances.dataflow.rates import efficiency, peak, peak_rate
from chipmap.instances.dataflow.sizes import flop
from chipmap.instances.dataflow.system import Chip
from chipmap.instances.dataflow.workload import Kernel
from chipmap.networks.graph import Loops, Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import ImportedGraph
from chipmap.records import InputError

GEMM = Kernel(name="a", kind="gemm", K=8, weights=True)
HEADER = "graph,operation,module,operator,class,ns,repeat,samples,flop,read,weights,written\n"


def file(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def net(folder: Path) -> str:
    """Three operations in a row."""
    return file(folder, "net.csv", "name,flop,bytes,kind,inputs\na,4e9,8,linear,\nb,2e9,8,linear,a\nc,2e9,8,linear,b\n")


def given(folder: Path, costs: list[str], system: str = "", source: str = "") -> DataflowInstance:
    equipment = {"costs": costs} | ({"system": system} if system else {})
    return read(source or net(folder), (), family="dataflow", conversion=Conversion(equipment=equipment))


@pytest.mark.parametrize("shares", [(), ((0, 0.2), (50, 0.4), (500, 0.5)), ((0, 0.9), (100, 0.3))])
def test_flop_take_the_time_that_is_asked_for(shares: tuple[tuple[float, float], ...]) -> None:
    """Every time that some FLOP take is met within a FLOP; of the others the first that is longer."""
    chip = Chip(name="x", tflops=1, sram_bytes=1, efficiency=shares)
    times = [Fraction(k) / efficiency(GEMM, chip, Fraction(k)) for k in range(800)]
    for work in (3, 60, 100, 110, 200, 300, 390):
        found = flop_within(GEMM, chip, Fraction(work))
        near = min(times, key=lambda time: abs(time - work))
        took = times[found]
        assert abs(took - work) <= max(Fraction(5), abs(near - work)) or took == min(t for t in times if t > work)


@pytest.mark.parametrize("system", ["sn10-1", "h100-sxm-calibrated-1"])
def test_the_checker_charges_what_was_measured(tmp_path: Path, system: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On a system with shares of its peak as on one without; `b` has no time and takes that of its FLOP."""
    costs = file(tmp_path, "costs.csv", "operation,ns\na,300us\nc,50us\n")
    instance = given(tmp_path, [costs], system)
    assert "not measured: 1 operation with 25% of the FLOP (b)" in instance.notes
    assert "measured times stand as the FLOP that one" in instance.notes
    own = file(tmp_path, "instance.json", instance.to_json().decode())
    settings = ["--set", "system.memory.bytes_per_ns=1e9", "--set", "system.chip.launch_ns=0"]
    assert main(["solve", own, *settings, "--quiet", "--format", "json"]) == 0
    row = json.loads(capsys.readouterr().out)
    plain = given(tmp_path, [], system)
    kernel, chip = plain.workload.kernels[1], plain.system.chip
    rate = efficiency(kernel, chip, Fraction(flop(kernel))) * Fraction(plain.task.utilisation or 1)
    rest = float(flop(kernel) / rate) / chip.flop_per_ns
    assert row["objective"] * 1e9 == pytest.approx(350_000 + rest, rel=1e-6)


def linear_and_two(flops: tuple[int, int, int]) -> ImportedGraph:
    """A product and two element-wise operations that only each other read."""
    loops = Loops(rows=8, columns=16, splits=("rows",))
    operations = [
        Operation(name=name, kind=name, flop=one, loops=None if name == "x" else loops)
        for name, one in zip(("x", "gelu", "mul"), flops, strict=True)
    ]
    tensors = [Tensor(producer=v, readers=(v + 1,) if v < 2 else (), bytes=512) for v in range(3)]
    return ImportedGraph(graph=OperationGraph.checked("net", operations, tensors), time_ns=None, format="pt2")


def test_operations_of_one_kernel_add_up(tmp_path: Path) -> None:
    """Of two element-wise operations in a kernel one has a time; the other one counts its FLOP beside."""
    imported = linear_and_two((640, 10**6, 5 * 10**5))
    made = from_graph(imported, "net")
    assert [one.name for one in made.workload.kernels] == ["x", "mul"]
    found = equip_graph(made, imported, "", [file(tmp_path, "costs.csv", "operation,ns\ngelu,3us\n")])
    rate = Fraction(9, 10) * Fraction(peak_rate(found.system.chip))
    assert [flop(one) for one in found.workload.kernels] == [640, round(3000 * rate) + 5 * 10**5]


def test_times_of_a_profile_are_those_of_the_system(tmp_path: Path) -> None:
    """A graph with times instead of FLOP takes them on the system that is asked for, and tables count before them."""
    imported = linear_and_two((0, 0, 0))
    imported = replace(imported, time_ns=(1000.0, 20.0, 30.0))
    made = from_graph(imported, "net")
    found = equip_graph(made, imported, "h100-sxm-1", [file(tmp_path, "costs.csv", "operation,ns\nmul,70\n")])
    rates = [Fraction(9, 10) * peak(one, found.workload, found.system.chip) for one in found.workload.kernels]
    assert [flop(one) for one in found.workload.kernels] == [round(1000 * rates[0]), round(90 * rates[1])]
    assert found.notes.count("measured times stand as") == 1 and "one H100" in found.notes


def test_kernels_of_an_instance_have_times_by_name(tmp_path: Path) -> None:
    """An instance takes a table of its kernels; what names operations of a program is refused."""
    source = file(tmp_path, "instance.json", given(tmp_path, []).to_json().decode())
    found = given(tmp_path, [file(tmp_path, "costs.csv", "operation,ns\na,300us\n")], source=source)
    assert found.workload.kernels[0].flop == given(tmp_path, [str(tmp_path / "costs.csv")]).workload.kernels[0].flop
    for text in ("operation,graph,ns\na,0123,1\n", '{"traceEvents": []}'):
        with pytest.raises(InputError, match="keeps only kernels"):
            given(tmp_path, [file(tmp_path, "of_program.csv", text)], source=source)
    with pytest.raises(InputError, match="no operation is called 'zz'"):
        given(tmp_path, [file(tmp_path, "other.csv", "operation,ns\nzz,1\n")], source=source)
    shared = given(tmp_path, []).replace(task=found.task.replace(utilisation=None))
    with pytest.raises(InputError, match="kernels share tiles"):
        equip(shared, "", [str(tmp_path / "costs.csv")])


def test_a_stale_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="measured on another graph"):
        given(tmp_path, [file(tmp_path, "costs.csv", "operation,graph,ns\na,0123,1\n")])


def test_learned_times_keep_their_spread(tmp_path: Path) -> None:
    """Times of other networks: each kernel takes its prediction, and the instance keeps how far to trust them."""
    lines = [
        f"g{g},o{i},{'ab'[g]}.{i},linear,,{(1 + i + g) * 1000},,,{(1 + i) * 10**6},{64 * i},{8 * i},{32}\n"
        for g in range(2)
        for i in range(12)
    ]
    costs = "learned:" + file(tmp_path, "learned.csv", HEADER + "".join(lines))
    instance = given(tmp_path, [costs], "sn10-1")
    assert "learned times from 2 networks of 2 architectures" in instance.notes and len(instance.time_spread) == 2
    assert instance.workload.kernels[0].flop != given(tmp_path, [], "sn10-1").workload.kernels[0].flop
    with pytest.raises(InputError, match="time_spread"):
        instance.replace(time_spread=(1.2, 1.0)).check()
