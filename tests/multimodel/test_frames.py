"""Family ``multimodel``, objective ``frames``: against the page, and against all schedules of tiny instances."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap.formulations.multimodel.cpsat import build as build_cpsat
from chipmap.formulations.multimodel.mip import build as build_mip
from chipmap.heuristics.multimodel.frames.bounds import dropped_at_once, dropped_by_utilisation
from chipmap.heuristics.multimodel.frames.search import FrameSearch
from chipmap.heuristics.multimodel.frames.timetable import flush_gap, gap, solution
from chipmap.instances.multimodel.generators import frames, scenario
from chipmap.instances.multimodel.instance import Chiplet, FrameRun, Layer, Model, Module, MultiInstance, Piece, Task
from chipmap.instances.multimodel.pinned import narrowed
from chipmap.instances.multimodel.problem import multi_problem
from chipmap.instances.multimodel.rates import frame_counts, frames_of, hyperperiod
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.multimodel.checker import check
from tests.lanes import of_all
from tests.multimodel import page_frames
from tests.multimodel.page_frames import optimum, rated_instance, size

ONE = SolveOptions.make(threads=1, time_limit=60)


def tiny(random: Random) -> MultiInstance:
    """A random instance that brute force solves quickly."""
    while size(instance := rated_instance(random)) > 400:
        pass
    return instance


def example(**changed: Any) -> MultiInstance:
    """The example of the page: models a and b on one chiplet."""
    models = (
        Model(name="a", layers=(Layer(name="l", costs={"N": (4, 1)}),), frames_per_s=1e8),
        Model(name="b", layers=(Layer(name="l", costs={"N": (3, 1)}),), **{"frames_per_s": 2e8, **changed}),
    )
    module = Module(chiplets=(Chiplet(name="c", kind="N", hops=0),), hop_ns=0, dram_ns=0)
    return MultiInstance.make(name="example", task=Task(objective="frames"), models=models, module=module)


def test_the_example_of_the_page() -> None:
    instance = example()
    assert hyperperiod(instance) == 10 and frame_counts(instance) == (1, 2)
    assert [frame[2:] for frame in frames_of(instance)] == [(0, 10), (0, 5), (5, 10)]
    pieces = tuple(Piece(model=name, first=0, last=0, chiplet="c") for name in "ab")
    runs = [("b", 0, 0), ("a", 0, 3), ("b", 1, 7)]
    listed = tuple(FrameRun(model=name, frame=number, starts=(start,)) for name, number, start in runs)
    found = solve(instance)
    assert type(found.objective) is int and found.objective == 0 and found.status == "optimal"
    made = solution(FrameSearch(multi_problem(instance), 0).rated, [[(0, 0, 0, 0)], [(1, 0, 0, 0)]], {})
    certificate = check(instance, made.replace(windows=(pieces,), frames=listed))
    assert certificate.feasible and certificate.terms == {"T2": 3, "T3": 0}
    hasty = example(deadline_ns=4)
    assert solve(hasty).objective == 1
    assert dropped_by_utilisation(FrameSearch(multi_problem(hasty), 0).rated) == 0


def test_every_exact_method_finds_the_optimum_of_all_schedules() -> None:
    random, kinds = Random(44), dict[int | None, int]()
    for number in range(of_all(200, few=12)):
        instance = tiny(random)
        best = optimum(instance)
        kinds[best] = kinds.get(best, 0) + 1
        for method in ("auto", "cpsat"):
            found = solve(instance, f"multimodel/{method}", ONE)
            status = "infeasible" if best is None else "optimal"
            assert (found.status, found.objective) == (status, best), (number, method)
        for build in (build_cpsat, build_mip):
            model = build(instance)
            outcome = solve_model(model, SolveRequest(threads=1))
            if best is None:
                assert outcome.termination.reason == "infeasible", number
                continue
            assert outcome.value_of is not None
            certificate = check(instance, made := model.decode(outcome.value_of))
            assert certificate.feasible and certificate.objective == best, (number, certificate.violations)
            assert model.encode(made) is not None
    assert len(kinds) >= 4


def test_bounds_and_searches_lie_on_both_sides_of_the_optimum() -> None:
    random, met = Random(45), 0
    for number in range(of_all(200, few=12)):
        instance = tiny(random)
        best = optimum(instance)
        if best is None:
            continue
        search = FrameSearch(narrowed(multi_problem(instance)), 1)
        assert dropped_at_once(search.rated) <= dropped_by_utilisation(search.rated) <= best, number
        state = search.first()
        if state is not None:
            certificate = check(instance, solution(search.rated, state.mapping, state.starts))
            assert certificate.feasible and certificate.objective == state.dropped >= best, number
            met += state.dropped == best
    assert met >= 3


def test_the_checker_counts_as_the_page_does() -> None:
    """Times and energies of segments, by the test's own reading: a frame begins no sooner than the last one ends."""
    random, compared = Random(46), 0
    for number in range(of_all(120, few=20)):
        instance = tiny(random)
        if instance.pins or instance.task.energy_limit_pj is not None:
            continue
        length, counts = page_frames.hyperperiod(instance)
        assert (length, tuple(counts)) == (hyperperiod(instance), frame_counts(instance)), number
        for m, model in enumerate(instance.models):
            alone = instance.replace(models=(model.replace(after=None, deadline_ns=10**6),))
            once, _ = page_frames.hyperperiod(alone)
            for mapping, energy in page_frames.mappings(instance, m):
                starts, at = [], model.release_ns
                for *_, time in mapping:
                    starts.append(at)
                    at += time
                if max(time for *_, time in mapping) > once:
                    continue
                names = [chiplet.name for chiplet in instance.module.chiplets]
                pieces = [Piece(model=model.name, first=a, last=b, chiplet=names[c]) for c, a, b, _ in mapping]
                run = FrameRun(model=model.name, frame=0, starts=tuple(starts))
                record = _record(alone, pieces, run)
                certificate = check(alone, record)
                assert certificate.feasible and certificate.terms["T2"] == energy, number
                exact = alone.replace(models=(alone.models[0].replace(deadline_ns=at - model.release_ns - 1),))
                assert {one.label for one in check(exact, record).violations} == {"C4"}, number
                if len(starts) > 1:
                    early = run.replace(starts=(*starts[:-1], starts[-1] - 1))
                    assert {one.label for one in check(alone, _record(alone, pieces, early)).violations} == {"C7"}
                compared += 1
    assert compared > 30


