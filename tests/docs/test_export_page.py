"""The page of exports: its three programs solve exported models with a constraint of one's own, which is read back."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from chipmap.cli import main
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "export-a-model.md"
PROGRAMS = [block.text for block in blocks(PAGE, "py")]


@pytest.mark.parametrize("program", PROGRAMS, ids=["highs", "gurobi", "cpsat"])
def test_a_program_of_the_page(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At least two operations are on chip 0: 7 us, two more than the bound without that."""
    monkeypatch.chdir(tmp_path)
    for to in ("mip --to diamond.mps", "cpsat --to diamond.pbtxt"):
        assert main(f"export ring/tiny-diamond --formulation ring/{to}".split()) == 0
    exec(compile(program, "own.py", "exec"), {"__name__": "__main__"})
    written = Path("diamond.sol").read_text(encoding="utf-8")
    found = re.search(r"^(?:Objective|# Objective value =|objective_value:) (\d+)", written, re.MULTILINE)
    assert found is not None and int(found[1]) == 700_000
    capsys.readouterr()
    assert main(["adopt", "ring/tiny-diamond", "diamond.sol", "--time-limit", "20", "--format", "json"]) == 0
    adopted = json.loads(capsys.readouterr().out)
    assert adopted["certificate"]["objective"] == 7.0
    assert adopted["plan"]["gap"] == pytest.approx(2 / 7)


def test_the_page_says_what_they_find() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert "700,000 ticks" in text and "valid, 7 us" in text and "28.57% to 5 us" in text
