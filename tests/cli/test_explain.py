"""``chipmap explain`` on the command line: formats, exit codes, bad input."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from chipmap import explain, solve
from chipmap.family import get_family
from chipmap.inputs.reading import read
from chipmap.inputs.solutions import bounds_of
from chipmap.records import ChipmapError
from chipmap.result import Bound, Result
from chipmap.run import SolveOptions
from tests.cli.conftest import CHAIN, Command
from tests.cli.test_bad_input import refused

Put = Callable[..., Path]


def test_json(chipmap: Command, put: Put) -> None:
    done = chipmap("explain", put(CHAIN), "--format", "json", "--quiet")
    assert (done.code, done.err) == (0, "")
    shown = done.json
    solved = chipmap("solve", put(CHAIN), "--format", "json", "--quiet").json
    for name in ("instance", "family", "status", "objective", "unit", "bound", "terms"):
        assert shown[name] == solved[name], name
    assert (shown["schema"], shown["given"], shown["difference"]) == ("explanation/1", None, None)
    one = next(c for c in shown["changes"] if c["setting"] == "package.chips=1")
    assert (
        one["objective"] == chipmap("solve", put(CHAIN), "--set", one["setting"], "--format", "json").json["objective"]
    )
    assert one["gain"] == pytest.approx(-0.5)


def test_progress_names_what_is_tried(chipmap: Command, put: Put) -> None:
    done = chipmap("explain", put(CHAIN))
    assert "solving the instance as it is" in done.err
    assert "1 chip instead of 2" in done.err
    assert "three: optimal" in done.out


def test_a_refused_mapping_is_explained(chipmap: Command, put: Put) -> None:
    bad, good = put({"chips": [1, 0, 0]}, "bad.json"), put({"chips": [0, 0, 1]}, "good.json")
    done = chipmap("explain", put(CHAIN), bad, "--against", good, "--quiet")
    assert done.code == 4
    assert "The mapping given is refused" in done.out and "data flows backwards" in done.out
    assert "op0" in done.out and "the two solutions:" in done.out
    shown = chipmap("explain", put(CHAIN), bad, "--against", good, "--quiet", "--format", "json").json
    assert shown["difference"]["before"]["violations"][0]["label"] == "C1"
    assert shown["difference"]["after"]["objective"] == 0.002
    assert shown["given"]["objective"] == 0.002


def test_infeasible_exits_with_2(chipmap: Command, put: Put) -> None:
    done = chipmap("explain", put(CHAIN), "--set", "package.sram_bytes=12", "--quiet")
    assert done.code == 2
    assert "No mapping exists (proved)." in done.out
    assert "package.sram_bytes=" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--time-limit", "0"], "--time-limit: is 0\n"),
        (["--time-limit", "nan"], "--time-limit: 'nan' is not a time"),
        (["--against", "x.json"], "needs a solution to compare with"),
        (["missing.json"], "can't be read"),
        (["--set", "package.chips=0"], "package.chips: is 0"),
    ],
)
def test_bad_input(chipmap: Command, put: Put, arguments: list[str], message: str) -> None:
    path = put(CHAIN)
    put({"chips": [0, 0, 0]}, "x.json")
    arguments = [str(path.parent / a) if a == "x.json" else a for a in arguments]
    assert message in refused(chipmap, "explain", path, *arguments)


def test_mappings_that_fit_no_instance(chipmap: Command, put: Put) -> None:
    path, short, far = put(CHAIN), put({"chips": [0]}, "short.json"), put({"chips": [0, 0, 7]}, "far.json")
    good = put({"chips": [0, 0, 1]}, "good.json")
    assert "1 entry for 3 operations" in refused(chipmap, "explain", path, short, "--quiet")
    assert "is on chip 7; the package has chips 0 to 1" in refused(
        chipmap, "explain", path, good, "--against", far, "--quiet"
    )
    assert "is an instance" in refused(chipmap, "explain", path, path)


def test_dataflow(chipmap: Command, tmp_path: Path) -> None:
    """An archive is explained as the mapping that it holds; what ``--set`` takes for a change gives its objective."""
    name, out = "dataflow/tiny-chain", tmp_path / "run"
    assert chipmap("solve", name, "--quiet", "--out", out).code == 0
    done = chipmap("explain", name, out, "--against", out, "--quiet", "--format", "json")
    assert done.code == 0
    shown = done.json
    assert (shown["status"], shown["unit"], shown["given"]["feasible"]) == ("optimal", "s", True)
    assert shown["difference"]["before"]["objective"] == shown["objective"] == shown["given"]["objective"]
    topics = {told["topic"] for told in shown["statements"]}
    assert {"verdict", "plan", "time", "terms", "kernel", "memory", "twice", "resource", "choice", "alone"} <= topics
    settings = [one for one in shown["changes"] if one["setting"] and one["standing"] == "proved"]
    assert len(settings) > 8
    for change in settings:
        solved = chipmap("solve", name, "--set", change["setting"], "--quiet", "--format", "json").json
        assert solved["objective"] == change["objective"], change


def test_a_run_s_own_bound_counts(chipmap: Command, put: Put, tmp_path: Path) -> None:
    """What the archive has proved is said, however little time there is; not what another instance's run has."""
    instance, run = put(CHAIN), tmp_path / "run"
    assert chipmap("solve", instance, "--out", run, "--quiet").code == 0
    result = run / "result.json"
    for given in (run, run / "solution.json", result):
        assert bounds_of(given, get_family("ring"), read(instance)), given
    assert not bounds_of(run, get_family("ring"), read("ring/tiny-skip"))
    plain = tmp_path / "mine.json"
    plain.write_bytes((run / "solution.json").read_bytes())
    assert not bounds_of(plain, get_family("ring"), read(instance))
    kept = Result.read(result)
    assert not bounds_of(kept.replace(status="error"), get_family("ring"), read(instance))
    assert not bounds_of(kept.replace(provenance={"oracle": {}}), get_family("ring"), read(instance))


