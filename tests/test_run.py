"""Run: one incumbent by the checker's word, bounds that may not contradict it, a gap that is never a wrong number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import chipmap
from chipmap.certificate import Certificate
from chipmap.deadline import Stop
from chipmap.records import ContradictionError, InputError, Record
from chipmap.result import Infeasibility, gap, integer_bound
from chipmap.run import Run, SolveOptions


class Answer(Record, frozen=True, kw_only=True):
    """A solution that the checker below values at ``value`` and accepts if it is ``valid``."""

    value: int
    valid: bool = True


def check(instance: Any, answer: Answer) -> Certificate:
    return Certificate(
        instance_hash="i", solution_hash=answer.content_hash, feasible=answer.valid, objective=answer.value
    )


def new_run(**options: Any) -> Run:
    return Run(Answer(value=0), SolveOptions.make(**options), check)


def shortage() -> Infeasibility:
    return Infeasibility(label="C4", resource="SRAM", demand=3, limit=2, unit="bytes", message="1 byte short")


def test_the_best_solution_by_the_checker_wins() -> None:
    run = new_run()
    for value, valid in ((70, True), (60, False), (80, True), (50, True)):
        certificate = run.solution(Answer(value=value, valid=valid), f"source {value}", claimed=1.0)
        assert certificate.feasible == valid
    assert run.upper == 50 and run.best is not None and run.best.source == "source 50" and run.best.claimed == 1.0
    assert [source for source, _ in run.rejected] == ["source 60"]
    assert [(event.event, event.value) for event in run.trace] == [("solution", 70), ("solution", 50)]


def test_a_solution_without_an_objective_is_no_incumbent() -> None:
    run = Run(Answer(value=0), SolveOptions(), lambda i, s: check(i, s).replace(objective=None))
    run.solution(Answer(value=1), "x")
    assert run.best is None and len(run.rejected) == 1 and run.gap is None


def test_bounds_are_a_list_and_the_highest_counts() -> None:
    run = new_run()
    for value in (3, 9, 5):
        run.bound(value, f"bound {value}")
    assert [bound.value for bound in run.bounds] == [3, 9, 5]
    assert run.lower is not None and run.lower.source == "bound 9"
    assert [event.value for event in run.trace] == [3, 9], "the trace tells improvements only"


@pytest.mark.parametrize("first", ["solution", "bound"])
def test_a_bound_far_above_a_solution_is_a_contradiction(first: str) -> None:
    run = new_run()
    steps = [lambda: run.solution(Answer(value=1_000_000), "s"), lambda: run.bound(1_000_002, "b")]
    steps = steps if first == "solution" else steps[::-1]
    steps[0]()
    with pytest.raises(ContradictionError, match="1000002") as caught:
        steps[1]()
    assert caught.value.exit_code == 4


def test_a_bound_within_the_tolerance_is_clipped() -> None:
    run = new_run()
    run.solution(Answer(value=1_000_000), "s")
    run.bound(1_000_001, "b")
    assert run.lower is not None and run.lower.value == 1_000_000
    assert run.gap == 0.0 and run.closed and run.terminate().reason == "optimal"


def test_a_solution_just_below_a_bound_closes_the_gap_too() -> None:
    run = new_run()
    run.bound(1_000_001, "b")
    run.solution(Answer(value=1_000_000), "s")
    assert run.gap is not None and run.gap <= 0.0 and run.closed
    assert run.terminate().reason == "optimal"


def test_infeasibility_and_a_solution_contradict_each_other() -> None:
    run = new_run()
    run.solution(Answer(value=1), "s")
    with pytest.raises(ContradictionError, match="1 byte short"):
        run.infeasible(shortage())
    assert run.proved_infeasible and run.best is not None  # both are kept: the status is an error
    other = new_run()
    other.infeasible(shortage())
    assert other.closed and other.terminate().reason == "infeasible" and len(other.infeasibility) == 1
    with pytest.raises(ContradictionError):
        other.solution(Answer(value=1), "s")


def test_a_note_is_said_once_and_keeps_its_kind_and_numbers() -> None:
    run = new_run()
    for seconds in (1, 1, 2):
        run.note("search", f"{seconds} s", seconds=seconds)
    run.note("start", "1 s", seconds=1)
    assert [(note.kind, note.text, note.data) for note in run.notes] == [
        ("search", "1 s", {"seconds": 1}),
        ("search", "2 s", {"seconds": 2}),
        ("start", "1 s", {"seconds": 1}),
    ]


@pytest.mark.parametrize(
    ("objective", "bound", "expected"),
    [(None, None, None), (None, 3, None), (3, None, None), (0, -1, None), (0, 0, 0.0), (100, 90, 0.1), (-4, -6, 0.5)],
)
def test_gap(objective: int | None, bound: int | None, expected: float | None) -> None:
    assert gap(objective, bound) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(99.2, 100), (99.99999, 100), (100.00003, 100), (100.9, 101), (0, 0), (1e6, 10**6), (987654321.0, 987654321)],
)
def test_integer_bound_rounds_up_after_a_margin(value: float, expected: int) -> None:
    assert integer_bound(value) == expected


def test_a_run_stops_at_the_gap_the_user_asked_for() -> None:
    run = new_run(gap=0.1)
    run.solution(Answer(value=100), "s")
    run.bound(89, "b")
    assert run.keep_going() and not run.closed
    run.checkpoint()
    run.bound(90, "b")
    assert run.closed and not run.keep_going()
    with pytest.raises(Stop) as caught:
        run.checkpoint()
    assert caught.value.limit == "gap"
    assert run.terminate("gap").reason == "feasible", "within the gap asked for, but not proved optimal"


def test_a_run_stops_at_the_deadline_and_when_interrupted() -> None:
    late = new_run(time_limit=1.0)
    assert 0 < late.remaining <= 1.0
    late.started -= 2.0
    assert late.remaining == 0.0
    with pytest.raises(Stop, match="time"):
        late.checkpoint()
    assert late.terminate("time").reason == "no_solution_found" and late.terminate("time").limit == "time"
    stopped = new_run()
    stopped.interrupted = True
    with pytest.raises(Stop, match="interrupted"):
        stopped.checkpoint()
    assert new_run().remaining == float("inf")


@pytest.mark.parametrize(("deterministic", "expected"), [(True, 40.0), (False, 8.0)])
def test_a_part_of_a_deterministic_run_has_its_share_whatever_the_clock_has_left(
    deterministic: bool, expected: float
) -> None:
    run = new_run(time_limit=100.0, deterministic=deterministic)
    run.started -= 80.0
    turn = run.deadline.share(0.8).share(0.5)
    inner = run.inner(Answer(value=0), turn)
    assert inner.options.time_limit == pytest.approx(expected, abs=5.0)
    if deterministic:
        again = inner.inner(Answer(value=0), inner.deadline.share(0.5)).options
        assert (inner.options.time_limit, again.time_limit) == (40.0, 20.0)
        assert run.inner(Answer(value=0)).options.time_limit == 100.0
    assert inner.deadline.seconds <= 20.0


def test_the_listener_hears_every_improvement_with_both_sides() -> None:
    heard: list[tuple[str, int, int | None, int | None]] = []
    run = new_run()
    run.listener = lambda event, run: heard.append((event.event, event.value, event.incumbent, event.bound))
    run.bound(5, "b")
    run.solution(Answer(value=9), "s")
    run.bound(4, "b")
    run.bound(9, "b")
    assert heard == [("bound", 5, None, 5), ("solution", 9, 9, 5), ("bound", 9, 9, 9)]


@pytest.mark.parametrize(
    "options",
    [{"time_limit": 0.0}, {"time_limit": -1.0}, {"threads": 0}, {"memory_limit": 0}, {"gap": 1.0}, {"gap": -0.1}],
)
def test_limits_that_make_no_sense(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="--"):
        SolveOptions.make(**options).check()
    SolveOptions(time_limit=0.1, threads=1, gap=0.0).check()


def test_options_by_name_and_a_result_that_reads() -> None:
    result = chipmap.solve("ring/tiny-skip", "greedy", time_limit=20, seed=3)
    assert result.provenance["options"]["seed"] == 3
    assert (result.value, result.unit) == (9.0, "us")
    assert result.lower is not None and result.lower <= 9.0
    assert repr(result).startswith("<Result ring/tiny-skip: ") and "9 us" in repr(result)
    assert "<td>9 us</td>" in result._repr_html_()
    with pytest.raises(InputError, match="Did you mean time_limit"):
        chipmap.solve("ring/tiny-skip", timelimit=5)  # type: ignore[call-arg]
    evil = result.replace(instance="<script>")
    assert "<script>" not in evil._repr_html_()


def test_a_result_says_where_and_how_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processor, cores, load, threads, commit, command, and what ran compiled; no folder of this machine."""
    from chipmap import provenance

    monkeypatch.setattr(provenance, "COMMAND", ["solve", "/home/me/own.json", "--set=a=~/b.json", "--out", "runs/one"])
    found = chipmap.solve("ring/tiny-skip", threads=3).provenance
    machine = found["machine"]
    assert machine["processor"] and 1 <= machine["cores"] <= machine["cores_of_machine"] and machine["load"] >= 0
    assert machine["threads"] == 3 and found["command"] == "chipmap solve own.json --set=a=b.json --out runs/one"
    compiled = {"when": "background", "functions": 0, "seconds": 0, "waited": []}
    assert machine["compiled"] == compiled | {"plain": ["first mapping", "short calls"]}
    assert chipmap.solve("ring/tiny-skip", deterministic=True).provenance["machine"]["threads"] == 1


def test_the_commit_of_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a checkout, of another work tree of it, with its name packed or not; none outside of one."""
    from chipmap import provenance

    def commit() -> str:
        provenance.commit.cache_clear()
        return provenance.commit()

    root, git, tree = tmp_path / "root", tmp_path / "root" / ".git", tmp_path / "root" / ".git" / "worktrees" / "one"
    tree.mkdir(parents=True)
    monkeypatch.setattr(provenance, "__file__", str(root / "chipmap" / "provenance.py"))
    assert commit() == ""
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "packed-refs").write_text("# pack-refs\nabc refs/heads/main\n")
    assert commit() == "abc"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "refs" / "heads" / "main").write_text("def\n")
    assert commit() == "def"
    (tree / "HEAD").write_text("ref: refs/heads/main\n")
    (tree / "commondir").write_text("../..\n")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / ".git").write_text(f"gitdir: {tree}\n")
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "one" / "chipmap" / "provenance.py"))
    assert commit() == "def"
    (tree / "HEAD").write_text("0123\n")
    assert commit() == "0123"
    provenance.commit.cache_clear()