def _record(instance: MultiInstance, pieces: list[Piece], run: FrameRun) -> Any:
    made = solution(FrameSearch(multi_problem(instance), 0).rated, [], {})
    return made.replace(windows=(tuple(pieces),), frames=(run,))


#: Label -> runs (model, frame, start) of the page's example that break it alone; b has 5 ns, or follows a with 9.
FRAME_BREAKS: dict[str, list[tuple[dict[str, Any], list[tuple[str, int, int]]]]] = {
    "C0": [
        ({}, [("a", 1, 0)]),
        ({}, [("b", 0, 0), ("b", 0, 5)]),
        ({}, [("c", 0, 0)]),
        ({}, [("a", 0, -1)]),
    ],
    "C2": [
        ({}, [("b", 0, 0), ("a", 0, 2)]),
        ({"deadline_ns": 9}, [("b", 1, 8), ("b", 0, 0)]),
    ],
    "C4": [({}, [("b", 0, 3)]), ({}, [("b", 1, 8)])],
    "C7": [({}, [("b", 1, 4)])],
    "C8": [({"after": "a", "frames_per_s": 1e8}, [("b", 0, 0)]),
           ({"after": "a", "frames_per_s": 1e8}, [("a", 0, 4), ("b", 0, 1)])],
}  # fmt: skip


