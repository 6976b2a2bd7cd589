"""Every error of what reads and writes archives is provoked, and its remedy is followed: it leads on.

One function per error or kind of errors. It hands over what fails, what the remedy says, and what a reader does then,
which succeeds, or fails by another error. That no error is left out is read from the source.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import shlex
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

import chipmap as api
from chipmap import archive
from chipmap.cli import parser
from chipmap.inputs.reading import read
from chipmap.inputs.solutions import read_solution
from chipmap.instances.ring import RingSolution
from chipmap.known.records import Origin
from chipmap.plans.reading import read_plan
from chipmap.records import InputError
from chipmap.report.collect import Entry, collect
from chipmap.result import Result
from tests.wafer import samples

SOURCES = Path(api.__file__).parent
#: All errors of these files are followed.
FILES = (
    "archive.py", "inputs/results.py", "inputs/solutions.py", "plans/reading.py", "report/collect.py", "result.py",
    "cli/emit.py", "cli/report.py", "cli/solve.py",
)  # fmt: skip
INSTANCE, OTHER = "ring/tiny-skip", "ring/tiny-chain"
Deed = Callable[[], object]
#: What fails, a part of the remedy, what it says to do.
Follow = Callable[[Deed, str, Deed], None]
Site = tuple[str, int]


@cache
def result_of(name: str) -> Result:
    """A run in this process."""
    return api.solve(name, "ring/greedy", isolate=False)


def archived(path: Path, name: str = INSTANCE) -> Path:
    """What ``chipmap solve --out`` writes; read back."""
    result_of(name).save(path)
    assert archive.load(path).result.solution is not None
    return path


def in_turn(*deeds: Deed) -> Deed:
    """One thing after the other."""

    def all_of_them() -> None:
        for deed in deeds:
            deed()

    return all_of_them


def command(*words: object) -> None:
    """Run ``chipmap WORDS``; what it refuses is raised. ``explain`` ends with 2 where there is no solution."""
    args = parser().parsed([str(word) for word in words])
    assert args.run(args) == (2 if words[0] == "explain" else 0)


def put(path: Path, text: str | bytes = "years of work") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def cut_off(target: Path, found: bool = True) -> Path:
    """What a run leaves that was killed."""
    writer = archive.Writer(target)
    if found:
        writer.solution(RingSolution.make(**(result_of(INSTANCE).solution or {})))
    del writer
    return target.with_name(f"{target.name}.partial")


def unfinished(folder: Path, follow: Follow, patch: pytest.MonkeyPatch) -> None:
    """A run that was cut off with a solution, without one, between the two renames, and one that goes on."""
    for name, left in (("a", cut_off(folder / "a")), ("b b", cut_off(folder / "b b", found=False))):
        target = folder / name
        follow(partial(archive.load, left), f"--out {shlex.quote(str(target))}`", partial(archived, target))
    left = cut_off(folder / "c")
    follow(lambda: archive.load(left), "Its solution.json", lambda: command("check", INSTANCE, left / "solution.json"))
    whole = archived(folder / "d")
    put(folder / "d.replaced" / ".chipmap", "")
    whole.rename(folder / "d.replaced" / "older")
    follow(lambda: command("check", INSTANCE, folder / "d.replaced"), f"--out {folder / 'd'}`", in_turn(
        lambda: archive.Writer(folder / "d").abandon(), lambda: archive.load(folder / "d")
    ))  # fmt: skip
    writer = archive.Writer(folder / "e")
    follow(lambda: archive.load(folder / "e.partial"), "--out", lambda: archived(folder / "e"))
    follow(lambda: archived(folder / "e"), "give this run another", lambda: archived(folder / "f"))
    follow(lambda: archived(folder / "e"), "Wait for it", in_turn(writer.abandon, lambda: archived(folder / "e")))


def no_archive(folder: Path, follow: Follow, patch: pytest.MonkeyPatch) -> None:
    """A directory above archives, an empty one, a missing one, a file."""
    archived(folder / "runs" / "one")
    (folder / "empty").mkdir()
    one = folder / "runs" / "one"
    for name in ("runs", "empty"):
        follow(partial(command, "check", INSTANCE, folder / name), "of --out", lambda: command("check", one, one))
    follow(lambda: collect(folder / "missing"), "Name a directory", lambda: collect(folder / "runs"))
    follow(lambda: collect(folder / "empty"), "`chipmap solve INSTANCE --out DIR`", lambda: (
        archived(folder / "empty"), collect(folder / "empty")
    ))  # fmt: skip
    for source in ("missing", "runs/one/solution.json"):
        follow(partial(command, "emit", folder / source), "Name the folder", lambda: command("emit", one))


def damaged(folder: Path, follow: Follow, patch: pytest.MonkeyPatch) -> None:
    """A file is missing, changed or no plain one, or the list of files is; a run into the directory mends all but a
    directory without the list, which might be the user's own."""
    run = archived(folder / "run")
    names = ("result.json", "solution.json", "instance.json", "trace.csv", "solver.log")
    for name in names:
        (run / name).unlink()
        follow(lambda: command("check", run, run), "chipmap solve --out", lambda: archived(run))
    put(run / "result.json", "{}")
    follow(lambda: archive.load(run), "chipmap solve --out", lambda: archived(run))
    put(run / "environment.json", "[")
    follow(lambda: archive.load(run), "chipmap solve --out", lambda: archived(run))
    (run / "trace.csv").unlink()
    (run / "trace.csv").symlink_to(run / "solver.log")
    follow(lambda: archive.load(run), "don't trust this one. Run `chipmap solve --out` again", lambda: archived(run))
    about = json.loads((run / "environment.json").read_bytes())
    about["files"]["../thesis.tex"] = [1, "0"]
    put(run / "environment.json", json.dumps(about))
    follow(lambda: archive.load(run), "don't trust this one. Run `chipmap solve --out` again", lambda: archived(run))
    (run / "environment.json").unlink()
    follow(lambda: archive.load(run), "with a new directory", lambda: archived(folder / "new"))
    follow(lambda: archive.load(run), "Run `chipmap solve --out` again", lambda: archived(run))
    follow(lambda: archived(run), "Name a new directory", lambda: archived(folder / "newer"))


