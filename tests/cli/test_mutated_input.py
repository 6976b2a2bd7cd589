"""What mutants of input found: each is refused in words, and nothing is left behind."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from chipmap import archive
from chipmap.bench.matrix import Matrix
from chipmap.cli import main
from chipmap.inputs.reading import generate, read
from chipmap.instances.ring import RingSolution
from chipmap.instances.wafer import WaferSolution
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import check, solve


@pytest.mark.parametrize("broken", [b'"status":"\xd1"', b'"claimed_objective":1e999'])
def test_a_result_whose_head_alone_is_sound(tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: bytes) -> None:
    """The part before the solution isn't read with types."""
    path = tmp_path / "result.json"
    path.write_bytes(b'{"schema":"result/1",' + broken + b',"solution":{}}')
    assert main(["check", "ring/tiny-skip", str(path)]) == 1
    assert "not valid JSON" in capsys.readouterr().err


@pytest.mark.parametrize("chip", [10**400, -(10**400)])
def test_a_violation_larger_than_any_float(chip: int) -> None:
    instance = read("ring/tiny-skip")
    certificate = check(instance, RingSolution(instance="tiny", chips=(chip, 0, 0, 0, 0)))
    assert not certificate.feasible and all(one.amount < float("inf") for one in certificate.violations)


def test_an_argument_larger_than_any_float() -> None:
    result = solve("wafer/tiny-adapters", options=SolveOptions(time_limit=20.0, threads=1), isolate=False)
    instance, made = read("wafer/tiny-adapters"), WaferSolution.make(**(result.solution or {}))
    placements = (msgspec.structs.replace(made.placements[0], h=10**400), *made.placements[1:])
    certificate = check(instance, msgspec.structs.replace(made, placements=placements))
    (message,) = {one.message for one in certificate.violations if "argument h" in one.message}
    assert len(message) < 100


@pytest.mark.parametrize("field", ["objective", "bound"])
def test_a_claim_larger_than_any_float(tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str) -> None:
    result = solve("ring/tiny-skip", options=SolveOptions(time_limit=20.0, threads=1), isolate=False)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(json.loads(result.to_json()) | {field: 10**400}))
    assert main(["check", "ring/tiny-skip", str(path)]) == 1
    assert f"{field}: is too large" in capsys.readouterr().err


def test_a_setting_that_is_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["info", "ring/tiny-skip"], ["generate", "multimodel-random"]):
        assert main([*command, "--set", "name=\udcff"]) == 1
        assert "isn't UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("multimodel-random", {"b": 1}),
        ("multimodel-random", {"layers": ["a"]}),
        ("multimodel-random", {"columns": 2**40}),
        ("multimodel-random", {"task": {"a": 1}}),
        ("multimodel-networks", {}),
        ("placement-random", {"operations": 10**9}),
        ("placement-random", {"memory": float("nan")}),
        ("placement-random", {"task": {"a": 1}}),
        ("placement-training", {"network": 7}),
    ],
)
def test_parameters_of_plain_generators_are_checked(name: str, parameters: dict[str, object]) -> None:
    with pytest.raises(InputError) as error:
        generate(name, **parameters)
    assert error.value.remedy


def test_a_matrix_that_is_none_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "bench.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version=99")
    with pytest.raises(InputError, match="layout 99"):
        Matrix(path)
    with closing(sqlite3.connect(path, timeout=0.0)) as database:
        database.execute("PRAGMA user_version=0")
        database.execute("CREATE TABLE mine (x)")


@pytest.mark.parametrize(
    "listed",
    [
        '{"files": {"' + "x" * 300 + '": [1, "a"]}}',
        r'{"files": {"a\u0000": [1, "a"]}}',
        '{"a": ' + "[" * 9000 + "]" * 9000 + "}",
    ],
)
def test_a_manifest_that_no_file_system_could_hold(tmp_path: Path, listed: str) -> None:
    (tmp_path / "result.json").write_text("{}")
    (tmp_path / archive.ENVIRONMENT).write_text(listed)
    with pytest.raises(InputError, match=r"no plain file|damaged"):
        archive.load(tmp_path)
