"""The page of results at a glance is what its command makes of the pages of results."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from benchmarks import results_page

ROW: dict[str, Any] = {
    "page": "x",
    "find": [r"limit (?P<limit>\d+)"],
    "count": {"proved": r"\| optimal \|"},
    "sum": {"all": r"^\| \w+ \| ([\d,]+)"},
    "column": {"most": ["s", "max"], "soon": ["s", "<=2"], "of_a": ["s", "min", "^a "]},
}
TEXT = (
    "# t\nlimit 60\n\n| n | k | s | how |\n|---|---|---|---|\n| a | 3 | 1.5 | optimal |\n| b | 4 | 1,002.5 | open |\n"
)


def test_the_page_is_up_to_date() -> None:
    """``python -m benchmarks.results_page``"""
    assert results_page.PAGE.read_text(encoding="utf-8") == results_page.text()


def test_figures_of_a_page() -> None:
    found = results_page.figures(ROW, TEXT)
    assert found == {"limit": "60", "proved": "1", "all": "7", "most": "1002.5", "soon": "1", "of_a": "1.5"}
    assert f"{found['most']:,.0f} {found['soon']}" == "1,002 1"


@pytest.mark.parametrize(
    "changed", [{"find": ["(?P<limit>[a-z]+) of 9"]}, {"count": {"proved": "none"}}, {"column": {"most": ["h", "max"]}}]
)
def test_a_figure_that_is_gone_is_an_error(changed: dict[str, Any]) -> None:
    with pytest.raises(LookupError):
        results_page.figures({**ROW, **changed}, TEXT)


def test_each_row_takes_its_figures_from_its_page() -> None:
    """Every figure that is named is used, and the result of every row has one."""
    for row in tomllib.loads(results_page.ROWS.read_text(encoding="utf-8"))["row"]:
        assert "{" in row["result"]
        said = row["what"] + row["result"] + row["script"]
        unused = [name for name in results_page.figures(row, results_page.source(row)) if f"{{{name}" not in said]
        assert not unused, row["what"]
