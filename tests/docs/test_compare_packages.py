"""The tutorial that compares packages: its sweep gives the rows that it shows."""

from __future__ import annotations

import json
import re

import chipmap
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "tutorials" / "compare-packages.md"


def test_the_packages_come_to_what_the_page_shows() -> None:
    (sweep,) = (json.loads(block.text) for block in blocks(PAGE, "json"))
    rows = re.findall(
        r"\[package=([\w ]+)\] +ring/auto +optimal +([\d.]+) +([\d.]+) ", PAGE.read_text(encoding="utf-8")
    )
    choices = sweep["axes"][0]["choices"]
    assert [label for label, *_ in rows] == [choice["label"] for choice in choices]
    for choice, (_, objective, bound) in zip(choices, rows, strict=True):
        changes = [f"{path}={value}" for path, value in choice["set"].items()]
        found = chipmap.solve(chipmap.read(sweep["instance"], changes))
        assert found.status == "optimal" and f"{found.value:.7g}" == objective == bound
