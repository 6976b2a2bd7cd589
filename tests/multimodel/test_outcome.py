"""What users see of a schedule: its timetable, table, trace, pictures and explanation."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from chipmap.cli import main
from chipmap.inputs.reading import read
from chipmap.instances.multimodel import MultiInstance, MultiSolution, Piece
from chipmap.instances.multimodel.describe import describe, files, measures
from chipmap.instances.multimodel.generators import scenario
from chipmap.instances.multimodel.problem import multi_problem, schedule
from chipmap.instances.multimodel.timeline import PARTS, all_energies, timeline
from chipmap.records import InputError
from chipmap.report.multimodel.plots import _ends, plot
from chipmap.validation.multimodel.candidates import candidates
from chipmap.validation.multimodel.checker import check

Event = dict[str, Any]


def walk(instance: MultiInstance, seed: int) -> MultiSolution:
    """A schedule at random: ranges over all windows, cut along random paths, each model where there is room."""
    random, problem = Random(seed), multi_problem(instance)
    windows = []
    done = [0] * len(problem.models)
    for w in range(problem.windows):
        free, window = set(range(problem.chiplets)), []
        for m in random.sample(range(len(problem.models)), len(problem.models)):
            left = problem.models[m].layers - done[m]
            if not left or not free:
                continue
            end = done[m] + (left if w == problem.windows - 1 else random.randint(1, left))
            c = random.choice(sorted(free))
            while done[m] < end:
                free.discard(c)
                near = [n for n in problem.neighbours[c] if n in free]
                stop = random.randint(done[m] + 1, end) if near else end
                window.append((m, done[m], stop - 1, c))
                done[m] = stop
                c = random.choice(near) if near else c
        windows.append(window)
    return schedule(problem, windows)


#: How many they are.
MANY = 30


@cache
def some() -> list[tuple[MultiInstance, MultiSolution]]:
    """Instances with valid schedules: tiny ones, and large ones cut at random."""
    found = []
    for name in ("tiny-pipeline", "tiny-two", "tiny-square", "tiny-whole-batch", "tiny-both-ends"):
        instance = read(f"multimodel/{name}")
        assert isinstance(instance, MultiInstance)
        found += [(instance, one) for one in candidates(instance) if check(instance, one).feasible][:4]
    for name in ("scar-8-pipelined", "scar-8-whole", "resnet50-unet"):
        instance = read(f"multimodel/{name}")
        assert isinstance(instance, MultiInstance)
        found += [(instance, walk(instance, seed)) for seed in range(4)]
    whole = [pair for pair in found if check(*pair).feasible]
    assert len(whole) == MANY
    return whole


@pytest.mark.parametrize("which", range(MANY))
def test_times_and_energies_add_up(which: int) -> None:
    """Windows follow each other for T1; the last mini-batch ends with its range; the parts of T2 add up to it."""
    instance, solution = some()[which]
    terms, problem = check(instance, solution).terms, multi_problem(instance)
    windows = timeline(problem, solution)
    assert [window.start + window.time for window in windows[:-1]] == [window.start for window in windows[1:]]
    assert windows[0].start == 0 and windows[-1].start + windows[-1].time == terms["T1"]
    for window in windows:
        for one in window.ranges:
            assert one.spans[-1].end == window.start + one.latency <= window.start + window.time
            assert max(span.end for span in one.spans) == one.spans[-1].end
            for span in one.spans:
                assert span.busy <= span.end - span.start
            for before, after in pairwise(one.spans):
                assert before.begins + before.time == after.begins
    parts = all_energies(problem, windows)
    assert tuple(parts) == PARTS and sum(parts.values()) == terms["T2"]


def spans(events: list[Event]) -> dict[int, list[Event]]:
    """The complete events by track."""
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            assert (int(event["ts"] * 1e3), int(event["dur"] * 1e3)) == (event["args"]["start_ns"], event["args"]["ns"])
            tracks[event["tid"]].append(event)
    return tracks


def depths(track: list[Event]) -> dict[str, set[int]]:
    """How deep events of each kind lie on a track, whose events must nest: none reaches beyond the one around it."""
    found, around = defaultdict(set), list[int]()
    order = sorted(range(len(track)), key=lambda i: (track[i]["args"]["start_ns"], -track[i]["args"]["ns"], i))
    for event in (track[i] for i in order):
        start, time = event["args"]["start_ns"], event["args"]["ns"]
        while around and around[-1] <= start and time:
            around.pop()
        assert not around or start + time <= around[-1], event
        found[event["cat"]].add(len(around))
        if time:
            around.append(start + time)
    return found


@pytest.mark.parametrize("which", range(MANY))
def test_the_trace_is_valid_and_nests_and_adds_up(which: int) -> None:
    instance, solution = some()[which]
    trace = json.loads(files(instance, solution)["trace.json"])
    events = trace["traceEvents"]
    terms, tracks = check(instance, solution).terms, spans(events)
    assert sum(event["args"]["ns"] for event in tracks[0]) == terms["T1"], "the track of the windows"
    windows = {event["args"]["window"]: event["args"] for event in tracks[0]}
    assert {event["cat"] for event in tracks[0]} == {"window"}
    for track in tracks.values():
        deep = depths(track)
        assert deep["window"] == {0} and deep["segment"] <= {1}
        assert deep["weights"] | deep["mini-batch"] | deep["mini-batches"] <= {2}
        assert deep["layer"] | deep["read"] | deep["write"] | deep["send"] | deep["receive"] <= {3}
        for event in track:
            if event["cat"] == "window":
                assert event["args"] == windows[event["args"]["window"]], "each track tells the same of a window"
    flat = [event for track in tracks.values() for event in track]
    layers = sum(event["cat"] == "layer" for event in flat)
    assert layers == sum(len(model.layers) for model in instance.models)
    segments = [event for event in flat if event["cat"] == "segment"]
    assert len(segments) == sum(map(len, solution.windows))
    assert sum(event["args"].get("sets") == "window" for event in segments) == len(windows)


def test_mini_batches_are_all_in_the_trace() -> None:
    """Of a pipeline the first mini-batch in parts, and the rest with its pace and its busy time."""
    instance = read("multimodel/tiny-pipeline")
    assert isinstance(instance, MultiInstance) and instance.models[0].batch == 8
    pieces = [Piece(model="m0", first=i, last=j, chiplet=c) for i, j, c in ((0, 0, "c00"), (1, 3, "c01"))]
    tracks = spans(json.loads(files(instance, MultiSolution(windows=(tuple(pieces),)))["trace.json"])["traceEvents"])
    times = []
    for track in (1, 2):
        by_kind = {event["cat"]: event for event in tracks[track]}
        parts = [e["args"]["ns"] for e in tracks[track] if e["cat"] in ("read", "layer", "send", "write")]
        assert sum(parts) == by_kind["mini-batch"]["args"]["ns"] == by_kind["mini-batches"]["args"]["each_ns"]
        times.append(sum(parts))
        weights = by_kind["weights"]["args"]["ns"]
        assert by_kind["mini-batches"]["args"]["busy_ns"] == 7 * sum(parts)
        assert by_kind["segment"]["args"]["busy_ns"] == 8 * sum(parts) + weights
    for track in (1, 2):
        rest = next(event for event in tracks[track] if event["cat"] == "mini-batches")["args"]
        assert rest["every_ns"] == max(times) and rest["ns"] == 6 * max(times) + rest["each_ns"]


@pytest.mark.parametrize("which", range(0, MANY, 3))
def test_an_arrow_for_each_transfer_between_chiplets(which: int) -> None:
    instance, solution = some()[which]
    events = json.loads(files(instance, solution)["trace.json"])["traceEvents"]
    tracks = spans(events)
    ends: dict[str, dict[str, Event]] = {"s": {}, "f": {}}
    for event in events:
        if event["ph"] in ends:
            assert event["id"] not in ends[event["ph"]], "an id of its own"
            ends[event["ph"]][event["id"]] = event
    moves = sum(e["cat"] == "send" for track in tracks.values() for e in track)
    assert ends["s"].keys() == ends["f"].keys() and len(ends["s"]) == moves
    for key, out in ends["s"].items():
        sends = [e for e in tracks[out["tid"]] if e["cat"] == "send" and e["ts"] == out["ts"]]
        takes = [
            e for e in tracks[ends["f"][key]["tid"]] if e["cat"] == "mini-batch" and e["ts"] == ends["f"][key]["ts"]
        ]
        assert len(sends) == len(takes) == 1
        assert sends[0]["args"]["start_ns"] + sends[0]["args"]["ns"] == takes[0]["args"]["start_ns"]


@pytest.mark.parametrize("which", range(0, MANY, 3))
def test_the_table_is_the_solution_with_its_times(which: int) -> None:
    instance, solution = some()[which]
    rows = list(csv.DictReader(io.StringIO(files(instance, solution)["schedule.csv"].decode())))
    used = [window for window in solution.windows if window]
    told = [(int(r["window"]), r["model"], int(r["first"]), int(r["last"]), r["chiplet"]) for r in rows]
    assert sorted(told) == sorted((w, p.model, p.first, p.last, p.chiplet) for w, win in enumerate(used) for p in win)
    assert max(int(row["end_ns"]) for row in rows) == check(instance, solution).terms["T1"]
    holding = [row for row in rows if row["bottleneck"] == "window"]
    assert [int(row["window"]) for row in holding] == list(range(len(used)))
    assert all(row["mini_batch_ns"] == row["every_ns"] for row in holding)
    chains = {model.name: model.layers for model in instance.models}
    for row in rows:
        assert chains[row["model"]][int(row["last"])].name == row["last_layer"]


def test_no_files_for_a_schedule_of_something_else() -> None:
    instance = read("multimodel/tiny-two")
    assert isinstance(instance, MultiInstance)
    for piece in (
        Piece(model="m0", first=0, last=99, chiplet="c00"),
        Piece(model="m7", first=0, last=0, chiplet="c00"),
        Piece(model="m0", first=0, last=0, chiplet="c99"),
    ):
        assert files(instance, MultiSolution(windows=((piece,),))) == {}


def test_figures() -> None:
    instance, solution = some()[-1]
    found, told = measures(instance, solution), describe(instance)
    terms = check(instance, solution).terms
    assert found["latency_s"] == terms["T1"] / 1e9 and found["energy_j"] == terms["T2"] / 1e12
    assert sum(found[f"{part.lower()}_j"] for part in PARTS) == pytest.approx(found["energy_j"])
    assert 0 < found["utilisation"] <= 1 and found["segments"] == sum(map(len, solution.windows))
    assert measures(instance, None) == {}
    assert told["chiplets"] == {"nvdla": 6, "shidiannao": 3} and told["models"]["unet"]["layers"] == 23
    assert told["models"]["unet"]["compute_s"]["shidiannao"] == pytest.approx(0.8, rel=0.02)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_picture_in_every_format(tmp_path: Path, suffix: str) -> None:
    instance, solution = some()[-1]
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        plot(instance, solution, path)
    assert paths[0].read_bytes() == paths[1].read_bytes() and paths[0].stat().st_size > 1000


def words(path: Path) -> str:
    """The texts of an SVG picture."""
    return "\n".join(f" {text} " for text in re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text()))


def test_the_picture_tells_units_windows_and_what_sets_them(tmp_path: Path) -> None:
    instance, solution = next(pair for pair in some() if pair[0].name == "multimodel/scar-8-pipelined")
    path = tmp_path / "plot.svg"
    plot(instance, solution, path)
    problem, terms = multi_problem(instance), check(instance, solution).terms
    windows, text = timeline(problem, solution), words(path)
    assert f"EDP {terms['T1'] * terms['T2'] / 1e21:.4g} J·s" in text
    assert f"latency T1 {terms['T1'] / 1e9:.5g} s" in text and f"energy T2 {terms['T2'] / 1e12:.5g} J" in text
    for window in windows:
        assert f"window {window.number}: " in text
    long = max(windows, key=lambda window: window.time)
    m, first, last, _ = long.slowest.slowest.segment
    assert f"set by {instance.models[m].name} {first}–{last}" in text
    for piece in (piece for window in solution.windows for piece in window):
        assert f"{piece.first}–{piece.last}" in text or f" {piece.first} " in text
    assert "NOT VALID" not in text


def test_a_picture_of_what_the_checker_refuses(tmp_path: Path) -> None:
    instance, solution = some()[-1]
    limited = instance.replace(task=instance.task.replace(latency_limit_ns=1))
    plot(limited, solution, tmp_path / "plot.svg")
    assert "NOT VALID: C4" in words(tmp_path / "plot.svg")


def test_pictures_of_large_modules_and_of_chiplets_without_places(tmp_path: Path) -> None:
    large = scenario(5, rows=6, columns=6, pattern="cross", task={"windows": 4})
    plot(large, walk(large, 0), tmp_path / "large.svg")
    assert all(model.name in words(tmp_path / "large.svg") for model in large.models)
    instance, solution = some()[-1]
    chiplets = tuple(chiplet.replace(x=0, y=0) for chiplet in instance.module.chiplets)
    plot(instance.replace(module=instance.module.replace(chiplets=chiplets)), solution, tmp_path / "circle.svg")
    assert "c22" in words(tmp_path / "circle.svg")


def test_bad_input_to_a_picture_is_named(tmp_path: Path) -> None:
    instance, solution = some()[-1]
    with pytest.raises(InputError, match="no such plot format"):
        plot(instance, solution, tmp_path / "plot.gif")
    with pytest.raises(InputError, match="can't be written"):
        plot(instance, solution, tmp_path / "nowhere" / "plot.svg")
    with pytest.raises(InputError, match="names 'm0', which the instance doesn't have"):
        plot(instance, some()[0][1], tmp_path / "plot.svg")
    with pytest.raises(InputError, match="has no segment"):
        plot(instance, MultiSolution(windows=()), tmp_path / "plot.svg")


@pytest.mark.parametrize("times", [[1], [1, 10**9], [5, 5, 5], [0, 0, 1], [10**9, 1, 2, 3, 9 * 10**8], [1] * 40])
def test_windows_keep_their_order_and_a_width_that_can_be_seen(times: list[int]) -> None:
    ends = _ends(times)
    assert ends[0][0] == 0 and ends[-1][1] == pytest.approx(1)
    widths = [right - left for left, right in ends]
    assert min(widths) >= min(0.11, 1 / len(times)) - 1e-9
    assert all(a <= b + 1e-9 for a, b in pairwise([width for _, width in sorted(zip(times, widths, strict=True))]))


UNITS = {"latency": "s", "weighted": "J", "edp": "J·s"}


@pytest.mark.parametrize("objective", sorted(UNITS))
def test_every_command_shows_the_units(objective: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """solve, check, bound, explain and report: objective in its unit, T1 in s and T2 in J, in text, JSON and HTML."""
    asked = ("--set", f"task.objective={objective}")
    name, run, unit = "multimodel/tiny-two", str(tmp_path / "runs" / "one"), UNITS[objective]

    def said(*words: str) -> tuple[str, str]:
        assert main(list(words)) == 0
        out, err = capsys.readouterr()
        return out, err

    def small(value: float, unit: str = unit, digits: int = 7) -> str:
        """The amount in the unit of a thousandth, a millionth or a milliardth that makes it 1 or more."""
        power, prefix = next(found for found in ((0, ""), (3, "m"), (6, "u"), (9, "n")) if value * 10 ** found[0] >= 1)
        return f"{value * 10**power:.{digits}g} {prefix}{unit}"

    table, progress = said("solve", name, *asked, "--method", "cpsat", "--out", run)
    certificate = json.loads(said("check", run, run, "--format", "json")[0])
    assert certificate["unit"] == unit and certificate["term_units"] == {"T1": "s", "T2": "J"}
    terms = certificate["terms"]
    told_as = small(certificate["objective"]), small(terms["T1"], "s"), small(terms["T2"], "J")
    number, of = told_as[0].split(" ", 1)
    assert told_as[0] in progress and f"  {of} " in table and number in table
    text = said("check", run, run)[0]
    assert all(word in text for word in told_as), (told_as, text)
    assert re.search(rf"\d .?{unit} ", said("bound", name, *asked)[0])
    told = json.loads(said("explain", name, run, *asked, "--quiet", "--time-limit", "60", "--format", "json")[0])
    assert (told["unit"], told["objective"]) == (unit, certificate["objective"])
    assert told["terms"] == terms and told["term_units"] == certificate["term_units"]
    assert f" of {told_as[0]}," in told["statements"][0]["message"]
    page = tmp_path / "page.html"
    assert unit in said("report", str(tmp_path / "runs"), "--html", str(page))[0]
    shown, figures = page.read_text().replace("µ", "u"), (certificate["objective"], terms["T1"], terms["T2"])
    for figure, one in zip(figures, (unit, "s", "J"), strict=True):
        assert any(small(figure, one, digits) in shown for digits in (6, 7)), figure
    assert said("plot", run, run, "--out", str(tmp_path / "plot.svg"))
    drawn = words(tmp_path / "plot.svg").replace(",", "").replace("µ", "u")
    assert any(f"T1 {small(terms['T1'], 's', digits)}" in drawn for digits in (5, 6)), drawn