def elsewhere(folder: Path, follow: Follow, patch: pytest.MonkeyPatch) -> None:
    """What a run may not write over; "a new directory, or one that an earlier run has written"."""
    earlier = archived(folder / "earlier")
    put(folder / "mine" / "thesis.tex")
    put(folder / "a.partial" / "thesis.tex")
    put(folder / "b.partial")
    put(folder / "c.replaced" / "thesis.tex")
    refused = ("mine", "mine/thesis.tex", "x.partial", "a", "b", "c", "mine/thesis.tex/run")
    for number, name in enumerate(refused):
        for other in (folder / f"new-{number}", earlier):
            follow(partial(archived, folder / name), "Name a new directory", partial(archived, other))
    assert (folder / "mine" / "thesis.tex").read_text() == "years of work"

    long = folder / ("x" * 300)
    follow(lambda: archived(long), "Name another folder", lambda: archived(folder / "short"))

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    patch.setattr(archive, "write_whole", full)
    follow(
        lambda: archived(folder / "run"), "Name another folder", in_turn(patch.undo, lambda: archived(folder / "other"))
    )


def of_another_instance(folder: Path, follow: Follow, patch: pytest.MonkeyPatch) -> None:
    """A solution, a plan and a result of an instance that isn't the one that was named."""
    run, other = archived(folder / "run"), archived(folder / "other", OTHER)
    picture = folder / "a.svg"
    follow(
        lambda: command("plot", OTHER, run, "--out", picture),
        "Name the instance that it was made for (an archive holds it)",
        lambda: command("plot", run, run, "--out", picture),
    )
    plan = put(folder / "plan.csv", result_of(INSTANCE).emit("csv")["plan.csv"])
    put(folder / "plan.plan.json", result_of(INSTANCE).emit("csv")["plan.plan.json"])
    follow(lambda: command("check", OTHER, plan), "the run's archive holds it", lambda: command("check", run, plan))
    follow(lambda: command("check", OTHER, plan), "emit the plan again", in_turn(
        partial(command, "emit", other, "--as", "csv", "--out", folder / "again.csv"),
        partial(command, "check", OTHER, folder / "again.csv"),
    ))  # fmt: skip
    changed = put(folder / "changed.json", read(INSTANCE, ["package.link_bytes_per_ns=7"]).to_json())
    follow(lambda: command("check", changed, plan), "remove plan.plan.json", in_turn(
        (folder / "plan.plan.json").unlink, partial(command, "check", changed, plan)
    ))  # fmt: skip
    row = Entry(folder, result_of(OTHER), of_bench=True, origin=Origin(instance=INSTANCE))
    again = Entry(folder, result_of(INSTANCE), of_bench=True, origin=Origin(instance=INSTANCE))
    follow(row.instance, "Solve the point again.", again.instance)


