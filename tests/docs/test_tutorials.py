"""Tutorials whose figures are made again without their long commands: packages, measured costs, a box of devices."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import chipmap
from chipmap.cli import main
from chipmap.inputs.reading import Conversion
from tests.docs.pages import ROOT, blocks, command_lines

TUTORIALS = ROOT / "docs" / "tutorials"
PACKAGES, MEASURED, BOX, SWEEP = (
    TUTORIALS / f"{name}.md" for name in ("compare-packages", "measured-cost", "your-own-machine", "dask-sweep")
)


def test_the_packages_come_to_what_the_page_shows() -> None:
    (sweep,) = (json.loads(block.text) for block in blocks(PACKAGES, "json"))
    text = PACKAGES.read_text(encoding="utf-8")
    rows = re.findall(r"\[package=([\w ]+)\] +ring/auto +optimal +([\d.]+) +([\d.]+) ", text)
    choices = sweep["axes"][0]["choices"]
    assert [label for label, *_ in rows] == [choice["label"] for choice in choices]
    for choice, (_, objective, bound) in zip(choices, rows, strict=True):
        changes = [f"{path}={value}" for path, value in choice["set"].items()]
        found = chipmap.solve(chipmap.read(sweep["instance"], changes))
        assert found.status == "optimal" and f"{found.value:.7g}" == objective == bound


def test_measured_costs_of_mappings_that_the_model_knows() -> None:
    """Greedy's mapping, the optimum of the model, and the optimum of the model that knows of launches."""
    (program,) = (block.text for block in blocks(MEASURED, "py"))
    names: dict[str, Any] = {}
    exec(compile(program, "measured-cost.md", "exec"), names)
    text = MEASURED.read_text(encoding="utf-8")
    said = [*re.findall(r"^\| (?:greedy|optimal for the model) \|.*\| ([\d.]+) µs \|$", text, re.MULTILINE)]
    said += re.findall(r"On the machine this mapping takes ([\d.]+) µs", text)
    measured = []
    for method, changes in (("ring/greedy", []), ("ring/auto", []), ("ring/auto", ["package.launch_ns=4us"])):
        solution = chipmap.solve(chipmap.read("ring/resnet18-12", changes), method=method).solution
        assert solution is not None
        instance = chipmap.read("ring/resnet18-12")
        measured.append(f"{names['measure'](instance, SimpleNamespace(chips=solution['chips'])):.2f}")
    assert measured == said


def test_a_step_on_the_box_with_and_without_its_fast_link() -> None:
    """The optima of the page; the class that it shows is one of the file."""
    system = ROOT / "examples" / "box.json"
    (shown,) = (json.loads(block.text) for block in blocks(BOX, "json"))
    assert shown in json.loads(system.read_text(encoding="utf-8"))["classes"]
    conversion = Conversion(equipment={"system": str(system)})
    graph = ROOT / "examples" / "mine.csv"
    said = re.findall(r"([\d.]+) +\1 +ms +0%", BOX.read_text(encoding="utf-8"))
    for changes, value in zip(([], ["system.routes=[]"]), said, strict=True):
        found = chipmap.solve(chipmap.read(graph, changes, family="placement", conversion=conversion))
        assert (found.status, f"{found.value:g}") == ("optimal", value)


def test_the_sweep_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pasted, on Dask's own workers in place of those that two terminals start; its table is the page's."""
    pytest.importorskip("distributed", reason="docs/tutorials/dask-sweep.md needs the extra cluster")
    monkeypatch.chdir(tmp_path)
    (sweep,), (table,) = blocks(SWEEP, "json"), blocks(SWEEP, "csv")
    Path("chips.json").write_text(sweep.text, encoding="utf-8")
    solved, reported = command_lines(SWEEP, "chipmap")
    assert main([*("local" if word.startswith("tcp:") else word for word in solved), "--workers", "2"]) == 0
    assert main(reported) == 0
    rows = Path("runs/chips.csv").read_text(encoding="utf-8").splitlines()
    assert [",".join(row.split(",")[:10]) for row in rows] == table.text.splitlines()
    assert Path("runs/chips/objectives.png").read_bytes().startswith(b"\x89PNG")
    assert Path("runs/chips.html").read_text(encoding="utf-8").count("application/octet-stream") == 8


def test_the_table_of_the_sweep_on_a_cluster() -> None:
    """Without Dask: the same problems solved here come to what the page shows."""
    (sweep,), (table,) = blocks(SWEEP, "json"), blocks(SWEEP, "csv")
    axes = json.loads(sweep.text)["axes"]
    for row in csv.DictReader(table.text.splitlines()):
        found = chipmap.solve(
            chipmap.read("ring/resnet18-12", [f"{axis['path']}={row[axis['name']]}" for axis in axes])
        )
        assert (found.status, f"{found.value:.8g}") == (row["status"], f"{float(row['objective']):.8g}")
