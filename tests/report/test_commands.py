"""The commands ``report``, ``plot`` and ``doctor``, as a user calls them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from chipmap.cli import doctor, main
from chipmap.solvers import availability
from tests.report.samples import archived, chain, result

BALANCED = (0, 0, 1, 1, 2, 2, 3, 3)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory with two whole archives and a half-written one."""
    folder = tmp_path / "runs"
    for name, proved in (("one", [100_000]), ("two", [200_000]), ("three", [])):
        instance = chain(name=f"ring/{name}")
        archived(folder / name, instance, result(instance, [BALANCED], proved))
    (folder / "three").rename(folder / "three.partial")
    return folder


def test_report_as_table(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(runs)]) == 0
    out, err = capsys.readouterr()
    assert "ring/one" in out and "50.00%" in out and "optimal" in out
    assert "three.partial" in err and "three" not in out


def test_report_as_json_and_csv(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(runs), "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["instance"], row["gap"]) for row in rows] == [("ring/one", 0.5), ("ring/two", 0.0)]
    assert main(["report", str(runs), "--format", "csv"]) == 0
    read = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [float(line["objective"]) for line in read] == [row["objective"] for row in rows]


def test_report_writes_a_page(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["report", str(runs), "--html", str(page)]) == 0
    assert "ring/two" in page.read_text(encoding="utf-8")
    assert str(page) in capsys.readouterr().err
    assert main(["report", str(runs), "--html", str(tmp_path / "missing" / "page.html")]) == 1


def test_report_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 1
    assert "holds no archive" in capsys.readouterr().err


@pytest.mark.parametrize("solution", ["solution.json", "result.json", "."])
def test_plot_of_an_archive(runs: Path, tmp_path: Path, solution: str) -> None:
    picture = tmp_path / "plot.svg"
    archive = runs / "one"
    assert main(["plot", str(archive / "instance.json"), str(archive / solution), "--out", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"<?xml")


def test_plot_refuses_a_half_written_archive(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = str(runs / "three.partial")
    assert main(["plot", str(runs / "one"), archive, "--out", str(tmp_path / "plot.svg")]) == 1
    assert "unfinished" in capsys.readouterr().err


def test_doctor_finds_nothing_wrong_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == [] and found["cores"] >= 1
    assert {solver["name"] for solver in found["solvers"]} == {"highs", "gurobi", "cpsat"}
    assert set(found["packages"]) == set(doctor.CORE) and all(found["packages"].values())


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        ({"highspy": "1.14.0"}, "wrong optima"),
        ({"highspy": "1.15.1"}, "in one process with ortools"),
        ({"ortools": None}, "needs the package ortools"),
        ({"numba": None}, "numba is missing"),
    ],
)
def test_doctor_names_the_problem(
    versions: dict[str, str | None],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = availability.package_version
    monkeypatch.setattr(availability, "package_version", lambda name: versions.get(name, real(name)))
    monkeypatch.setattr(doctor, "broken_imports", lambda modules: [])
    assert main(["doctor"]) == 5
    assert problem in capsys.readouterr().out.partition("problems")[2]


@pytest.mark.parametrize("versions", [{"gurobipy": None, "cvxpy": None}, {"highspy": "1.16.0", "cvxpy": "1.9.3"}])
def test_doctor_lives_without_extras_and_with_the_newest(
    versions: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = availability.package_version
    monkeypatch.setattr(availability, "package_version", lambda name: versions.get(name, real(name)))
    monkeypatch.setattr(doctor, "broken_imports", lambda modules: [])
    assert main(["doctor"]) == 0


def test_broken_imports_are_found() -> None:
    (broken,) = doctor.broken_imports(["json", "no_such_module_at_all"])
    assert broken.startswith("no_such_module_at_all does not import")
    assert doctor.broken_imports(["json"]) == []


def test_dying_import_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deadly.py").write_text("import os\nos._exit(7)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (broken,) = doctor.broken_imports(["deadly"])
    assert "exit 7" in broken


@pytest.mark.parametrize("line", [["info"], ["info", "ring/bert-large-36"], ["info", "placement"], ["doctor"]])
def test_tables_fit_a_narrow_terminal(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main(line)
    assert not [text for text in capsys.readouterr().out.splitlines() if len(text) > 80]
