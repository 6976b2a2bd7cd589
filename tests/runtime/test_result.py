"""What a result can do for its user: names, tables, archives, pictures; and what the checker takes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import chipmap
from chipmap import archive
from chipmap.inputs import reading
from chipmap.records import InputError
from chipmap.result import Picture, Result

#: A small instance of each family, with what is mapped by name.
NAMES = {
    "ring/tiny-skip": ["a", "b", "c", "d", "e"],
    "dataflow/tiny-chain": ["a", "b", "c"],
    "wafer/tiny-adapters": ["a", "b"],
    "placement/tiny-pair": None,
    "multimodel/tiny-two": None,
}


def instance_of(name: str) -> Any:
    found = next(known for known in reading.shipped_names() if known.startswith(name))
    return chipmap.read(found)


@pytest.fixture(scope="module", params=NAMES)
def solved(request: pytest.FixtureRequest) -> tuple[Any, Result]:
    instance = instance_of(request.param)
    result = chipmap.solve(instance, isolate=False, time_limit=10)
    assert result.solution is not None
    return instance, result


def test_the_mapping_goes_by_name(solved: tuple[Any, Result]) -> None:
    instance, result = solved
    solution: Any = result.solution
    mapping = result.mapping
    match result.family:
        case "ring":
            names = [operation.name for operation in instance.graph.operations]
            assert list(mapping) == names
            assert [mapping[name] for name in names] == solution["chips"]
        case "placement":
            assert mapping == solution["devices"]
        case "dataflow":
            assert [one["scheme"] for one in mapping.values()] == solution["schemes"]
            assert [one["partition"] for one in mapping.values()] == solution["partitions"]
            assert list(mapping) == NAMES[instance.name]
        case "wafer":
            assert {one["kernel"]: (one["x"], one["y"]) for one in solution["placements"]} == {
                name: (one["x"], one["y"]) for name, one in mapping.items()
            }
        case "multimodel":
            pieces = [piece for window in solution["windows"] for piece in window]
            assert sum(map(len, mapping.values())) == len(pieces)
            assert {piece["model"] for piece in pieces} == set(mapping)
            for model in instance.models:
                asked = [piece["chiplet"] for piece in pieces if piece["model"] == model.name]
                assert sorted(asked) == sorted(one["chiplet"] for one in mapping[model.name])
                assert mapping[model.name][0]["first_layer"] == model.layers[0].name
                assert mapping[model.name][-1]["last_layer"] == model.layers[-1].name


def test_the_table_is_that_of_the_archive(solved: tuple[Any, Result], tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    _, result = solved
    frame = result.to_frame()
    folder = result.save(tmp_path / "run")
    table = next((folder / name for name in ("mapping.csv", "schedule.csv") if (folder / name).exists()), None)
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) > 0
    if table is None:
        assert list(frame["name"]) == list(result.mapping)
    else:
        lines = table.read_text().splitlines()
        assert (",".join(frame.columns), len(frame)) == (lines[0], len(lines) - 1)


def test_what_is_saved_is_an_archive(solved: tuple[Any, Result], tmp_path: Path) -> None:
    instance, result = solved
    folder = result.save(tmp_path / "deep" / "run")
    assert result.save(folder) == folder  # a second time: it replaces an archive
    again = chipmap.load(folder).result
    assert again == result
    assert again.mapping == result.mapping
    assert chipmap.read(folder) == instance
    assert chipmap.check(folder, folder) == result.certificate
    assert again.save(tmp_path / "copy").exists()


def test_pictures(solved: tuple[Any, Result], tmp_path: Path) -> None:
    _, result = solved
    assert result.plot(tmp_path / "solution.svg") == tmp_path / "solution.svg"
    assert (tmp_path / "solution.svg").read_bytes().startswith(b"<?xml")
    shown = result.plot()
    assert isinstance(shown, Picture)
    assert shown._repr_png_().startswith(b"\x89PNG")


def test_the_checker_takes_plain_data(solved: tuple[Any, Result]) -> None:
    instance, result = solved
    plain = json.loads(instance.to_json())
    forms: list[Any] = [result, result.solution]
    for given in forms:
        assert chipmap.check(instance, given) == result.certificate
        assert chipmap.check(plain, given) == result.certificate


def test_the_checker_takes_lists_and_names() -> None:
    instance: Any = chipmap.read("ring/tiny-skip")
    expected = chipmap.check(instance, {"chips": [0, 0, 1, 1, 1]})
    assert expected.feasible
    assert expected.objective == 900_000
    arrays = np.array([0, 0, 1, 1, 1])
    by_name = dict(zip("abcde", [0, 0, 1, 1, 1], strict=True))
    forms: list[Any] = [[0, 0, 1, 1, 1], (0, 0, 1, 1, 1), arrays, by_name, {"chips": arrays}]
    for given in [*forms, dict(reversed(by_name.items()))]:
        assert chipmap.check(instance, given) == expected
    assert not chipmap.check(instance, [1, 1, 0, 0, 0]).feasible
    throughput = chipmap.read("placement/tiny-throughput")
    found = chipmap.solve(throughput, isolate=False, time_limit=10)
    assert chipmap.check(throughput, found.mapping) == found.certificate


WRONG: list[tuple[Any, str]] = [
    ({"a": 0, "b": 0, "c": 1, "d": 1}, "says nothing of operation 'e'"),
    ({"a": 0, "b": 0, "c": 1, "d": 1, "f": 1}, "no operation is called 'f'"),
    ({"chips": [0, 0, 1, 1, "x"]}, r"chips\[4\]"),
    ({"chips": [0], "ships": 1}, "ships"),
    ([0, 0, 1, 1, None], "chips"),
    ({"a": 0, "b": 0, "c": 1, "d": 1, "e": "x"}, "chips"),
    (7, "is a int"),
    ({"chips": object()}, "holds what JSON can't"),
    (b"chips", "is a bytes"),
]


@pytest.mark.parametrize(("given", "word"), WRONG)
def test_bad_data_is_said(given: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        chipmap.check("ring/tiny-skip", given)


def test_a_dict_is_an_instance() -> None:
    plain = json.loads(chipmap.read("ring/tiny-skip").to_json())
    assert chipmap.solve(plain).objective == 900_000
    assert chipmap.bound(plain).bound is not None
    with pytest.raises(InputError, match="schema"):
        chipmap.solve({"graph": 1})


def test_a_result_without_its_instance_says_so() -> None:
    result = Result.from_json(chipmap.solve("ring/tiny-skip").to_json())
    with pytest.raises(InputError, match="comes without its instance"):
        result.mapping  # noqa: B018
    with pytest.raises(InputError, match="comes without its instance"):
        msgspec.structs.replace(result, changes=("x=1",)).plot()


def test_without_a_solution_it_is_said() -> None:
    result = chipmap.solve("ring/tiny-infeasible")
    for ask in (lambda: result.mapping, result.to_frame, result.plot):
        with pytest.raises(InputError, match="holds no solution: it is infeasible"):
            ask()


def test_without_pandas_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    result = chipmap.solve("ring/tiny-skip")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'pip install "chipmap\[pandas\]"'):
        result.to_frame()


def test_what_cannot_be_saved_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = chipmap.solve("ring/tiny-skip")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="something else than an archive"):
        result.save(tmp_path / "mine")

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "write_whole", full)
    with pytest.raises(InputError, match="can't be written: No space left on device"):
        result.save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_archive_saved_is_one_written_by_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chipmap", "solve", "ring/tiny-skip", "--quiet", "--out", str(tmp_path / "there")]
    subprocess.run(command, check=True, capture_output=True)
    chipmap.solve("ring/tiny-skip").save(tmp_path / "here")
    names = [sorted(path.name for path in (tmp_path / where).iterdir()) for where in ("here", "there")]
    assert names[0] == names[1]