def plans(folder: Path, follow: Follow, patch: pytest.MonkeyPatch) -> None:
    """A plan in no format, one in a format that isn't read, and one that leaves something open."""
    instance, whole = read(INSTANCE), result_of(INSTANCE).emit("csv")["plan.csv"]
    short = put(folder / "short.csv", "name,chip\na,0\n")
    follow(lambda: read_plan(b"thesis", "a.txt", instance), "--as: ", lambda: read_plan(whole, "a", instance, "csv"))
    follow(lambda: read_plan(whole, "a", instance, "chrome-trace"), "csv", lambda: read_plan(whole, "a", instance))
    follow(lambda: command("check", INSTANCE, short), "let `chipmap adopt INSTANCE PLAN`", lambda: (
        command("adopt", INSTANCE, short, "--time-limit", "4")
    ))  # fmt: skip


def without_solution(folder: Path, follow: Follow, patch: pytest.MonkeyPatch) -> None:
    """The archive of a run that found nothing."""
    result = api.solve("ring/tiny-infeasible", isolate=False)
    none, run = result.save(folder / "none"), archived(folder / "run")
    follow(lambda: command("check", none, none), "Name a result that found one", lambda: command("check", run, run))
    follow(lambda: result.mapping, "`chipmap explain`", lambda: command("explain", none))
    without = api.solve(INSTANCE, "ring/bounds", warm_start="none", isolate=False)
    follow(lambda: without.mapping, "give it more time", lambda: result_of(INSTANCE).mapping)


def of_python(folder: Path, follow: Follow, patch: pytest.MonkeyPatch) -> None:
    """A result without its instance, and a table without pandas."""
    alone = Result.from_json(result_of(INSTANCE).to_json())
    run = archived(folder / "run")
    follow(lambda: alone.mapping, "Take what chipmap.solve returned", lambda: result_of(INSTANCE).mapping)
    follow(lambda: alone.mapping, "chipmap.load(FOLDER).result", lambda: api.load(run).result.mapping)
    patch.setattr(importlib.util, "find_spec", lambda name: None)
    follow(lambda: result_of(INSTANCE).to_frame(), "result.mapping, a dict", lambda: result_of(INSTANCE).mapping)


