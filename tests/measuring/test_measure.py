"""`chipmap measure`: each operation of a program has a time, kept from run to run, that convert takes."""

from __future__ import annotations

import csv
import json
import logging
import os
import signal
import subprocess
import sys
from fractions import Fraction
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.deadline import Deadline
from chipmap.inputs.reading import Conversion, read
from chipmap.instances.dataflow.rates import peak_rate
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.wafer.measured import work
from chipmap.measuring.passes import Clock, one_pass
from chipmap.measuring.programs import Program

torch = pytest.importorskip("torch", reason="needs the extra torch")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two layers, of which the first does 64 times the work of the second, and an operator that changes its input."""

    class Net(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.large, self.small = torch.nn.Linear(512, 512), torch.nn.Linear(512, 8)

        def forward(self, x: Any) -> Any:
            return self.small(torch.relu_(self.large(x)))

    path = tmp_path_factory.mktemp("measure") / "net.pt2"
    torch.export.save(torch.export.export(Net().eval(), (torch.randn(256, 512),)), path)
    return path


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_from_a_program_to_an_instance(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs = tmp_path / "costs.csv"
    command = ["measure", str(program), "--out", str(costs), "--passes", "3", "--quiet"]
    assert main(command) == 0
    told = capsys.readouterr().err
    assert "3 operations of 3 measured" in told and "a whole pass takes" in told and "repeat error" in told
    measured = {row["operation"]: row for row in rows(costs)}
    assert [row["operator"] for row in measured.values()] == ["linear", "relu_", "linear"]
    assert [row["module"] for row in measured.values()] == ["large", "", "small"]
    times = [float(row["ns"]) for row in measured.values()]
    assert times[0] > times[2] > 0 and times[1] > 0
    assert all(len(row["samples"].split(";")) == 3 and float(row["repeat"]) >= 0 for row in measured.values())
    instance = read(program, (), "ring", Conversion(equipment={"costs": [str(costs)]}))
    assert isinstance(instance, RingInstance) and instance.time_ns is not None
    named = dict(zip((one.name for one in instance.graph.operations), instance.time_ns, strict=True))
    assert {name: named[name] for name in measured} == dict(zip(measured, times, strict=True))
    assert "not measured" not in instance.notes


def test_every_family_takes_the_table(program: Path, tmp_path: Path) -> None:
    """One chip of `dataflow` takes as long as all operations, a layer of `multimodel` and a kernel of `wafer` as long
    as theirs; the learned model of the same table says something of all of them."""
    costs = str(tmp_path / "costs.csv")
    assert main(["measure", str(program), "--out", costs, "--passes", "2", "--quiet"]) == 0
    first, relu, last = (Fraction(row["ns"]) for row in rows(Path(costs)))
    for given in (costs, f"learned:{costs}"):
        chips = read(program, (), family="dataflow", conversion=Conversion(equipment={"costs": [given]}))
        equipment = {"costs": [given], "system": "nvdla-2x2"}
        module = read(program, (), family="multimodel", conversion=Conversion(equipment=equipment))
        wafer = read(program, (), family="wafer", conversion=Conversion(equipment={"costs": [given]}))
        assert all("not measured" not in one.notes for one in (chips, module, wafer))
        if given == costs:
            rate = Fraction(9, 10) * peak_rate(chips.system.chip)
            took = sum(kernel.flop or 0 for kernel in chips.workload.kernels) / rate
            assert abs(took - first - relu - last) < 1
            layers = [layer.costs["nvdla"][0] for layer in module.models[0].layers]
            assert layers == [ceil(first + relu), ceil(last)]
            scaled = [kernel.time_permille * work(kernel) for kernel in wafer.kernels]
            assert scaled[0] / scaled[1] == pytest.approx(float((first + relu) / last), rel=0.1)


def test_a_run_goes_on_and_keeps_what_was_measured(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = tmp_path / "costs.csv"
    command = ["measure", str(program), "--out", str(costs), "--quiet", "--passes"]
    assert main([*command, "1"]) == 0
    first = rows(costs)
    assert [row["repeat"] for row in first] == ["", "", ""]
    assert main([*command, "2"]) == 0
    later = rows(costs)
    assert [row["samples"].split(";")[0] for row in later] == [row["samples"] for row in first]
    assert all(len(row["samples"].split(";")) == 2 for row in later)
    assert main([*command, "2"]) == 0
    assert rows(costs) == later and "has 2 passes already" in capsys.readouterr().err
    assert main([*command, "3", "--class", "cpu"]) == 1


def test_a_signal_keeps_what_was_timed(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    timed, calls = Clock.timed, [0]

    def struck(self: Clock, call: Any) -> Any:
        calls[0] += isinstance(call, partial) and call.func not in (torch.mm, torch.add)
        if calls[0] == 8:  # three operations, a warm-up before
            signal.raise_signal(signal.SIGTERM)
        return timed(self, call)

    monkeypatch.setattr(Clock, "timed", struck)
    costs = tmp_path / "costs.csv"
    assert main(["measure", str(program), "--out", str(costs), "--quiet"]) == 143
    assert "interrupted in pass 1: the same command goes on" in capsys.readouterr().err
    assert [row["samples"].count(";") for row in rows(costs)] == [0, 0, 0]


def test_a_table_of_before_gets_what_it_lacks(tmp_path: Path) -> None:
    """Tables once lacked orders of memory, before that paces, parts, sorts of convolutions, at first FLOP and bytes."""
    path, costs = tmp_path / "patches.pt2", tmp_path / "costs.csv"
    torch.export.save(torch.export.export(torch.nn.Conv2d(3, 8, 4, 4).eval(), (torch.randn(1, 3, 32, 32),)), path)
    command = ["measure", str(path), "--out", str(costs), "--quiet", "--passes", "1"]
    assert main(command) == 0
    (first,) = rows(costs)
    assert first["sort"] == "patch" and int(first["flop"]) == 2 * 64 * 8 * 48
    assert [first[name] for name in ("row", "apart", "turned")] == ["16", "16", "0"]  # 4 x 4, and its stride
    lacking: tuple[str, ...] = ()
    for more in (("row", "apart", "turned"), ("paces",), ("parts",), ("sort",), ("flop", "read", "weights", "written")):
        lacking += more
        with costs.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, [name for name in first if name not in lacking], extrasaction="ignore")
            table.writeheader()
            table.writerow(first)
        assert main(command) == 0
        assert rows(costs) == [{**first, "paces": "" if "paces" in lacking else first["paces"]}]


def test_what_cannot_be_measured_is_named(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No file, another format, a file without parameters, sizes that are left open, a table of somebody else."""
    broken, graph, foreign = tmp_path / "broken.pt2", tmp_path / "net.csv", tmp_path / "foreign.csv"
    broken.write_bytes(program.read_bytes()[:4000])
    graph.write_text("name,flop,bytes\na,1,1\n")
    foreign.write_text("operation,ns\na,1\n")
    out = str(tmp_path / "x.csv")
    for path, target in ((tmp_path / "none.pt2", out), (graph, out), (broken, out), (program, str(foreign))):
        assert main(["measure", str(path), "--out", target]) == 1
        said = capsys.readouterr().err
        assert said.count("\n") == 2 and "Traceback" not in said and "defect" not in said
    assert main(["measure", str(program), "--out", out, "--import", "no_such_module"]) == 1
    assert "'no_such_module' can't be imported" in capsys.readouterr().err
    assert foreign.read_text() == "operation,ns\na,1\n" and not Path(out).exists()


