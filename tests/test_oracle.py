"""The oracle itself: each mapping is asked about once, and a rejection cuts off no more than its scope says."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.oracle import MAPPING, Oracle, OracleError, Verdict
from tests.test_run import Answer


def oracle(answer: Any, scope: str = "chip") -> Oracle:
    """An oracle that always gives that answer."""
    return Oracle("h", "1", scope, (MAPPING, "chip"), lambda instance, solution: answer)


INSTANCE = Answer(value=0)


def test_each_mapping_is_asked_about_once() -> None:
    asked = list[int]()
    h = Oracle("h", "1", MAPPING, (MAPPING,), lambda _, solution: asked.append(solution.value) or solution.value < 3)  # type: ignore[func-returns-value]
    for value in (2, 5, 5, 2):
        assert bool(h.ask(INSTANCE, Answer(value=value))) == (value == 5)
    assert asked == [2, 5] and h.asked == 2
    assert [rejection.solution for rejection in h.rejections] == [Answer(value=5)]


def test_a_verdict_that_names_no_chip_is_about_its_mapping_alone() -> None:
    """Else a cut would take more mappings than the user's function has refused."""
    assert [verdict.scope for verdict in oracle(False).ask(INSTANCE, INSTANCE)] == [MAPPING]
    answer = [Verdict(True), Verdict(False, chip=2), Verdict(False, MAPPING, chip=1), Verdict(False, "chip")]
    verdicts = oracle(answer).ask(INSTANCE, INSTANCE)
    assert [(verdict.scope, verdict.chip) for verdict in verdicts] == [("chip", 2), (MAPPING, 1), (MAPPING, None)]
    assert not oracle([True, Verdict(True, chip=1)]).ask(INSTANCE, INSTANCE)


@pytest.mark.parametrize("answer", [None, 1, "no", [True, 0], Verdict(False, "core")])
def test_what_is_no_verdict_is_refused(answer: Any) -> None:
    with pytest.raises(OracleError, match="the oracle h"):
        oracle(answer).ask(INSTANCE, INSTANCE)
