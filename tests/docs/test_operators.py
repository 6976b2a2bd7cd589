"""The page of operators' costs holds the table that the rules give."""

from __future__ import annotations

from tests.docs import operators


def test_the_table_is_that_of_the_rules() -> None:
    page = operators.PAGE.read_text(encoding="utf-8")
    shown = page.partition(operators.BEGIN)[2].partition(operators.END)[0]
    assert shown.strip() == operators.text(), "run python -m tests.docs.operators"


def test_rules_say_what_they_are() -> None:
    """Every rule has a text; one with bytes of its own says these as well."""
    for rule, name in operators._named():
        assert rule.says, name
        assert bool(rule.moves) == (rule.moved is not None), name
