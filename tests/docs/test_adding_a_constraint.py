"""``docs/dev/adding-a-constraint.md`` is followed in a copy of chipmap, block by block."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.lanes import of_all

PAGE = ROOT / "docs" / "dev" / "adding-a-constraint.md"
#: What the copy holds.
COPIED = ("chipmap", "docs/families", "docs/dev", "tests/docs", "tests/conformance", "tests/placement")
#: A path, and the block of changes to that file; parts of a block are divided by ``@@``.
BLOCK = re.compile(r"^`([^`]+)`\n```diff\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def changes(page: str) -> list[tuple[str, str, str]]:
    """(path, old text, new text) of each part of the page's blocks."""
    found = []
    for path, block in BLOCK.findall(page):
        for part in re.split(r"^@@\n", block, flags=re.MULTILINE):
            lines = part.splitlines(keepends=True)
            old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
            found.append((path, old, new))
    return found


def follow(root: Path, listed: list[tuple[str, str, str]]) -> None:
    """Make the changes; each old text stands once in its file."""
    for path, old, new in listed:
        text = (root / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path}: {text.count(old)} times\n{old}"
        (root / path).write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What holds in the copy."""
    root, left_out = tmp_path_factory.mktemp("copy"), shutil.ignore_patterns("*.nbi", "*.nbc")
    for folder in COPIED:
        shutil.copytree(ROOT / folder, root / folder, ignore=left_out)
    for module in ("__init__.py", "lanes.py"):
        shutil.copy(ROOT / "tests" / module, root / "tests" / module)
    follow(root, changes(PAGE.read_text(encoding="utf-8")))
    command = [sys.executable, "-m", "tests.docs.constraint_copy", str(ROOT)]
    env = {**os.environ, "PYTHONPATH": str(root), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_page_checker_models_and_record_agree(told: dict[str, Any]) -> None:
    assert told["labels"] == []


def test_brute_force_every_model_and_the_best_chain_agree(told: dict[str, Any]) -> None:
    """No chain ends without a proof, on either objective, whether there is a solution or not."""
    seen = told["compared"]
    assert seen["wrong"] == []
    number = of_all(100, few=40)
    assert seen["instances"] == number and seen["with it"] >= number // 2
    assert number // 20 <= seen["infeasible"] <= 6 * number // 10
    assert seen["objectives"] == ["step_time", "throughput"]


def test_a_model_that_lacks_it_claims_nothing(told: dict[str, Any]) -> None:
    """Without the function in the auxiliary model the chain ends without a proof, and its bound holds."""
    seen = told["left out"]
    lacking, standing, status, bound = seen["model"]
    assert (lacking, standing) == (["C8"], "relaxation") and status not in ("optimal", "infeasible", "error")
    assert bound is None or bound <= seen["optimum"]


def test_a_rule_that_leaves_solutions_out_is_found_by_brute_force(told: dict[str, Any]) -> None:
    """Without the line in the rule of dominance a model that states everything proves what is wrong."""
    assert told["left out"]["optimum"] is not None and told["left out"]["rule"] == "infeasible"


def test_a_block_that_no_longer_fits_is_noticed(tmp_path: Path) -> None:
    page = "`a.py`\n```diff\n x = 1\n-y = 2\n+y = 3\n@@\n z = 4\n+u = 5\n```\n"
    assert changes(page) == [("a.py", "x = 1\ny = 2\n", "x = 1\ny = 3\n"), ("a.py", "z = 4\n", "z = 4\nu = 5\n")]
    (tmp_path / "a.py").write_text("x = 1\ny = 2\nz = 4\n")
    follow(tmp_path, changes(page))
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 3\nz = 4\nu = 5\n"
    with pytest.raises(AssertionError, match=r"a\.py: 0 times"):
        follow(tmp_path, changes(page))