@pytest.mark.parametrize("isolate", [False, True])
def test_bounds_that_are_known_are_taken(isolate: bool) -> None:
    """They stand in the explanation, from a result or given, where its time is too short to prove more."""
    options = SolveOptions(time_limit=0.01)
    result, optimum = solve("ring/bert-large-36", "ring/slice", time_limit=60), 307550415
    known = result.replace(bounds=(Bound(value=optimum - 7, source="a long run"),))
    found = explain("ring/bert-large-36", known, options=options, isolate=isolate)
    assert found.bound in (optimum - 7, optimum)
    given = explain("ring/bert-large-36", options=options, isolate=isolate, bounds=[Bound(value=11, source="mine")])
    assert (given.bound or 0) >= 11
    none = result.replace(bounds=(Bound(value=2 * (result.objective or 0), source="a lie"),))
    with pytest.raises(ChipmapError) if not isolate else suppress(ChipmapError):  # if it comes that far
        assert explain("ring/bert-large-36", none, options=options, isolate=isolate).bound is None


def test_runs_on_other_packages_are_told(tmp_path: Path, chipmap: Command) -> None:
    """Of two runs the second had faster links: what differs is said, as the figures are those of the instance given."""
    name, one, other = "ring/tiny-skip", tmp_path / "one", tmp_path / "other"
    chipmap("solve", name, "--out", one)
    chipmap("solve", name, "--set", "package.link_bytes_per_ns=64", "--out", other)
    told = f"{other} was made for another instance (package.link_bytes_per_ns is 64.0 there, and 32.0 in the instance "
    shown = chipmap("explain", name, one, "--against", other, "--quiet", "--format", "json").json
    assert [note["text"].startswith(told) for note in shown["notes"]] == [True]
    assert told in chipmap("explain", name, other, "--quiet").out
    assert [note.text.startswith(told) for note in explain(name, one, other).notes] == [True]
    result = other / "result.json"
    alone = tmp_path / "alone.json"
    alone.write_bytes(result.read_bytes())
    assert f"{alone} was made for another instance: all" in chipmap("explain", name, alone, "--quiet").out
    assert "another instance" not in chipmap("explain", name, one, "--quiet").out
