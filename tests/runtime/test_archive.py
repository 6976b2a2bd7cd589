"""The archive: whole or not an archive at all, and never at the cost of an older one."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import chipmap
from chipmap import archive
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.records import InputError
from chipmap.result import Note, Result
from chipmap.run import SolveOptions
from chipmap.validation.ring.checker import check

ENVIRONMENT = {"chipmap": "0", "versions": {}}


@pytest.fixture
def result(instance: RingInstance) -> Result:
    return chipmap.solve(instance, "improve", SolveOptions(warm_start="none"))


def write(target: Path, result: Result, instance: RingInstance, **files: bytes) -> Path:
    return archive.Writer(target).finish(result, instance, files, ENVIRONMENT)


def test_round_trip(tmp_path: Path, result: Result, instance: RingInstance) -> None:
    target = write(tmp_path / "deep" / "run", result, instance, mapping=b"a,b\n")
    assert archive.load(target).result == result
    assert chipmap.read(target) == instance
    assert chipmap.check(target, target) == result.certificate
    assert sorted(path.name for path in target.iterdir()) == sorted(
        ["instance.json", "result.json", "solution.json", "solver.log", "trace.csv", "environment.json", "mapping"]
    )
    assert os.listdir(target.parent) == ["run"]
    trace = (target / "trace.csv").read_text().splitlines()
    assert trace[0] == "seconds,event,source,value,incumbent,bound,unit"
    assert len(trace) == 1 + len(result.trace)


def test_the_best_solution_so_far_is_on_disk(tmp_path: Path, instance: RingInstance) -> None:
    writer = archive.Writer(tmp_path / "run")
    for used in (1, 2, 3):
        writer.solution(RingSolution(chips=tuple(v * used // 60 for v in range(60))))
        on_disk = RingSolution.read(tmp_path / "run.partial" / "solution.json")
        assert check(instance, on_disk).figures["chips_used"] == used
    with pytest.raises(InputError, match="unfinished archive"):
        archive.load(tmp_path / "run.partial")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "name", ["environment.json", "result.json", "solution.json", "instance.json", "trace.csv", "solver.log"]
)
def test_an_archive_without_one_of_its_files_is_refused(
    tmp_path: Path, result: Result, instance: RingInstance, name: str
) -> None:
    target = write(tmp_path / "run", result, instance)
    (target / name).unlink()
    with pytest.raises(InputError, match=f"{name} is missing"):
        archive.load(target)


@pytest.mark.parametrize("name", ["environment.json", "result.json", "solution.json", "instance.json"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_an_archive_with_half_a_file_is_refused(
    tmp_path: Path, result: Result, instance: RingInstance, name: str, share: float
) -> None:
    target = write(tmp_path / "run", result, instance)
    data = (target / name).read_bytes()
    (target / name).write_bytes(data[: int(len(data) * share)])
    with pytest.raises(InputError, match="damaged archive"):
        archive.load(target)


def test_a_writer_cut_off_at_any_call_leaves_the_old_archive_or_the_new_one(
    tmp_path: Path, result: Result, instance: RingInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The k-th rename (every file ends with one, and so does the whole) never happens, for all k."""
    target = write(tmp_path / "run", result.replace(method="old"), instance)
    real_replace, real_rename = os.replace, os.rename
    outcomes = []
    for cut in range(20):
        calls = iter(range(1000))

        def guarded(move, source, to, cut=cut, calls=calls):  # type: ignore[no-untyped-def]
            if next(calls) >= cut:
                raise KeyboardInterrupt
            move(source, to)

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", lambda a, b: guarded(real_replace, a, b))
            patch.setattr(os, "rename", lambda a, b: guarded(real_rename, a, b))
            with suppress(KeyboardInterrupt):
                write(target, result.replace(method=f"new {cut}"), instance)
        archive.Writer(target).abandon()  # the next run puts right what the last one left
        outcomes.append(archive.load(target).result.method)
        if outcomes[-1] == f"new {cut}":
            break
    assert set(outcomes[:-1]) == {"old"}
    assert len(outcomes) > 5


def test_a_new_archive_replaces_an_old_one_and_keeps_what_others_put_there(
    tmp_path: Path, result: Result, instance: RingInstance
) -> None:
    target = write(tmp_path / "run", result.replace(method="old"), instance, extra=b"old")
    (target / "plot.svg").write_text("mine")
    write(target, result.replace(method="new"), instance)
    assert archive.load(target).result.method == "new"
    assert (target / "plot.svg").read_text() == "mine"
    assert not (target / "extra").exists()
    assert os.listdir(tmp_path) == ["run"]


