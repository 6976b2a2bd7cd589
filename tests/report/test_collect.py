"""What a report believes: only what the checker says again, and only plain files of the archive itself."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from chipmap import archive
from chipmap.bench.matrix import Matrix
from chipmap.bench.point import solve_point
from chipmap.cli import main
from chipmap.report.collect import MATRIX, collect
from tests.bench.samples import tiny_points
from tests.report.samples import archived, chain, result

SPLIT = (0, 0, 1, 1, 2, 2, 3, 3)


@pytest.fixture(autouse=True)
def remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What has passed is remembered in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "chipmap"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with one good archive."""
    instance = chain()
    archived(tmp_path / "runs" / "good", instance, result(instance, [SPLIT], [150_000]))
    return tmp_path / "runs"


def test_archives_and_benches_of_one_folder_are_listed_together(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with both: the rows of the bench stand behind the archives, with the bench's folder."""
    row = solve_point(tiny_points()[0])
    (runs / "sweep").mkdir()
    matrix = Matrix(runs / "sweep" / MATRIX)
    matrix.put(row)
    matrix.close()
    (runs / "broken").mkdir()
    (runs / "broken" / "result.json").write_text("{")
    entries = collect(runs)
    assert [(one.path.name, one.of_bench, one.result is None) for one in entries] == [
        ("good", False, False),
        ("sweep", True, False),
        ("broken", False, True),
    ]
    assert main(["report", str(runs), "--format", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["folder"] for line in lines] == ["good", "sweep"]


def forge(target: Path, **changes: Any) -> None:
    """An archive whose result is edited, with mended sizes and hashes."""
    instance = chain()
    archived(target, instance, result(instance, [SPLIT], [150_000]))
    plain = json.loads((target / "result.json").read_text()) | changes
    (target / "result.json").write_text(json.dumps(plain))
    mend(target, "result.json")


def mend(target: Path, name: str, size: int | None = None) -> None:
    about = json.loads((target / "environment.json").read_text())
    data = (target / name).read_bytes() if size is None else b""
    about["files"][name] = [len(data) if size is None else size, hashlib.sha256(data).hexdigest()]
    (target / "environment.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"objective": 150_000, "bound": 150_000, "gap": 0.0, "status": "optimal"}, "claims an objective of 150000"),
        ({"bound": 200_000, "gap": 0.0, "status": "optimal"}, "the best of those that it lists is 150000"),
        ({"gap": 0.001}, "claims a gap"),
        ({"status": "optimal"}, "claims to be optimal"),
        ({"instance_hash": "0" * 64}, "of another instance"),
        ({"solution": None}, "claims an objective of 200000 ticks, the checker says None"),
        ({"solution": {"chips": [0, 1]}}, "the checker says None"),
    ],
)
def test_forged_results_are_named_and_not_shown(runs: Path, changes: dict[str, Any], words: str) -> None:
    forge(runs / "bad", **changes)
    good, bad = collect(runs)
    assert good.result is not None and good.path.name == "good"
    assert bad.result is None and words in bad.problem
    assert all(entry.result is not None for entry in collect(runs, trust=True))


def test_check_says_where_a_result_differs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forge(runs / "bad", gap=0.001)
    for name, code in (("good", 0), ("bad", 4)):
        assert main(["check", str(runs / name), str(runs / name / "result.json")]) == code
        assert ("claims a gap" in capsys.readouterr().out) == (name == "bad")
    other = runs.parent / "other.json"
    other.write_bytes(chain(name="ring/other").to_json())
    assert main(["check", str(other), str(runs / "good")]) == 4
    assert "it is of another instance" in capsys.readouterr().out


def test_what_has_passed_is_not_checked_again(runs: Path, remembered: Path) -> None:
    collect(runs)
    assert len(list(remembered.iterdir())) == 1
    forge(runs / "good", gap=0.001)
    assert collect(runs)[0].result is None
    assert len(list(remembered.iterdir())) == 1


@pytest.mark.parametrize("name", ["/etc/hostname", "../good/result.json", "..", ""])
def test_names_outside_the_archive_are_refused(runs: Path, name: str) -> None:
    forge(runs / "bad")
    about = json.loads((runs / "bad" / "environment.json").read_text())
    about["files"][name] = [1, "0"]
    (runs / "bad" / "environment.json").write_text(json.dumps(about))
    assert "no plain file" in collect(runs)[1].problem


@pytest.mark.parametrize("kind", ["link", "pipe", "device"])
def test_links_pipes_and_devices_are_refused(runs: Path, tmp_path: Path, kind: str) -> None:
    target = runs / "bad"
    forge(target)
    (target / "trace.csv").unlink()
    if kind == "pipe":
        os.mkfifo(target / "trace.csv")
    else:
        (target / "trace.csv").symlink_to("/dev/zero" if kind == "device" else runs / "good" / "trace.csv")
    assert "no plain file" in collect(runs)[1].problem
    (target / "environment.json").unlink()
    os.mkfifo(target / "environment.json")
    assert "environment.json is missing" in collect(runs)[1].problem


def test_a_newer_archive_hides_nothing(runs: Path) -> None:
    forge(runs / "newer", schema="result/9")
    forge(runs / "odd", trace=7)
    assert [entry.result is not None for entry in collect(runs)] == [True, False, False]
    assert archive.load(runs / "good").result.status == "feasible"
