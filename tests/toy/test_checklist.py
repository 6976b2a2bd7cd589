"""A family is added as ``CONTRIBUTING.md`` says: ten files and one line, here laid into a copy of chipmap."""

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

from tests.instances.samples import TRACED

ROOT = Path(__file__).resolve().parents[2]
NEW = Path(__file__).resolve().parent / "family"
NAMES = ROOT / "chipmap" / "family.py"


def new_files() -> list[str]:
    """The files of the family, as paths from the root."""
    return sorted(str(path.relative_to(NEW)) for path in NEW.rglob("*") if path.suffix in (".py", ".md"))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of chipmap with the family in it."""
    root = tmp_path_factory.mktemp("copy")
    left_out = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc", "toy")
    for folder in ("chipmap", "docs", "tests", "benchmarks"):
        shutil.copytree(ROOT / folder, root / folder, ignore=left_out)
    shutil.copytree(NEW, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile"):
        shutil.copy(ROOT / name, root / name)
    lines = NAMES.read_text(encoding="utf-8").splitlines(keepends=True)
    (place,) = (i for i, line in enumerate(lines) if line.startswith("FAMILY_NAMES = ("))
    lines[place] = lines[place].replace(")", ', "toy")')
    (root / NAMES.relative_to(ROOT)).write_text("".join(lines), encoding="utf-8")
    return root


def ask(copy: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in the copy."""
    env = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run([sys.executable, *arguments], cwd=copy, env=env, capture_output=True, text=True, check=False)


def test_the_checklist_names_these_files_and_no_other() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \d+ \| `([^`]+)`", page, re.MULTILINE)
    assert sorted(path.replace("<family>", "toy") for path in listed) == new_files() and len(listed) <= 10


def test_labels_imports_and_conformance_hold_unasked(copy: Path) -> None:
    parts = ("tests/conformance", "tests/docs/test_labels.py", "tests/test_imports.py")
    done = ask(copy, "-m", "pytest", "-v", "-x", "-p", "no:cacheprovider", "-k", "toy", *parts)
    assert done.returncode == 0, done.stdout[-3000:]
    count = re.search(r"(\d+) passed", done.stdout)
    assert count is not None and int(count[1]) > 50, done.stdout[-500:]


#: Runs several commands in one process and prints exit code, standard output and error of each as JSON.
SCRIPT = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from chipmap.cli import main
for line in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(line)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


@pytest.fixture(scope="module")
def commands(copy: Path) -> dict[str, Any]:
    """What the command line says of instances of the family."""
    for name in ("a", "b"):
        (copy / f"{name}.json").write_text(json.dumps(TRACED))
    lines = {
        "solve": ["solve", "toy/tiny-1", "toy/tiny-2", "--format", "json", "--out", "runs", "--quiet"],
        "csv": ["solve", "toy/tiny-1", "--format", "csv", "--quiet"],
        "progress": ["solve", "toy/tiny-1"],
        "check": ["check", "toy/tiny-1", "runs/toy-tiny-1"],
        "bound": ["bound", "toy/tiny-1"],
        "info": ["info", "toy/tiny-1", "--format", "json"],
        "report": ["report", "runs", "--html", "report.html"],
        "convert": ["convert", "a.json", "b.json", "--family", "toy", "--out", "both.json"],
        "one": ["convert", "a.json", "--family", "toy", "--out", "one.json"],
        "ring": ["convert", "a.json", "b.json", "--family", "ring", "--out", "ring.json"],
        "oracle": ["check", "toy/tiny-1", "runs/toy-tiny-1", "--oracle", "os:getcwd"],
        "plot": ["plot", "toy/tiny-1", "runs/toy-tiny-1", "--out", "plot.svg"],
        "explain": ["explain", "toy/tiny-1"],
    }
    env = {**os.environ, "PYTHONPATH": str(copy)}
    given = json.dumps(list(lines.values()))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=copy, env=env, input=given, capture_output=True, text=True
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == len(lines), done.stderr
    return dict(zip(lines, told, strict=True))


def test_objective_and_terms_have_units_of_their_own(commands: dict[str, Any], copy: Path) -> None:
    """A product in joule-seconds of a time in seconds and an energy in joules, wherever numbers are shown."""
    code, out, _ = commands["solve"]
    product, time = (json.loads(line) for line in out.splitlines())
    assert code == 0 and (product["unit"], time["unit"]) == ("J s", "s")
    assert product["term_units"] == time["term_units"] == {"T1": "s", "T2": "J"}
    terms = product["terms"]
    assert product["objective"] == product["bound"] == pytest.approx(terms["T1"] * terms["T2"])
    assert time["objective"] == time["terms"]["T1"]
    assert ",term_units.T1,term_units.T2," in commands["csv"][1] and "J s" in commands["csv"][1]
    objective = f"{product['objective']:.7g} J s"
    assert objective in commands["progress"][2] and objective in commands["bound"][1]
    assert all(words in commands["check"][1] for words in (objective, f"{terms['T1']:g} s", f"{terms['T2']:g} J"))
    assert "J s" in commands["report"][1]
    page = (copy / "report.html").read_text()
    assert all(words in page for words in (objective, f"{terms['T1']:g} s", f"{terms['T2']:g} J"))


def test_several_graphs_become_one_instance_where_the_family_takes_them(commands: dict[str, Any], copy: Path) -> None:
    assert commands["convert"][0] == commands["one"][0] == 0
    assert len(json.loads((copy / "both.json").read_text())["tasks"]) == 2
    assert len(json.loads((copy / "one.json").read_text())["tasks"]) == 1
    code, _, err = commands["ring"]
    assert code == 1 and "family 'ring' takes one graph at a time" in err


def test_what_the_family_lacks_is_said_in_one_sentence(commands: dict[str, Any]) -> None:
    shown = json.loads(commands["info"][1])
    assert (shown["instance"], shown["schema"]) == ("toy/tiny-1", "toy/1")
    for name, words in (
        ("oracle", "takes no oracle"),
        ("plot", "draws no pictures"),
        ("explain", "has no explanation"),
    ):
        code, _, err = commands[name]
        assert code == 1 and f"family 'toy' {words}" in err and "Traceback" not in err