def test_foreign_directories_are_never_touched(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    for target in (mine, mine / "thesis.tex", tmp_path / "x.partial"):
        with pytest.raises(InputError):
            archive.Writer(target)
    assert (mine / "thesis.tex").read_text() == "years of work"


def test_two_runs_do_not_share_a_directory(tmp_path: Path) -> None:
    held = archive.Writer(tmp_path / "run")
    code = "import sys; from chipmap import archive; archive.Writer(sys.argv[1])"
    command = [sys.executable, "-c", code, str(tmp_path / "run")]
    second = subprocess.run(command, capture_output=True, text=True)
    assert "another run is writing there" in second.stderr
    held.abandon()
    assert subprocess.run(command, capture_output=True).returncode == 0


def cut_off(target: Path, used: int = 2) -> RingSolution:
    """What a run that was killed leaves: its best solution so far, which is returned."""
    solution = RingSolution(chips=tuple(v * used // 60 for v in range(60)))
    writer = archive.Writer(target)
    writer.solution(solution)
    del writer
    return solution


def test_the_best_solution_of_a_killed_run_stays_beside_the_next_archive(
    tmp_path: Path, result: Result, instance: RingInstance
) -> None:
    solutions = [cut_off(tmp_path / "run", used) for used in (2, 3)]
    archive.Writer(tmp_path / "run").abandon()  # a command that fails at once
    unsolved = result.replace(solution=None, certificate=None, objective=None, gap=None, status="unknown")
    target = write(tmp_path / "run", unsolved, instance)
    assert [RingSolution.read(target / f"earlier-{number}.json") for number in (1, 2)] == solutions
    assert not (target / "solution.json").exists()
    assert archive.load(target).result.status == "unknown"
    with pytest.raises(InputError, match=r"result.json: this result holds no solution"):
        chipmap.check(target, target)


def test_what_a_run_has_started_from_is_not_kept(tmp_path: Path, result: Result, instance: RingInstance) -> None:
    cut_off(tmp_path / "run")
    writer = archive.Writer(tmp_path / "run")
    assert [path.name for path in writer.earlier] == ["earlier-1.json"]
    writer.superseded = True
    target = writer.finish(result, instance, {}, ENVIRONMENT)
    assert not list(target.glob("earlier*"))
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("ending", ["partial", "replaced"])
def test_a_users_own_directories_beside_the_archive_are_never_touched(
    tmp_path: Path, result: Result, instance: RingInstance, ending: str
) -> None:
    mine = tmp_path / f"run.{ending}"
    mine.mkdir()
    (mine / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=f"run.{ending}: holds something else"):
        archive.Writer(tmp_path / "run")
    elsewhere = mine.rename(tmp_path / "elsewhere")
    mine.symlink_to(elsewhere)
    with pytest.raises(InputError, match=f"run.{ending}: isn't a directory"):
        archive.Writer(tmp_path / "run")
    assert (elsewhere / "thesis.tex").read_text() == "years of work"
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", f"run.{ending}"]


def test_the_lock_is_held_until_the_archive_has_its_name(
    tmp_path: Path, result: Result, instance: RingInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "run", result.replace(method="old"), instance)
    writer, refused, rename = archive.Writer(tmp_path / "run"), list[str](), os.rename

    def meanwhile(source: Path, to: Path) -> None:
        if Path(source) == writer.partial:
            with pytest.raises(InputError, match="another run is writing there"):
                archive.Writer(tmp_path / "run")
            refused.append(str(to))
        rename(source, to)

    monkeypatch.setattr(os, "rename", meanwhile)
    writer.finish(result.replace(method="new"), instance, {}, ENVIRONMENT)
    assert refused == [str(tmp_path / "run")]
    assert archive.load(tmp_path / "run").result.method == "new"


def test_the_manifest_tells_sizes_and_hashes(tmp_path: Path, result: Result, instance: RingInstance) -> None:
    target = write(tmp_path / "run", result, instance)
    listed = json.loads((target / "environment.json").read_text())["files"]
    assert {name: size for name, (size, _) in listed.items()} == {
        path.name: path.stat().st_size for path in target.iterdir() if path.name != "environment.json"
    }


def test_archives_from_before_notes_had_kinds_are_read(tmp_path: Path, result: Result, instance: RingInstance) -> None:
    """Their notes were sentences; what stands in them is kept, and shown as any other note is."""
    noted = result.replace(notes=(Note(kind="solver", text="mip: warm start accepted"),))
    target = write(tmp_path / "run", noted, instance)
    plain = json.loads((target / "result.json").read_text())
    plain["notes"] = [note["text"] for note in plain["notes"]]
    old = json.dumps(plain).encode()
    (target / "result.json").write_bytes(old)
    about = json.loads((target / "environment.json").read_text())
    about["files"]["result.json"] = [len(old), hashlib.sha256(old).hexdigest()]
    (target / "environment.json").write_text(json.dumps(about))
    read = archive.load(target).result
    assert read == noted.replace(notes=(Note(kind="older", text="mip: warm start accepted"),))
    assert Result.from_json(read.to_json()) == read
    plain["notes"] = [7]
    with pytest.raises(InputError, match="notes"):
        Result.from_json(json.dumps(plain).encode())
