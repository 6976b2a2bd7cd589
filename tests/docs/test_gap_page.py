"""The page on bounds and gaps: its table of methods is what they say of its example."""

from __future__ import annotations

import re

import chipmap
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "explanation" / "gap.md").read_text(encoding="utf-8")
EXAMPLE = "ring/tiny-skip"


def test_the_methods_say_what_the_page_says() -> None:
    rows = re.findall(
        r"^\| `(ring/\w+)` \|[^|]*\|[^|]*\| ([\d.]+) µs \| ([\d.]+) µs \| ([\d.]+)% \|", PAGE, re.MULTILINE
    )
    assert len(rows) == 4
    for method, *said in rows:
        found = chipmap.solve(EXAMPLE, method=method)
        assert found.objective is not None and found.bound is not None and found.gap is not None
        assert [f"{found.objective / 1e5:g}", f"{found.bound / 1e5:.4g}", f"{found.gap:.1%}"] == [
            *said[:2],
            f"{said[2]}%",
        ]


def test_the_chain_proves_the_bounds_of_the_page() -> None:
    table = PAGE.partition("| bound | proof")[2].partition("\n\n")[0]
    said = {
        name: float(value) for name, value in re.findall(r"^\| ([\w ]+) \|.*\| ([\d.]+) µs \|$", table, re.MULTILINE)
    }
    found = {one.source.replace("program n1", "program"): one.value / 1e5 for one in chipmap.solve(EXAMPLE).bounds}
    assert said.keys() <= found.keys() and all(abs(found[name] - value) < 1e-3 for name, value in said.items())


def test_the_checker_says_what_the_page_says() -> None:
    best, without_c3 = ({"a": 0, "b": 0} | rest for rest in ({"c": 1, "d": 1, "e": 1}, {"c": 1, "d": 2, "e": 2}))
    assert str(chipmap.check(EXAMPLE, best)) == "<Certificate: valid, 9 us>"
    assert str(chipmap.check(EXAMPLE, without_c3)) == "<Certificate: refused, 1 violation (C3), 8 us>"
