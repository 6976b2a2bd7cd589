"""Tutorials whose figures are made again without their long commands: three packages, a measured cost."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import chipmap
from tests.docs.pages import ROOT, blocks

TUTORIALS = ROOT / "docs" / "tutorials"
PACKAGES, MEASURED = TUTORIALS / "compare-packages.md", TUTORIALS / "measured-cost.md"


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
    said += re.findall(r"measured this mapping takes ([\d.]+) µs", text)
    measured = []
    for method, changes in (("ring/greedy", []), ("ring/auto", []), ("ring/auto", ["package.launch_ns=4us"])):
        solution = chipmap.solve(chipmap.read("ring/resnet18-12", changes), method=method).solution
        assert solution is not None
        instance = chipmap.read("ring/resnet18-12")
        measured.append(f"{names['measure'](instance, SimpleNamespace(chips=solution['chips'])):.2f}")
    assert measured == said
