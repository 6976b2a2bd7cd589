"""The table of graphs: what it promises about its splits, and that the generators still make its graphs."""

from __future__ import annotations

from collections import Counter

import pytest

from chipmap.learned.ring.data import ROWS, Row, rows_of

ATTENTION = ("softmax", "attention", "bmm")


def test_the_splits_are_as_large_as_the_papers_and_disjoint() -> None:
    assert Counter(row.split for row in ROWS) == {"train": 66, "validation": 5, "test": 16}
    families = {row.family: row.split for row in ROWS}
    assert all(families[row.family] == row.split for row in ROWS), "a family has graphs in two splits"
    assert len({row.hash for row in ROWS}) == len({row.name for row in ROWS}) == 87
    assert not {row.network for row in ROWS} & {"bert_encoder", "gpt2"}


def test_what_is_judged_is_proved() -> None:
    assert all(row.optimum for row in ROWS if row.split != "train")
    assert [row.chips for row in ROWS if not 1 < row.chips <= 36] == []
    assert sum(row.optimum == 0 for row in rows_of("train")) <= 3


@pytest.mark.parametrize("name", sorted({row.network for row in ROWS}))
def test_the_generators_make_these_graphs(name: str) -> None:
    for row in ROWS:
        if row.network == name:
            graph = row.contracted().graph
            assert graph.content_hash[:16] == row.hash, row.name
            kinds = {operation.kind for operation in graph.operations}
            assert not any(word in kind for word in ATTENTION for kind in kinds), row.name


def test_a_row_makes_its_problem() -> None:
    row: Row = rows_of("validation")[0]
    problem = row.problem()
    assert (row.name, problem.chips) == ("squeezenet-bypass0-6", 6) and problem.n == int(problem.computing.sum())
