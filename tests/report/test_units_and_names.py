"""Rows say what was changed and where they lie, fit a narrow terminal, and have one unit per column."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

import chipmap
from chipmap import archive
from chipmap.cli.common import columns, unmatched
from chipmap.inputs.settings import brief
from chipmap.records import csv_text
from chipmap.report import tables
from chipmap.report.rows import row


def solved(**changes: Any) -> dict[str, Any]:
    result = chipmap.solve("ring/tiny-skip", "ring/greedy", time_limit=10, isolate=False)
    return row(result) | changes


def test_a_changed_instance_is_told_from_the_plain_one() -> None:
    assert brief(['constraints=["C1","C2"]', "constraints=C1,C2"]) == ("constraints=C1,C2",) * 2
    shown = solved(changes=["constraints=C1,C2"], folder="runs/a")
    text = tables.table([shown])
    assert "ring/tiny-skip [constraints=C1,C2]" in text and "runs/a" in text
    assert shown["instance"] == "ring/tiny-skip", "the field of JSON stays"
    assert "folder" not in tables.table([solved()])


@pytest.mark.parametrize("width", [80, 60])
def test_tables_fit_a_narrow_terminal(width: int) -> None:
    shown = solved(instance="dataflow/" + "long-" * 8, changes=["constraints=C1,C2"], folder="runs/" + "deep/" * 20)
    assert max(map(len, tables.table([shown]).splitlines())) > width
    assert max(map(len, tables.table([shown], 80).splitlines())) <= 80


def test_columns_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("name", "word " * 40, "1"), ("other", "short", "2")]
    monkeypatch.setenv("COLUMNS", "80")
    lines = columns(rows).splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) > 2
    monkeypatch.delenv("COLUMNS")
    assert len(columns(rows).splitlines()) == 2, "no terminal: one line a row"


def test_a_kind_that_no_operation_has_is_said() -> None:
    instance = chipmap.read("ring/tiny-skip")
    assert unmatched(instance, ["package.efficiency.given=0.5"]) == []
    assert "changes nothing" in unmatched(instance, ["package.efficiency.gven=0.5"])[0]
    assert "Did you mean given?" in unmatched(instance, ["package.efficiency.gven=0.5"])[1]


def test_numbers_of_a_csv_have_no_noise() -> None:
    assert csv_text(["x_us"], [[7.000000000000001], [0.1 + 0.2], [1e-5]]) == "x_us\n7.0\n0.3\n1e-05\n"


def test_traces_and_rows_name_their_units(tmp_path: Path) -> None:
    result = chipmap.solve("ring/tiny-skip", "ring/greedy", time_limit=10, isolate=False)
    trace = list(csv.DictReader(io.StringIO(archive.trace_csv(result).decode())))
    assert {line["unit"] for line in trace} == {"us"}
    assert float(trace[-1]["incumbent"]) == result.value
    found = next(csv.DictReader(io.StringIO(tables.csv([row(result)]))))
    assert {name.partition(".")[2] for name in found if name.startswith("term_units.")} == {
        name.partition(".")[2] for name in found if name.startswith("terms.")
    }


@pytest.mark.parametrize(
    "name", ["ring/tiny-skip", "dataflow/tiny-chain", "wafer/tiny-adapters", "placement/tiny-pair"]
)
def test_nothing_counts_in_ticks(name: str) -> None:
    """What a tick is differs by family, and no column says it: figures and rows have units."""
    result = chipmap.solve(name, time_limit=60, isolate=False)
    assert result.certificate is not None
    names = [*result.certificate.figures, *row(result), *tables.csv([row(result)]).partition("\n")[0].split(",")]
    assert not [one for one in names if "tick" in one]


def test_an_infeasible_solve_has_no_bound_and_promises_nothing() -> None:
    result = chipmap.solve("ring/tiny-infeasible", "ring/bounds", time_limit=10, isolate=False)
    assert (result.status, result.bound, result.gap) == ("infeasible", None, None)
    remedies = [text for reason in result.infeasibility for text in reason.remedies]
    assert remedies and not any("--set" in text for text in remedies)
    assert any("chipmap explain" in text for text in remedies)
