"""Rows and tables: natural units, honest gaps, and CSV and JSON that read back."""

from __future__ import annotations

import csv
import io
import json
import math

from hypothesis import given
from hypothesis import strategies as st

from chipmap.records import Unit, Units
from chipmap.report import tables
from chipmap.report.rows import row
from chipmap.result import natural
from tests.report.samples import chain, result

PROMISED = {
    "instance", "family", "method", "status", "objective", "unit", "bound", "gap", "seconds", "terms", "term_units",
    "feasible",
}  # fmt: skip
BALANCED = (0, 0, 1, 1, 2, 2, 3, 3)
ALONE = (0,) * 8


def test_row_is_in_natural_units() -> None:
    instance = chain()
    shown = row(result(instance, [ALONE, BALANCED], [100_000, 150_000]))
    assert set(shown) >= PROMISED
    assert (shown["objective"], shown["bound"], shown["unit"]) == (2.0, 1.5, "us")
    assert shown["terms"] == {"T1": 2.0, "T2": 0.25}
    assert shown["term_units"] == {"T1": "us", "T2": "us"}
    assert (shown["gap"], shown["status"], shown["feasible"]) == (0.25, "feasible", True)
    assert shown["figures"]["incumbent_source"] == "source 1"
    assert shown["figures"]["bound_source"] == "bound 150000"


def test_terms_with_units_of_their_own() -> None:
    """A product of time and energy: every number in its own unit, in a row, in CSV and in the page of the report."""
    units = Units(objective=Unit(name="J s", per_tick=1e-3), terms={"T2": Unit(name="J", per_tick=0.5)})
    shown = row(result(chain(), [BALANCED], [150_000], units=units))
    assert (shown["objective"], shown["bound"], shown["unit"]) == (200.0, 150.0, "J s")
    ticks = result(chain(), [BALANCED], []).certificate.terms  # type: ignore[union-attr]
    assert shown["terms"] == {"T1": ticks["T1"] / 1000, "T2": ticks["T2"] / 2}
    assert shown["term_units"] == {"T1": "J s", "T2": "J"}
    line = next(csv.DictReader(io.StringIO(tables.csv([shown]))))
    assert (line["unit"], line["term_units.T2"]) == ("J s", "J") and line["term_units.T1"] == "J s"


def test_an_older_result_has_the_units_of_its_family() -> None:
    older = result(chain(), [BALANCED], [])
    assert older.units is None and row(older)["unit"] == "us"


def test_row_without_solution() -> None:
    shown = row(result(chain(), [], [150_000]))
    assert (shown["objective"], shown["bound"], shown["gap"]) == (None, 1.5, None)
    assert shown["feasible"] is False and shown["terms"] == {}


def test_refused_solution_is_not_feasible() -> None:
    instance = chain()
    shown = row(result(instance, [BALANCED[::-1]], []))
    assert shown["feasible"] is False


def test_natural_has_no_stray_digits() -> None:
    assert natural(110_000, 1e-5) == 1.1
    assert natural(3, 0.25) == 0.75


@given(st.integers(min_value=0, max_value=10**13))
def test_natural_is_the_nearest_float(ticks: int) -> None:
    value = natural(ticks, 1e-5)
    assert value is not None and math.isclose(value, ticks / 1e5, rel_tol=1e-15)
    assert float(repr(value)) == float(f"{ticks}e-5")


def test_percent_is_zero_only_for_zero() -> None:
    assert tables.percent(0.0) == "0%"
    assert tables.percent(1e-9) == "<0.01%"
    assert tables.percent(4.9e-5) == "<0.01%"
    assert tables.percent(0.5) == "50.00%"
    assert tables.percent(None) == "n/a"


def test_table_is_aligned() -> None:
    instance = chain()
    rows = [row(result(instance, [BALANCED], [200_000])), row(result(chain(name="ring/a-much-longer-name"), [], []))]
    lines = tables.table(rows).splitlines()
    assert len(lines) == 4
    at = lines[0].index("status")
    assert lines[2][at:].startswith("optimal") and lines[3][at:].startswith("unknown")
    assert "n/a" in lines[3] and "0%" in lines[2]
    assert tables.table([]).startswith("instance")


def test_markdown_escapes_bars() -> None:
    assert r"ring/a\|b" in tables.markdown([row(result(chain(name="ring/a|b"), [BALANCED], []))])


def test_csv_reads_back() -> None:
    rows = [row(result(chain(name='ring/"a",b'), [BALANCED], [150_000])), row(result(chain(), [], []))]
    read = list(csv.DictReader(io.StringIO(tables.csv(rows))))
    assert [line["instance"] for line in read] == ['ring/"a",b', "ring/chain"]
    assert float(read[0]["terms.T1"]) == 2.0 and read[1]["terms.T1"] == ""
    assert (read[0]["feasible"], read[1]["feasible"], read[1]["objective"]) == ("true", "false", "")
    assert tables.csv([]).strip()


def test_json_lines_read_back() -> None:
    rows = [row(result(chain(), [BALANCED], [150_000])), row(result(chain(), [], []))]
    assert [json.loads(line) for line in tables.json_lines(rows).splitlines()] == rows
