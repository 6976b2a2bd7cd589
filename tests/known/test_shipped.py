"""The shipped entries hold: each instance is made anew, each solution checked, tiny optima found by brute force."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.best_known import page
from chipmap.family import FAMILY_NAMES
from chipmap.inputs.reading import read, shipped_names
from chipmap.known.records import Entry
from chipmap.known.registry import entries_of, known, refuted
from chipmap.solve import check
from chipmap.validation.brute_force import brute_force, count

ENTRIES = [entry for family in FAMILY_NAMES for entry in entries_of(family).values()]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "best-known.md"
#: Candidates of an instance whose optimum is sought by brute force here.
FEW = 20_000


def test_every_shipped_instance_has_an_entry() -> None:
    named = {entry.origin.instance for entry in ENTRIES if not entry.origin.set}
    assert set(shipped_names()) <= named
    assert {entry.family for entry in ENTRIES} == set(FAMILY_NAMES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.instance}-{entry.instance_hash[:8]}")
def test_an_entry_holds(entry: Entry) -> None:
    assert refuted(entry) == ""
    for source in filter(None, (entry.found, entry.proved)):
        assert source.publication or (source.method and source.version and len(source.archive) == 64)


@pytest.mark.parametrize("name", [name for name in shipped_names() if "/tiny-" in name])
def test_tiny_optima_are_those_of_brute_force(name: str) -> None:
    """A bound can't be checked by the checker: here by trying all solutions."""
    instance = read(name)
    entry = known(instance)
    assert entry is not None and (entry.optimal or entry.infeasible)
    if count(instance) > FEW:
        pytest.skip("too many candidates for this test")
    assert brute_force(instance, check)[0] == entry.objective


def test_the_page_shows_the_entries() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()
