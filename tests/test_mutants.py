"""The table of seeded defects fits the code: each can be laid, compiles, and names tests that the quick lane runs."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from benchmarks.mutants import ROOT, importers, mutants
from tests.conftest import TESTS, is_quick
from tests.sources import tree_of

MUTANTS = mutants()


@cache
def dump_of(path: Path) -> str:
    """The parsed source as text."""
    return ast.dump(tree_of(path))


def test_there_are_enough_and_none_twice() -> None:
    assert len(MUTANTS) >= 40
    assert len({mutant.name for mutant in MUTANTS}) == len({mutant.digest for mutant in MUTANTS}) == len(MUTANTS)


def test_each_changes_one_place_of_the_code() -> None:
    for mutant in MUTANTS:
        path = ROOT / mutant.file
        changed = mutant.applied(path.read_text(encoding="utf-8"))
        assert ast.dump(ast.parse(changed)) != dump_of(path), mutant.name


def test_each_names_files_of_the_quick_lane() -> None:
    for mutant in MUTANTS:
        files = [TESTS / name.partition("::")[0] for name in mutant.tests]
        assert files and all(is_quick(path) for path in files if path.exists()), mutant.name
        assert any(path.exists() for path in files), mutant.name


def test_a_mutants_importers_are_found_however_they_import_it() -> None:
    """Their compiled code may contain the mutant's."""
    found = importers("chipmap/heuristics/ring/programs/kernel.py")
    assert {Path("chipmap/heuristics/ring/programs/kernel.py"), Path("chipmap/methods/ring/chain.py")} <= found
    assert not [path for path in found if "wafer" in path.parts or "dataflow" in path.parts]
