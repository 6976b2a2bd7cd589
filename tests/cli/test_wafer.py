"""The commands on family wafer's own file formats: told apart without --family, in every place of a file."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.wafer import WaferInstance, WaferSolution
from tests.cli.conftest import Command

TINY = "wafer/tiny-skip"
PAINT = """a = conv( 4 4 4 4 1 1 1 1 1 1 1 1 )
b = conv( 2 2 8 2 1 1 1 1 1 1 1 1 )
c = conv( 1 1 16 4 1 1 1 1 1 1 1 1 )
a : place(0 0 R0)
b : place(3 0 R0)
c : place(6 0 R90)
"""


@pytest.fixture
def case(chipmap: Command, tmp_path: Path) -> Path:
    path = tmp_path / "case.kgraph"
    assert chipmap("convert", TINY, "--out", path).code == 0
    return path


@pytest.fixture
def run(chipmap: Command, case: Path, tmp_path: Path) -> Path:
    """The archive of a solve of ``case``."""
    done = chipmap("solve", case, "--out", tmp_path / "run", "--format", "json", "--quiet")
    assert (done.code, done.json["status"], done.json["objective"]) == (0, "optimal", 308.0)
    return tmp_path / "run"


def test_solve_and_check(chipmap: Command, case: Path, run: Path, tmp_path: Path) -> None:
    paint = run / "solution.paint"
    assert len(paint.read_text().splitlines()) == 6
    for solution in (paint, run, run / "solution.json", run / "result.json"):
        done = chipmap("check", case, solution, "--format", "json")
        assert (done.code, done.json["feasible"], done.json["objective"]) == (0, True, 308.0)
    assert sorted(done.json["terms"]) == ["T1", "T2", "T3"]
    copy = tmp_path / "plan.txt"
    copy.write_bytes(paint.read_bytes())
    assert chipmap("check", case, copy).code == 0, "its content tells what it is"
    broken = tmp_path / "broken.paint"
    broken.write_text(paint.read_text().replace("place(0 0", "place(1 0", 1))
    refused = chipmap("check", case, broken)
    assert refused.code == 4 and "share" in refused.out


def test_a_floorplan_starts_a_solve(chipmap: Command, case: Path, run: Path) -> None:
    start = run / "solution.paint"
    done = chipmap("solve", case, "--method", "bounds", "--warm-start", start, "--format", "json", "--quiet")
    assert done.code == 0 and done.json["objective"] == 308.0


def test_info_and_standard_input(chipmap: Command, case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = chipmap("info", case, "--format", "json").json
    assert (shown["instance"], shown["schema"], shown["kernels"], shown["edges"]) == (TINY, "wafer/1", 3, 3)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(case.read_bytes())))
    assert chipmap("info", "-", "--format", "json").json["hash"] == shown["hash"]
    changed = chipmap("info", case, "--set", "weights.wire=7", "--format", "json").json
    assert changed["weights"]["wire"] == 7


def test_convert_every_way(chipmap: Command, case: Path, run: Path, tmp_path: Path) -> None:
    as_json, again = tmp_path / "case.json", tmp_path / "again.kgraph"
    assert chipmap("convert", case, "--out", as_json).code == 0
    assert WaferInstance.read(as_json) == read(case)
    assert chipmap("convert", as_json, "--out", again).code == 0
    assert again.read_bytes() == case.read_bytes()
    assert chipmap("generate", TINY, "--out", again).code == 0
    assert again.read_bytes() == case.read_bytes()
    plan = tmp_path / "plan.json"
    assert chipmap("convert", case, "--solution", run / "solution.paint", "--out", plan).code == 0
    solution = WaferSolution.read(plan)
    assert len(solution.placements) == 3
    paint = tmp_path / "plan.paint"
    assert chipmap("convert", as_json, "--solution", plan, "--out", paint).code == 0
    assert paint.read_bytes() == (run / "solution.paint").read_bytes()


def test_plot_before_and_after(chipmap: Command, case: Path, run: Path, tmp_path: Path) -> None:
    picture = tmp_path / "plot.svg"
    assert chipmap("plot", case, run / "solution.paint", "--against", run, "--out", picture).code == 0
    assert picture.read_text().startswith("<?xml")
    refused = chipmap("plot", "ring/tiny-chain", run, "--against", run, "--out", picture)
    assert refused.code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "CASE", "CASE"], "is an instance, not a solution"),
        (["solve", "PAINT"], "is a solution, not an instance"),
        (["check", "ring/tiny-chain", "PAINT"], "is a solution of family 'wafer'"),
        (["solve", "CASE", "--family", "ring"], "is an instance of family 'wafer'"),
        (["convert", "CASE", "--dim", "x=1", "--out", "OUT.json"], "no dimensions"),
        (["convert", "CASE", "--out", "OUT.paint"], "a .paint holds a solution of family 'wafer'"),
        (["convert", "CASE", "--solution", "PAINT", "--out", "OUT.kgraph"], "a .kgraph holds a instance"),
        (["convert", "ring/tiny-chain", "--out", "OUT.kgraph"], "a .kgraph holds a instance of family 'wafer'"),
        (["solve", "wafer/ispd2020-a"], "wafer/ispd2020-A"),
        (["solve", "CASE", "--set", "fabric.width=0"], "fabric.width: is 0"),
        (["check", "CASE", "PAINT", "--oracle", "tests.cli.test_wafer:yes"], "family 'wafer' takes no oracle"),
    ],
)
def test_bad_usage_is_named(chipmap: Command, case: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    paint = tmp_path / "plan.paint"
    paint.write_text(PAINT)
    names = {"CASE": str(case), "PAINT": str(paint)}
    done = chipmap(*(names.get(word, word.replace("OUT", str(tmp_path / "out"))) for word in arguments))
    assert done.code == 1 and said in done.err and "Traceback" not in done.err
    assert not list(tmp_path.glob("out*"))


def yes(instance: object, solution: object) -> bool:
    """An oracle that accepts everything."""
    return True


@pytest.mark.parametrize("name", ["tiny-memory", "tiny-fabric"])
def test_infeasible_instances_say_why(chipmap: Command, name: str) -> None:
    done = chipmap("solve", f"wafer/{name}", "--format", "json", "--quiet")
    assert done.code == 2 and json.loads(done.out)["status"] == "infeasible"
    assert "infeasible (C" in done.err and ("words per tile" in done.err or "tiles" in done.err)
