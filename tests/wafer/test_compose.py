"""The tutorial's model of two wafers is what it says."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.formulations.wafer.cpsat import build
from chipmap.instances.wafer import WaferInstance
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.wafer.checker import check
from tests.docs.pages import ROOT, blocks

PAGE = ROOT / "docs" / "tutorials" / "compose-two-wafers.md"


def test_the_tutorial_prints_what_it_says_and_is_optimal(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks(PAGE, "python")
    names: dict[str, Any] = {"__name__": "tutorial"}
    exec(compile(block.text, str(PAGE), "exec"), names)
    printed = capsys.readouterr().out.strip()
    assert f"```\n{printed}\n```" in PAGE.read_text(encoding="utf-8")
    solver = names["solver"]
    placed = names["two"].decode(solver.value)
    assert check(names["speech"], placed).feasible and placed.placements[0].x == 0
    # the first wafer has no constraint of its own: at that clock no floorplan of it has shorter wires
    alone: WaferInstance = names["camera"]
    model = build(alone, {"tau": solver.value(names["clock"])})
    assert solve_model(model, SolveRequest(threads=1, time_limit=30.0)).objective == solver.value(names["one"].cost)
