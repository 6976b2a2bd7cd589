"""The lanes: the functions that they sample are there, and a sample holds that of the quick lane."""

from __future__ import annotations

import re

import pytest

from tests.conftest import QUICK, SOME, TESTS, sampled


@pytest.mark.parametrize("table", [QUICK, SOME], ids=["quick", "some"])
def test_functions_that_are_sampled_are_there(table: dict[str, int]) -> None:
    for name in table:
        file, _, function = name.partition("::")
        found = sorted(TESTS.glob(file))
        assert found, name
        sources = [path.read_text(encoding="utf-8") for path in found]
        assert any(re.search(rf"^def {function}\(" if function else "", one, re.MULTILINE) for one in sources), name


class Item:
    """As much of a test as sampling looks at."""

    def __init__(self, place: str, case: int) -> None:
        self.path, self.nodeid = TESTS / place.partition("::")[0], f"tests/{place}[{case}]"


def test_make_test_runs_a_sample_that_holds_the_quick_lanes() -> None:
    for place, few in SOME.items():
        items = [Item(place, case) for case in range(1000)]
        quick, some = (list(sampled(items, lane)) for lane in (True, False))  # type: ignore[arg-type]
        assert set(quick) <= set(some) and few <= len(some) <= few + len(quick)