def breaks(instance: MultiInstance, runs: list[tuple[str, int, int]]) -> set[str]:
    """The labels that these runs of whole models on the one chiplet break."""
    pieces = tuple(Piece(model=name, first=0, last=0, chiplet="c") for name in "ab")
    listed = tuple(FrameRun(model=name, frame=number, starts=(start,)) for name, number, start in runs)
    empty = solution(FrameSearch(multi_problem(instance), 0).rated, [], {})
    return {one.label for one in check(instance, empty.replace(windows=(pieces,), frames=listed)).violations}


@pytest.mark.parametrize("label", FRAME_BREAKS)
def test_each_of_these_breaks_one_label_alone(label: str) -> None:
    for changed, runs in FRAME_BREAKS[label]:
        assert breaks(example(**changed), runs) == {label}, runs


def test_one_unit_less_breaks_nothing() -> None:
    assert breaks(example(), [("b", 0, 0), ("a", 0, 3)]) == set()
    assert breaks(example(deadline_ns=9), [("b", 1, 8), ("b", 0, 1)]) == set()
    assert breaks(example(), [("b", 0, 2), ("b", 1, 5)]) == set()
    assert breaks(example(after="a", frames_per_s=1e8), [("a", 0, 0), ("b", 0, 4)]) == set()


def test_gaps_are_found_across_the_end_of_a_hyperperiod() -> None:
    assert gap([], 13, 10, 10) == 13 and gap([], 0, 11, 10) is None
    assert gap([(2, 3)], 0, 7, 10) == 5  # until 12, where the run at 2 comes again
    assert gap([(2, 3)], 0, 8, 10) is None
    assert gap([(1, 2), (8, 4)], 0, 5, 10) == 3
    assert gap([(0, 3), (5, 3)], 26, 2, 10) == 28
    assert flush_gap([], 13, 10, 10) == 13 and flush_gap([(2, 3)], 0, 8, 10) is None
    assert flush_gap([(2, 3)], 6, 4, 10) == 8  # right before the run that comes again at 12
    assert flush_gap([(2, 3)], 9, 4, 10) == 15  # right behind it


def test_instances_without_rates_are_what_they_were() -> None:
    instance = scenario(6, False, name="scar")
    same = instance.replace(models=tuple(one.replace(release_ns=0, after=None) for one in instance.models))
    assert same.content_hash == instance.content_hash
    other = instance.replace(models=tuple(one.replace(frames_per_s=30.0) for one in instance.models))
    assert other.content_hash != instance.content_hash


@pytest.mark.parametrize("number", (9, 10))
def test_gaze_follows_eyes(number: int) -> None:
    instance = frames(number, 4, name="eyes")
    assert [one.after for one in instance.models][:2] == [None, "eyecod_ritnet"]
    assert instance.models[1].deadline_ns == 4 * 10**9 // 60
    baseline = solve(instance, "multimodel/whole", ONE)
    best = solve(instance, "multimodel/auto", SolveOptions.make(threads=1, deterministic=True, seed=1))
    assert best.objective is not None and baseline.objective is not None
    assert best.bounds[-1].value <= best.objective <= baseline.objective


@pytest.mark.parametrize(
    ("changed", "where"),
    [
        ({"frames_per_s": None}, "frames_per_s"),
        ({"frames_per_s": -1.0}, "frames_per_s"),
        ({"batch": 4}, "mini_batch"),
        ({"frame_weight": -1}, "frame_weight"),
        ({"after": "c"}, "after"),
        ({"after": "a"}, "after"),
        ({"after": "b"}, "after"),
    ],
)
def test_what_has_no_meaning_is_refused(changed: dict[str, Any], where: str) -> None:
    instance = example()
    with pytest.raises(InputError, match=where):
        instance.replace(models=(instance.models[0], instance.models[1].replace(**changed))).check()


def test_methods_that_know_no_frames_say_so() -> None:
    for method in ("one-window", "scar", "simba", "standalone"):
        with pytest.raises(InputError, match="frames"):
            solve(example(deadline_ns=4), f"multimodel/{method}")
