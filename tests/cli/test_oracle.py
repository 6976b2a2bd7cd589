"""``--oracle``: by name, in both commands; what is said of it; bad names; families that take none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chipmap as api
from chipmap.family import FAMILY_NAMES, get_family
from tests.cli.conftest import Command

MODULE = """
VERSION = "3"


def one_chip(instance, solution):
    return len(set(solution.chips)) == 1


def broken(instance, solution):
    raise RuntimeError("no licence")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the user's in the current folder."""
    (tmp_path / "my_compiler_check.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    return "my_compiler_check"


def test_solve_and_check(
    chipmap: Command, put: Callable[..., Path], data: dict[str, Any], module: str, tmp_path: Path
) -> None:
    path, out = put(data), tmp_path / "run"
    oracle = f"{module}:one_chip"
    arguments = ("--format", "json", "--quiet", "--time-limit", 120)
    done = chipmap("solve", path, "--oracle", oracle, "--out", out, *arguments)
    assert (done.code, done.json["status"], done.json["figures"]["chips_used"]) == (0, "optimal", 1)
    record = done.json["figures"]["oracle"]
    assert (record["name"], record["version"], record["scope"]) == (oracle, "3", "mapping")
    assert record["rejected"] >= 1 and f"oracle {oracle} 3 (scope mapping)" in done.err
    checked = chipmap("check", path, out, "--oracle", oracle)
    assert checked.code == 0 and f"{oracle} 3" in checked.out
    free = put({"schema": "ring-solution/1", "chips": [0, 0, 1]}, "free.json")
    assert chipmap("check", path, free).code == 0
    refused = chipmap("check", path, free, "--oracle", oracle, "--format", "json")
    assert refused.code == 4 and [v["label"] for v in refused.json["violations"]] == ["C5"]


def test_bad_oracles(chipmap: Command, put: Callable[..., Path], data: dict[str, Any], module: str) -> None:
    path = put(data)
    for name in ("nothing", "no_such_module:f", f"{module}:nobody", f"{module}:VERSION"):
        done = chipmap("solve", path, "--oracle", name, "--quiet")
        assert done.code == 1 and "--oracle" in done.err and "Traceback" not in done.err
    done = chipmap("solve", path, "--oracle", f"{module}:broken", "--quiet", "--time-limit", 120)
    assert done.code == 3 and "no licence" in done.err and "Traceback" not in done.err


WITHOUT = [name for name in FAMILY_NAMES if not get_family(name).oracle]
TINY = {
    "dataflow": "dataflow/tiny-chain",
    "wafer": "wafer/tiny-adapters",
    "multimodel": "multimodel/tiny-two",
    "placement": "placement/tiny-pair",
}


def anything(instance: object, solution: object) -> bool:
    """An oracle that accepts everything."""
    return True


def test_a_family_names_its_oracle_among_its_constraints() -> None:
    with_one = {name: get_family(name) for name in FAMILY_NAMES if name not in WITHOUT}
    assert set(with_one) == {"ring"} and set(WITHOUT) == set(TINY)
    assert all(family.oracle in family.constraints for family in with_one.values())


@pytest.mark.parametrize("name", WITHOUT)
def test_a_family_without_one_refuses_it_in_one_sentence(chipmap: Command, name: str, tmp_path: Path) -> None:
    """Whatever the command: exit code 1, and the archive of an earlier run stays as it is."""
    instance, out, oracle = TINY[name], tmp_path / "run", "tests.cli.test_oracle:anything"
    assert chipmap("solve", instance, "--out", out, "--quiet").code == 0
    before = {path: path.read_bytes() for path in out.iterdir()}
    said = f"--oracle: family '{name}' takes no oracle\n"
    for words in (
        ("solve", instance, "--out", out, "--quiet"),
        ("solve", instance, "--method", "bounds"),
        ("check", instance, out),
        ("bound", instance),
    ):
        done = chipmap(*words, "--oracle", oracle)
        assert (done.code, done.out) == (1, "") and done.err.startswith(f"chipmap: {said}"), words
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    several = chipmap("solve", "ring/tiny-chain", instance, "--oracle", oracle, "--quiet", "--format", "json")
    assert several.code == 1 and several.json["status"] == "optimal" and said in several.err


@pytest.mark.parametrize("name", WITHOUT)
def test_python_refuses_it_in_the_same_sentence(name: str, tmp_path: Path) -> None:
    found = api.solve(TINY[name])
    (tmp_path / "solution.json").write_bytes(found.to_json())
    options = api.SolveOptions(oracle="tests.cli.test_oracle:anything")
    for asked in (
        lambda: api.solve(TINY[name], oracle=anything),
        lambda: api.solve(TINY[name], oracle="tests.cli.test_oracle:anything", isolate=True),
        lambda: api.solve(TINY[name], options=options),
        lambda: api.check(TINY[name], tmp_path / "solution.json", oracle=anything),
        lambda: api.bound(TINY[name], options=options),
    ):
        with pytest.raises(api.InputError, match=f"family '{name}' takes no oracle"):
            asked()


def test_an_explanation_asks_no_oracle() -> None:
    options = api.SolveOptions(oracle="tests.cli.test_oracle:anything")
    with pytest.raises(api.InputError, match="an explanation asks no oracle"):
        api.explain("ring/tiny-chain", options=options)


def test_no_other_command_takes_one(chipmap: Command, tmp_path: Path) -> None:
    for words in (("explain", "ring/tiny-chain"), ("bench", "dataflow/dse-80", "--out", tmp_path / "bench")):
        done = chipmap(*words, "--oracle", "tests.cli.test_oracle:anything")
        assert done.code == 1 and "no option is called --oracle" in done.err