def instead_of_solutions(folder: Path, follow: Follow, patch: pytest.MonkeyPatch) -> None:
    """An instance in place of a solution, and a file of the field's own for another family or without its instance."""
    run = archived(folder / "run")
    swapped = "chipmap check INSTANCE SOLUTION"
    follow(lambda: command("check", run, run / "instance.json"), swapped, lambda: (
        command("check", run / "instance.json", run / "solution.json")
    ))  # fmt: skip
    graph, paint = put(folder / "a.kgraph", samples.SMALL), put(folder / "a.paint", samples.TEXT)
    wafer, ring = api.get_family("wafer"), api.get_family("ring")
    instance = samples.INSTANCE
    follow(lambda: read_solution(graph, wafer, instance), swapped, lambda: read_solution(paint, wafer, instance))
    follow(lambda: read_solution(paint, wafer), "Give the instance as well", lambda: (
        read_solution(paint, wafer, instance)
    ))  # fmt: skip
    follow(lambda: read_solution(paint, ring), "Give one of family 'ring'", lambda: read_solution(run, ring))


def options(folder: Path, follow: Follow, patch: pytest.MonkeyPatch) -> None:
    """Options of commands that read archives, and of those that write them."""
    run = archived(folder / "run")
    follow(lambda: command("emit", run, "--out", folder / "x.csv"), "--as", lambda: (
        command("emit", run, "--as", "csv", "--out", folder / "x.csv")
    ))  # fmt: skip
    follow(lambda: several_files(run, patch), "name a folder", lambda: several_files(run, patch, folder / "files"))
    picture = folder / "a.svg"
    follow(lambda: command("solve", INSTANCE, OTHER, "--plot", picture), "Use --out, then `chipmap plot`", in_turn(
        partial(command, "solve", INSTANCE, OTHER, "--method", "greedy", "--out", folder / "all", "--quiet"),
        partial(command, "plot", INSTANCE, folder / "all" / "ring-tiny-skip", "--out", picture),
        partial(command, "plot", OTHER, folder / "all" / "ring-tiny-chain", "--out", picture),
    ))  # fmt: skip
    missing = folder / "none"
    follow(lambda: command("solve", INSTANCE, "--plot", missing / "a.svg"), "Make the folder", in_turn(
        missing.mkdir,
        partial(command, "solve", INSTANCE, "--method", "greedy", "--plot", missing / "a.svg", "--quiet"),
    ))  # fmt: skip


def several_files(run: Path, patch: pytest.MonkeyPatch, out: object = "-") -> None:
    """``emit`` of a format of several files, which needs an extra: of two tables in its place."""
    patch.setattr(Result, "emit", lambda self, name, model="": {"plan.csv": b"name", "script.py": b"pass"})
    command("emit", run, "--as", "csv", "--out", out)
    patch.undo()


CASES = (
    unfinished, no_archive, damaged, elsewhere, of_another_instance, plans, without_solution, of_python,
    instead_of_solutions, options,
)  # fmt: skip


def sites() -> set[Site]:
    """(file, line) of every InputError that is raised in :data:`FILES`."""
    return {
        (name, node.lineno)
        for name in FILES
        for node in ast.walk(ast.parse((SOURCES / name).read_text(encoding="utf-8")))
        if isinstance(node, ast.Raise) and "InputError(" in ast.unparse(node)
    }


def raised_at(error: BaseException) -> Site:
    """The file and the line that raised it."""
    trace: TracebackType | None = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    assert trace is not None
    file = Path(trace.tb_frame.f_code.co_filename)
    return (file.relative_to(SOURCES).as_posix() if file.is_relative_to(SOURCES) else file.name, trace.tb_lineno)


def test_every_remedy_leads_on_and_no_error_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = set[Site]()

    def follow(ask: Deed, said: str, then: Deed) -> None:
        with pytest.raises(InputError) as refused:
            ask()
        assert said in refused.value.remedy, refused.value
        seen.add(raised_at(refused.value))
        try:
            then()
        except InputError as error:
            assert error.what != refused.value.what, f"in a circle: {error}"
            assert raised_at(error) != raised_at(refused.value), error

    for case in CASES:
        folder: Any = tmp_path / case.__name__
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            case(folder, follow, patch)
    left = sites() - seen
    assert not left, f"followed {len(seen & sites())} of {len(sites())}; not provoked: {sorted(left)}"
