"""Bad input: one clear message with file, path and remedy, exit code 1, never a traceback."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CHAIN, Command

Put = Callable[..., Path]


def refused(chipmap: Command, *arguments: object) -> str:
    """The message of a command that must be refused as bad input."""
    done = chipmap(*arguments)
    assert done.code == 1
    assert done.out == ""
    assert "Traceback" not in done.err
    assert "defect" not in done.err
    assert done.err.startswith("chipmap: ")
    assert done.err.count("\n") == 2, "what is wrong, and a remedy"
    return done.err


def spoilt(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(CHAIN))
    change(data)
    return data


CONTENTS = [
    ("empty", b"", "is empty"),
    ("blank", b" \n", "is empty"),
    ("binary", random.Random(1).randbytes(500), "not valid JSON"),
    ("cut off", json.dumps(CHAIN)[:150].encode(), "not valid JSON: Input data was truncated"),
    ("trailing comma", b'{"schema": "ring/1",}', "not valid JSON"),
    ("deep", b'{"name":' + b"[" * 100_000, "not valid JSON"),
    ("array", b"[1, 2]", "is a list, not an object"),
    ("null", b"null", "is null, not an object"),
    ("no schema", b'{"name": "x"}', "has no `schema`"),
    ("schema a number", b'{"schema": 1}', "schema: is a whole number, not text"),
    ("later version", b'{"schema": "ring/2"}', "It reads 'ring/1'"),
    ("unknown family", b'{"schema": "chess/1"}', "Known schemas: ring/1"),
    ("solution", b'{"schema": "ring-solution/1", "chips": []}', "'ring-solution/1' is no instance's"),
]


@pytest.mark.parametrize(("content", "message"), [row[1:] for row in CONTENTS], ids=[row[0] for row in CONTENTS])
def test_what_is_no_instance(chipmap: Command, put: Put, content: bytes, message: str) -> None:
    path = put(content)
    error = refused(chipmap, "solve", path)
    assert str(path) in error
    assert message in error


CHANGES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (
        lambda d: d["package"].update(chps=3),
        "package: there is no field 'chps'\n  Did you mean chips? The fields are: chips, ",
    ),
    (
        lambda d: d["graph"]["operations"][1].update(flops=3),
        "operations[1]: there is no field 'flops'\n  Did you mean flop",
    ),
    (lambda d: d.pop("graph"), "json: graph: is missing"),
    (lambda d: d["package"].update(chips="2"), "package.chips: is text, not a whole number"),
    (lambda d: d["package"].update(chips=2.5), "package.chips: is a fraction, not a whole number"),
    (lambda d: d.update(cost_mode="fast"), "cost_mode: is 'fast'\n  Choose from: period, sum, sum_forward."),
    (lambda d: d["package"].update(chips=0), "package.chips: is 0\n  Give at least 1 chip."),
    (lambda d: d["package"].update(chips=10**13), "package.chips: is 10000000000000\n  Give at most 10000 chips."),
    (lambda d: d["package"].update(flop_per_ns=0), "package.flop_per_ns: is 0.0"),
    (lambda d: d["package"].update(sram_bytes=-1), "package.sram_bytes: is -1"),
    (lambda d: d["graph"]["operations"][2].update(flop=-7), "graph.operations[2]: flop is -7"),
    (lambda d: d["graph"]["operations"][2].update(weight_bytes=-7), "graph.operations[2]: weight_bytes is -7"),
    (lambda d: d["graph"]["tensors"][0].update(bytes=-1), "graph.tensors[0]: bytes is -1"),
    (lambda d: d["graph"]["tensors"][0].update(readers=[9]), "graph.tensors[0]: operation 9 does not exist"),
    (lambda d: d["graph"]["operations"][2].update(name="op0"), "graph.operations[2]: the name 'op0' is used twice"),
    (lambda d: d["graph"]["tensors"].append({"producer": 2, "readers": [0]}), "the graph has a cycle: op"),
    (lambda d: d["graph"]["tensors"][0].update(readers=[0]), "the graph has a cycle: op0 -> op0"),
    (lambda d: d["graph"].update(operations=[], tensors=[]), "graph.operations: the graph has no operations"),
    (lambda d: d.update(pins=[{"operation": "nobody", "chip": 0}]), "pins[0].operation: no operation is called"),
    (lambda d: d.update(pins=[{"operation": "op1", "chip": 7}]), "pins[0].chip: chip 7 does not exist"),
    (lambda d: d.update(time_ns=[1.0]), "time_ns: has 1 entry for 3 operations"),
    (lambda d: d.update(time_ns=[1.0, -1.0, None]), "time_ns[1]: is -1.0"),
]


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=[message[:40] for _, message in CHANGES])
@pytest.mark.parametrize("command", ["solve", "info"])
def test_wrong_instances(
    chipmap: Command, put: Put, change: Callable[[dict[str, Any]], object], message: str, command: str
) -> None:
    path = put(spoilt(change))
    error = refused(chipmap, command, path)
    assert str(path) in error
    assert message in error


SETTINGS = [
    ("package.chips=0", "package.chips: is 0"),
    ("package.chips=many", "'many' is not a whole number"),
    ("package.chps=3", "package has no field 'chps'\n  Did you mean chips? The fields are: chips, sram_bytes,"),
    (
        "pakage.chips=3",
        "a RingInstance has no field 'pakage'\n  Did you mean package? The fields are: schema, name, graph,",
    ),
    ("package.chips.x=3", "package.chips is a single value and has no 'x'"),
    ("graph.operations.3.flop=3", "graph.operations has no item '3'\n  Positions run from 0 to 2."),
    ("graph.operations.first.flop=3", "graph.operations has no item 'first'"),
    (f"graph.operations.{'1' * 5000}.flop=3", "111'\n  Positions run from 0 to 2."),
    ("pins.0.chip=1", "pins has no item '0'\n  It is empty: set pins as a whole."),
    ("package=3", "package: is a whole number, not an object"),
    ("package.efficiency.matmul=0", "package.efficiency['matmul']: is 0.0"),
    ("package.chips", "has no value"),
    ("=3", "has no value"),
]


@pytest.mark.parametrize(("setting", "message"), SETTINGS)
def test_wrong_settings(chipmap: Command, put: Put, setting: str, message: str) -> None:
    error = refused(chipmap, "solve", put(CHAIN), "--set", setting)
    assert message in error
    assert "--set" in error


OPTIONS = [
    (("--method", "magic"), "no method of family 'ring' is called 'ring/magic'"),
    (("--solver", "cplex"), "no solver is called 'cplex'\n  Choose from: highs, gurobi, cpsat."),
    (("--time-limit", "0"), "--time-limit: is 0\n"),
    (("--time-limit", "nan"), "--time-limit: 'nan' is not a time"),
    (("--gap", "1.5"), "--gap: is 1.5"),
    (("--gap", "-1"), "--gap: is -1.0"),
    (("--threads", "0"), "--threads: is 0"),
    (("--memory-limit", "-1"), "--memory-limit: is -1\n"),
    (("--warm-start", "magic"), "no warm start and no file is called 'magic'\n  Choose from: greedy"),
    (("--native", "threads"), "--native threads: has no value"),
    (("--family", "chess"), "is an instance of family 'ring'"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_wrong_options(chipmap: Command, put: Put, options: tuple[str, str], message: str) -> None:
    assert message in refused(chipmap, "solve", put(CHAIN), *options)


USAGE = [("dance",), ("solve",), ("solve", "x", "--threads", "two"), ("solve", "x", "--bogus"), ("export", "x")]


@pytest.mark.parametrize("arguments", USAGE)
def test_wrong_usage_exits_with_1(chipmap: Command, arguments: tuple[str, ...]) -> None:
    refused(chipmap, *arguments)


def test_missing_files_and_names(chipmap: Command, tmp_path: Path, put: Put) -> None:
    missing = tmp_path / "missing.json"
    assert "no such file, and no shipped instance" in refused(chipmap, "solve", missing)
    assert "Did you mean ring/resnet50-36" in refused(chipmap, "solve", "ring/resnet50")
    assert "is a directory, and no archive of a run" in refused(chipmap, "solve", tmp_path)
    assert "no such file" in refused(chipmap, "solve", "x" * 5000)
    assert "can't be read: No such file" in refused(chipmap, "check", put(CHAIN), missing)
    assert "Did you mean" in refused(chipmap, "info", "ring/bert-large")
    assert "no generator and no shipped instance is called 'nothing'" in refused(
        chipmap, "generate", "nothing", "--out", missing
    )
    assert "has no parameter 'colour'" in refused(chipmap, "generate", "chain", "--set", "colour=3", "--out", missing)
    assert "no family is called 'chess'" in refused(
        chipmap, "convert", put("{}", "graph"), "--family", "chess", "--out", missing
    )
    assert "no schema is called 'chess'" in refused(chipmap, "info", "--schema", "chess")
    assert not missing.exists()


def test_solutions_that_are_none(chipmap: Command, put: Put) -> None:
    instance = put(CHAIN)
    assert "is an instance (ring/1), not a solution" in refused(chipmap, "check", instance, instance)
    assert "no field 'chps'" in refused(chipmap, "check", instance, put({"chps": [0]}, "s.json"))
    assert "chips: is missing" in refused(chipmap, "check", instance, put({}, "s.json"))
    format_of = "`chipmap info --schema ring-solution` prints the format."
    for text, message in (("mapping: 3", "not valid JSON"), ("[0, 0, 1]", "is a list"), ("7", "is a whole number")):
        said = refused(chipmap, "check", instance, put(text, "s.json"))
        assert message in said and said.rstrip().endswith(format_of)


def test_places_that_can_not_be_written(chipmap: Command, put: Put, tmp_path: Path) -> None:
    instance = put(CHAIN)
    assert "is a file" in refused(chipmap, "solve", instance, "--out", instance)
    assert "holds something else than an archive" in refused(chipmap, "solve", instance, "--out", tmp_path)
    assert "is below a file" in refused(chipmap, "solve", instance, "--out", instance / "below")
    assert "can't be written" in refused(chipmap, "generate", "chain", "--out", tmp_path / "no" / "such" / "folder")
    assert "is for one instance" in refused(chipmap, "solve", instance, instance, "--plot", "x.png")


def test_memory_that_can_not_fit_is_infeasible_in_chips_and_bytes(chipmap: Command, put: Put) -> None:
    done = chipmap("solve", put(CHAIN), "--set", "package.sram_bytes=12", "--format", "json", "--quiet")
    assert done.code == 2
    assert (done.json["status"], done.json["feasible"], done.json["objective"]) == ("infeasible", False, None)
    assert "infeasible (C4)" in done.err
    assert "chips" in done.err
    assert "bytes" in done.err
    assert "`chipmap explain` says what does" in done.err


def test_a_defect_is_one_message(chipmap: Command, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("chipmap.cli.info.figures", broken)
    done = chipmap("info", put(CHAIN))
    assert done.code == 1
    assert done.err.startswith("chipmap: ZeroDivisionError: oops\n  A defect of chipmap")
    monkeypatch.setenv("CHIPMAP_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        chipmap("info", put(CHAIN))
