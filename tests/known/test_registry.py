"""Entries: the hash decides, the checker has the last word, the better value and the better bound stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks import best_known
from benchmarks.best_known import LIMITS, merge, run, submit
from chipmap.bench.point import Row, solve_point
from chipmap.bench.submit import submission
from chipmap.bench.sweep import Point, points
from chipmap.cli import main
from chipmap.inputs.reading import read
from chipmap.known import compare
from chipmap.known.compare import Comparison, compared, told
from chipmap.known.records import Entries, Entry, Reported, Source
from chipmap.known.registry import entries_of, known, merged, packed, refuted, solution_of
from chipmap.records import InputError, Record
from chipmap.result import Result
from chipmap.solve import solve
from tests.bench.samples import tiny

SKIP = "ring/tiny-skip"


def entry_of(name: str = SKIP, **changes: Any) -> Entry:
    """The shipped entry, with its solution, changed."""
    entry = known(read(name))
    assert entry is not None
    return msgspec.structs.replace(entry, solution=solution_of(entry), **changes)


@pytest.fixture(scope="module")
def solved() -> Result:
    return solve(SKIP, "ring/exact", time_limit=60)


@pytest.fixture(scope="module")
def found() -> tuple[list[Point], list[Row]]:
    """Six points of a sweep, of which two are infeasible, and their rows."""
    todo = points(tiny())
    return todo, [solve_point(point) for point in todo]


def test_the_hash_decides() -> None:
    """A changed instance has the name of a shipped one, and no entry."""
    assert known(read(SKIP)) is not None
    changed = read(SKIP, ["package.chips=2"])
    assert getattr(changed, "name", "") == SKIP and known(changed) is None


def test_instances_of_the_same_name_live_side_by_side(found: tuple[list[Point], list[Row]], tmp_path: Path) -> None:
    entries = submission(*found).entries
    assert {entry.instance for entry in entries.entries} == {"dataflow/tiny-chain"}
    assert len({entry.instance_hash for entry in entries.entries}) == len(entries.entries) == 5
    (tmp_path / "better.json").write_bytes(entries.to_json())
    assert merge([str(tmp_path / "better.json")], tmp_path / "values") == 5
    kept = entries_of("dataflow", tmp_path / "values")
    for entry in entries.entries:
        assert refuted(kept[entry.instance_hash], tmp_path / "values") == ""
        assert solution_of(kept[entry.instance_hash], tmp_path / "values") == entry.solution


def test_the_same_entries_make_the_same_files() -> None:
    entries = [entry_of(name) for name in (SKIP, "ring/tiny-chain", "ring/tiny-infeasible")]
    assert packed(entries) == packed(entries[::-1])
    assert Entries.from_json(packed(entries)[0]).entries[0].solution is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"objective": 899_999, "bound": 5}, "the checker says 900000, the entry 899999"),
        ({"bound": 900_001}, "lies above its value"),
        ({"solution": {"chips": [0, 2, 1, 2, 2]}}, "the checker"),
        ({"instance_hash": "0" * 64}, "makes another instance"),
        ({"family": "wafer"}, "makes another instance"),
        ({"unit": {"name": "s", "per_tick": 1e-5}}, "its unit is"),
        ({"found": None}, "without a source"),
        ({"proved": None}, "without a source"),
        ({"infeasible": True}, "and yet has a value"),
        ({"objective": None, "found": None, "bound": None, "infeasible": True}, ""),
    ],
)
def test_what_is_wrong_is_refuted(changes: dict[str, Any], words: str) -> None:
    plain = json.loads(entry_of().to_json()) | json.loads(msgspec.json.encode(changes))
    wrong = refuted(Entry.from_json(json.dumps(plain)))
    assert words in wrong and (words == "") == (wrong == "")


def test_a_value_needs_a_solution(tmp_path: Path) -> None:
    assert refuted(msgspec.structs.replace(entry_of(), solution=None), tmp_path) == "it has a value and no solution"


def test_the_better_value_and_the_better_bound_stay() -> None:
    one, other = Source(publication="one"), Source(publication="other")
    old = entry_of(objective=90, bound=50, found=one, proved=one)
    assert merged(None, old) == old and merged(old, old) == old
    better = merged(old, msgspec.structs.replace(old, objective=80, bound=40, found=other, proved=other))
    assert (better.objective, better.found, better.bound, better.proved) == (80, other, 50, one)
    tighter = merged(old, msgspec.structs.replace(old, objective=90, bound=60, found=other, proved=other))
    assert (tighter.objective, tighter.found, tighter.bound, tighter.proved) == (90, one, 60, other)
    nothing: dict[str, Any] = {"objective": None, "found": None, "bound": None, "proved": None}
    lone = msgspec.structs.replace(old, **nothing | {"bound": 70, "proved": other})
    assert (merged(old, lone).objective, merged(old, lone).bound) == (90, 70)
    closed = msgspec.structs.replace(old, **nothing | {"infeasible": True, "proved": other})
    bare = msgspec.structs.replace(old, **nothing | {"bound": 5, "proved": one})
    assert merged(bare, closed).infeasible and merged(bare, closed).bound is None


def test_contradictions_are_refused() -> None:
    old = entry_of()
    lower = msgspec.structs.replace(old, objective=1, bound=None, proved=None)
    closed = msgspec.structs.replace(old, objective=None, found=None, bound=None, infeasible=True)
    for one, two in ((old, lower), (lower, old), (old, closed), (closed, old)):
        with pytest.raises(InputError, match="contradict each other"):
            merged(one, two)


def test_a_sweep_submits_what_is_new(found: tuple[list[Point], list[Row]]) -> None:
    todo, rows = found
    new = submission(todo, rows)
    assert (len(new.entries.entries), new.equal, new.refused) == (5, 1, ()), "one of the six is the shipped instance"
    assert sum(entry.infeasible for entry in new.entries.entries) == 2
    twice = submission(todo * 2, rows * 2)
    assert twice.entries == new.entries and twice.equal == 7
    plain = points(tiny(axes=[]))
    assert submission(plain, [solve_point(point) for point in plain]).equal == 1, "the registry knows the shipped one"


def test_no_row_is_believed(found: tuple[list[Point], list[Row]]) -> None:
    todo, rows = found
    at = next(i for i, row in enumerate(rows) if row.objective is not None)
    edited = rows[at].replace(objective=(rows[at].objective or 0) - 1, bound=1)
    (said,) = submission([todo[at]], [edited]).refused
    assert "the checker says" in said


def test_instances_from_files_are_not_taken(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(read(SKIP, ["package.chips=2"]).to_json())
    todo = points(tiny(instance=str(path), axes=[]))
    (said,) = submission(todo, [solve_point(point) for point in todo]).refused
    assert "made from a file" in said


def test_a_result_beside_the_registry(solved: Result) -> None:
    one = compared(solved)
    assert one is not None and one.above == 0.0 and not one.impossible
    assert told(one, "9 us", "0%") == ["equals best known, which is proved optimal"]


@pytest.mark.parametrize(
    ("of_result", "of_entry", "words", "above", "impossible"),
    [
        ({"bound": 1}, {"objective": 450_000, "bound": 1}, "100% above best known", 1.0, False),
        ({"objective": 900_000, "bound": 1}, {"objective": 1_800_000, "bound": 1}, "improves the best", -0.5, False),
        ({"objective": None, "bound": 7}, {"bound": 5}, "improves the best known bound", None, False),
        ({"objective": 900_000}, {"objective": 950_000, "bound": 940_000}, "contradicts", None, True),
        ({"objective": None, "bound": 900_100}, {}, "contradicts", None, True),
        ({"objective": None, "bound": None, "status": "infeasible"}, {}, "contradicts", None, True),
        ({}, {"objective": None, "bound": None, "infeasible": True}, "contradicts", None, True),
    ],
)
def test_better_worse_or_impossible(
    solved: Result,
    of_result: dict[str, Any],
    of_entry: dict[str, Any],
    words: str,
    above: float | None,
    impossible: bool,
) -> None:
    result = msgspec.structs.replace(solved, **of_result)
    one = Comparison(result, msgspec.structs.replace(entry_of(), **of_entry))
    assert one.impossible == impossible and words in told(one, "1 us", "100%")[0]
    if not impossible:
        assert one.above == above


def test_a_better_value_that_is_only_reported_is_named(solved: Result) -> None:
    """Such a result improves a solution, but not all that is known."""
    said = Reported(ticks=700_000, page="results/a.md")
    entry = entry_of(objective=1_800_000, bound=1, reported=said, reported_bound=Reported(ticks=1_000_000, page="b.md"))
    ours = msgspec.structs.replace(solved, bound=2)
    assert told(Comparison(ours, entry), "18 us", "50%", "7 us") == [
        "improves the best known solution, 18 us, by 50%; 7 us is reported without a solution (results/a.md)",
        f"improves the best known bound, by {entry.proved}; b.md reports a better one",
    ]
    equal = Comparison(ours, msgspec.structs.replace(entry, objective=900_000, bound=2))
    assert told(equal, "9 us", "0%", "7 us") == [
        "equals the best known solution; 7 us is reported without a solution (results/a.md)"
    ]
    worse = Comparison(ours, msgspec.structs.replace(entry, objective=800_000, bound=2))
    (line,) = told(worse, "8 us", "12.5%", "7 us")
    assert line.startswith("12.5% above best known, 8 us by ") and "7 us is reported" in line
    reached = Comparison(ours, msgspec.structs.replace(entry, reported=Reported(ticks=900_000, page="a.md"), bound=2))
    assert told(reached, "18 us", "50%", "9 us") == ["improves the best known value, 18 us, by 50%"]


def test_what_is_reported_goes_once_it_is_reached() -> None:
    said = Reported(ticks=80, page="a.md")
    old = entry_of(objective=90, bound=50, reported=said, reported_bound=Reported(ticks=60, page="b.md"))
    for objective, bound, left in ((85, 55, (True, True)), (80, 60, (False, False)), (79, 50, (False, True))):
        whole = merged(old, msgspec.structs.replace(entry_of(), objective=objective, bound=bound))
        assert (whole.reported is not None, whole.reported_bound is not None) == left


def test_a_constraint_of_the_users_own_makes_it_another_problem(solved: Result) -> None:
    assert compared(msgspec.structs.replace(solved, provenance={"oracle": {"name": "m:f"}})) is None


def test_the_command_line_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["solve", SKIP, "--method", "ring/exact", "--quiet", "--format", "json", "--out", str(tmp_path / "runs")]
    assert main(line) == 0
    said = capsys.readouterr()
    assert f"{SKIP}: equals best known, which is proved optimal\n" in said.err
    row = json.loads(said.out)
    assert (row["best_known"], row["best_known_bound"], row["above_best_known"]) == (9.0, 9.0, 0.0)
    assert main(["info", SKIP, "--format", "json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["best_known"] == 9.0 and "chipmap" in figures["found_by"] and "chipmap" in figures["proved_by"]
    assert main(["info", SKIP, "--set", "package.chips=2", "--format", "json"]) == 0
    assert "best_known" not in json.loads(capsys.readouterr().out)
    assert main(["info", "ring/tiny-infeasible"]) == 0
    assert "infeasible" in capsys.readouterr().out
    assert main(["report", str(tmp_path)]) == 0
    assert "above known" in capsys.readouterr().out


def test_a_contradiction_is_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = entry_of(objective=2_000_000, bound=1_000_000)
    monkeypatch.setattr(compare, "look_up", lambda *_: wrong)
    assert main(["solve", SKIP, "--method", "ring/exact", "--quiet"]) == 4
    assert "please report it" in capsys.readouterr().err


def test_results_are_submitted_by_one_function(solved: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert submit([solved], folder=tmp_path) == 0, "the registry knows it"
    worse = entry_of(objective=1_800_000, bound=1)
    monkeypatch.setattr(compare, "look_up", lambda *_: worse)
    assert submit([solved], folder=tmp_path) == 1
    kept = entries_of("ring", tmp_path)[solved.instance_hash]
    assert (kept.objective, kept.bound) == (900_000, 900_000) and refuted(kept, tmp_path) == ""
    assert kept.found is not None and (kept.found.method, kept.found.time_limit_s) == ("ring/exact", 60.0)
    wrong = msgspec.structs.replace(solved, objective=899_999, bound=1)
    with pytest.raises(InputError, match="the checker says 900000"):
        submit([wrong], folder=tmp_path)
    assert submit([msgspec.structs.replace(solved, provenance={"oracle": {"name": "m:f"}})], folder=tmp_path) == 0
    assert submit([msgspec.structs.replace(solved, status="error")], folder=tmp_path) == 0


def test_a_result_of_the_same_instance_from_a_file_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped: Any = read(SKIP)
    mine = solve(shipped.replace(name="mine"), "ring/exact", time_limit=60)
    worse = entry_of(objective=1_800_000, bound=1)
    assert submit([mine], folder=tmp_path) == 0, "nothing is known of that hash"
    monkeypatch.setattr(compare, "look_up", lambda *_: worse)
    assert submit([mine], SKIP, tmp_path) == 1
    with pytest.raises(InputError, match="another instance"):
        submit([mine], "ring/tiny-chain", tmp_path)


def test_runs_are_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked = (tmp_path, [SKIP], [0], dict.fromkeys(LIMITS, 5.0), "exact")
    assert run(*asked, cpu=True) == 0
    assert f"{SKIP}, seed 0: optimal, 9.0 us: nothing new" in capsys.readouterr().out.replace("µs", "us")
    monkeypatch.setattr(best_known, "ProcessPoolExecutor", None)
    assert run(*asked, cpu=True) == 0, "its result is there"


def test_bench_writes_a_file_that_can_be_merged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep, better = tmp_path / "sweep.json", tmp_path / "better.json"
    plain = {"schema": "sweep/1", "name": "two", "instance": SKIP, "set": {"package.hop_ns": 500.0}}
    sweep.write_text(json.dumps(plain | {"methods": ["ring/greedy", "ring/exact"]}))
    line = ["bench", str(sweep), "--out", str(tmp_path / "out"), "--workers", "1", "--submit", str(better)]
    assert main(line) == 0
    assert "1 entry for the registry" in capsys.readouterr().err
    (entry,) = Entries.read(better).entries
    assert entry.optimal and entry.origin.set == {"package.hop_ns": 500.0} and refuted(entry) == ""
    assert isinstance(read(SKIP, ["package.hop_ns=500"]), Record)
    assert entry.instance_hash == read(SKIP, ["package.hop_ns=500"]).content_hash