def test_a_table_that_cannot_be_written_is_refused_before_anything_is_measured(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that isn't there, a device without end (which must not be read), a file that is no text."""

    def one_pass(*_: Any) -> Any:
        raise AssertionError("something was measured")

    monkeypatch.setattr("chipmap.measuring.passes.one_pass", one_pass)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for out in (str(tmp_path / "none" / "x.csv"), str(tmp_path / "binary"), os.devnull):
        assert main(["measure", str(program), "--out", out]) == 1
        said = capsys.readouterr().err
        assert out in said and ".tmp" not in said and said.count("\n") == 2


def test_a_program_that_cannot_be_loaded_says_what_pytorch_says(
    program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch logs the cause and raises another error; what it logs isn't printed."""

    def load(_: str) -> None:
        try:
            raise NotImplementedError("my.Output in pytree is not\nregistered")
        except NotImplementedError:
            logging.getLogger("torch.export").warning("ran into", exc_info=True)
        raise RuntimeError("see the warnings above")

    monkeypatch.setattr(torch.export, "load", load)
    assert main(["measure", str(program), "--out", str(tmp_path / "x.csv")]) == 1
    said = capsys.readouterr().err
    assert "operators: my.Output in pytree is not registered\n" in said
    assert "classes of results, name it: --import MODULE" in said and said.count("\n") == 2


def test_without_time_nothing_is_claimed(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs = tmp_path / "costs.csv"
    assert main(["measure", str(program), "--out", str(costs), "--time-limit", "0.000001"]) == 3
    assert "0 operations of 3 measured" in capsys.readouterr().err and rows(costs) == []


def test_a_table_of_another_graph_is_refused(program: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.csv"
    assert main(["measure", str(program), "--out", str(costs), "--passes", "1", "--quiet"]) == 0
    net = tmp_path / "net.json"
    assert main(["convert", str(program), "--family", "ring", "--out", str(net)]) == 0
    plain = json.loads(net.read_text())
    plain["graph"]["operations"][-1]["flop"] = 7
    net.write_text(json.dumps(plain))
    assert main(["convert", str(net), "--costs", str(costs), "--out", str(tmp_path / "a.json")]) == 1


def test_a_program_that_changes_its_state_is_run_again_and_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A counter that picks a row of a table of four: each run begins with the counter as it was exported."""

    class Counting(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("at", torch.zeros(1, dtype=torch.long))
            self.table = torch.nn.Embedding(4, 8)

        def forward(self, x: Any) -> Any:
            self.at.add_(1)
            return x + self.table(self.at)

    path, costs = tmp_path / "counting.pt2", tmp_path / "costs.csv"
    torch.export.save(torch.export.export(Counting().eval(), (torch.randn(1, 8),)), path)
    assert main(["measure", str(path), "--out", str(costs), "--passes", "2", "--quiet"]) == 0
    assert {"embedding"} <= {row["operator"] for row in rows(costs)}
    assert "whole passes aren't timed, as one fails: IndexError" in capsys.readouterr().err


def test_a_call_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Example inputs that are no rows of the table."""
    path = tmp_path / "looks.pt2"
    program = torch.export.export(torch.nn.Embedding(4, 8).eval(), (torch.tensor([3]),))
    program.example_inputs = ((torch.tensor([9]),), {})
    torch.export.save(program, path)
    assert main(["measure", str(path), "--out", str(tmp_path / "costs.csv"), "--quiet"]) == 1
    said = capsys.readouterr().err
    assert "'embedding' fails: IndexError" in said and "defect" not in said


def test_subnormal_numbers_are_zero_while_a_program_runs(tmp_path: Path) -> None:
    """An untrained network fades to them, and some processors multiply them a hundred times more slowly."""

    class Fading(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return torch.exp(x * 1e-30)

    class Listening(Clock):
        def timed(self, call: Any) -> Any:
            value = call()
            heard.append(value)
            return 1, value

    heard: list[Any] = []
    path = tmp_path / "fading.pt2"
    torch.export.save(torch.export.export(Fading().eval(), (torch.full((4,), 1e-10),)), path)
    assert (torch.full((4,), 1e-10) * 1e-30).max() > 0
    assert [one for one, _ in one_pass([Program(str(path))], {}, 0, Listening(1), Deadline())]
    products = [one for one in heard if isinstance(one, torch.Tensor) and one.shape == (4,) and one.max() < 0.5]
    assert products and all(one.max() == 0 for one in products)
    assert (torch.full((4,), 1e-10) * 1e-30).max() > 0


def test_subnormal_numbers_are_zero_on_all_threads() -> None:
    """In a process of its own, whose threads begin with the clock."""
    code = """
import torch
from chipmap.measuring.passes import Clock, _flushed
clock, small = Clock(2), torch.full((4_000_000,), 1e-40)
clock.often(lambda: torch.ones(4_000_000) * 2.0)  # as between programs, where nothing is flushed
with _flushed():
    made = small * 0.5
print(int((small.view(torch.int32) != 0).sum()), int((made.view(torch.int32) != 0).sum()))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["4000000", "0"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_gpu_has_to_be_there(program: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure", str(program), "--device", "cuda", "--out", str(tmp_path / "gpu.csv")]) == 1
    assert "sees no GPU" in capsys.readouterr().err and not (tmp_path / "gpu.csv").exists()


def test_a_table_of_before_gets_what_is_learned_from(program: Path, tmp_path: Path) -> None:
    """Without FLOP and bytes it is gone on with; the same command adds them, and nothing else changes."""
    costs = tmp_path / "costs.csv"
    command = ["measure", str(program), "--out", str(costs), "--quiet", "--passes", "1"]
    assert main(command) == 0
    whole = rows(costs)
    with costs.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(whole[0])[:8], extrasaction="ignore")
        writer.writeheader()
        writer.writerows(whole)
    assert main(command) == 0
    assert rows(costs) == [{**row, "paces": ""} for row in whole]
    assert [int(row["weights"]) for row in whole] == [
        513 * 512 * 4,
        0,
        513 * 8 * 4,
    ]
