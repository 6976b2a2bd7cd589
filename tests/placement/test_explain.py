"""``explain``: sums that are T1 to the nanosecond, bounds that hold for changed instances, reasons that are real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

import numpy as np
import pytest

from chipmap import SolveOptions
from chipmap.cli import main
from chipmap.deadline import Deadline
from chipmap.explaining.placement.bound_reasons import reasons
from chipmap.explaining.placement.changes import changes, with_device
from chipmap.explaining.placement.explain import explain
from chipmap.explaining.placement.spent import StepTimeSpent, path_of_data, spent
from chipmap.explanation import Explanation
from chipmap.family import get_family
from chipmap.heuristics.placement.bounds import ancestors, price_bound, same_device_bound
from chipmap.heuristics.placement.bounds import simple as bounds
from chipmap.heuristics.placement.bounds.packing import packing
from chipmap.heuristics.placement.keys import default_keys
from chipmap.heuristics.placement.simulation.simulator import NEVER, schedule, simulate
from chipmap.heuristics.placement.simulation.tables import tables, workspace
from chipmap.heuristics.placement.starts import human
from chipmap.instances.placement import Links, PlacementInstance, PlacementSolution, Route, Transfer
from chipmap.instances.placement.generators import random_instance, training_step
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.placement.timeline import Timeline, timeline
from chipmap.process.warming import warm
from chipmap.records import InputError
from chipmap.validation.brute_force import brute_force
from chipmap.validation.placement.checker import check
from chipmap.validation.placement.facts import Facts
from chipmap.validation.placement.memory import Placed
from tests.placement.random_instances import FORK, infeasible, made, throughput, tiny_instance
from tests.placement.test_outcome import SMALL, decoded, instances


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Functions are compiled before any of the limits below: here nothing else does it."""
    warm(get_family("placement"))


def short(seconds: float = 5.0) -> SolveOptions:
    return SolveOptions(time_limit=seconds)


def delayed(solution: PlacementSolution, by: int) -> PlacementSolution:
    """The same schedule, all of it later by ``by`` ns: valid where it was."""
    start = {name: at + by for name, at in solution.start.items()}
    moves = tuple(one.replace(start=one.start + by) for one in solution.transfers)
    return solution.replace(start=start, transfers=moves)


def held_at(placed: Placed, name: str, time: int) -> set[str]:
    """Whether device ``name`` computes (``device``) or rests (``rest``) at ``time``, by the checker's facts."""
    gap, found = placed.facts.classes[placed.facts.devices[name].kind].gap_ns, set[str]()
    for v, start in placed.start.items():
        end = placed.end[v]
        if placed.device[v] == name and start < end:
            found |= {"device"} if start <= time < end else {"rest"} if end <= time < end + gap else set()
    return found


def sent_at(placed: Placed, channels: set[str], time: int, but: tuple[int, str]) -> set[str]:
    """Whether a transfer other than ``but`` is on one of ``channels`` at ``time``, or rests there."""
    found = set[str]()
    for move in placed.moves:
        route = placed.facts.routes[move.source, move.target]
        if channels & set(route.channels) and (move.storage.tensor, move.target) != but and move.end is not None:
            if move.start <= time < move.end:
                found.add("channel")
            elif move.end <= time < move.end + route.gap_ns:
                found.add("rest")
    return found


def test_computing_transfers_and_waits_are_t1_to_the_nanosecond() -> None:
    """On 300 random schedules and on two training steps, decoded and delayed: both sums, by the checker's times."""
    seen, random = set[str](), Random(5)
    some = instances(300, 17)
    some += [(step, decoded(step, Random(k))) for k in (1, 2) for step in [training_step("gnmt", SMALL, devices=3)]]
    for instance, solution in some:
        problem = placement_problem(instance)
        by = random.choice((0, 0, 3)) if instance.task.limit_ns is None else 0
        solution = delayed(solution, by)
        line, t1 = timeline(problem, solution), check(instance, solution).terms["T1"]
        path, chain = path_of_data(line), spent(line.chain)
        assert spent(path).total == chain.total == t1
        assert chain.device == chain.channel == 0 and chain.idle == by
        at = 0
        for part in path:
            assert part.start == at < part.end
            at = part.end
            seen.add(part.kind)
        assert at == t1
        if len(line.start) < 10:
            follow(instance, solution, line)
    assert seen == {"compute", "transfer", "device", "channel", "rest", "idle"}


def follow(instance: PlacementInstance, solution: PlacementSolution, line: Timeline) -> None:
    """Each ns of the path of data is what the checker's facts say it is."""
    placed = Placed(Facts(instance), solution)
    position = line.problem.position.tolist()
    for part in path_of_data(line):
        for time in range(part.start, part.end):
            if part.kind == "compute":
                v = position[part.operation]
                assert placed.start[v] <= time < placed.end[v]
            elif part.kind == "transfer":
                move = line.moves[part.move]
                tensor, to = int(line.problem.storages.tensor[move.storage]), line.problem.device_names[move.target]
                (one,) = [m for m in placed.moves if (m.storage.tensor, m.target) == (tensor, to)]
                assert one.end is not None and one.start <= time < one.end
            elif part.operation >= 0:
                v = position[part.operation]
                there = held_at(placed, placed.device[v], time)
                assert time < placed.start[v]
                assert part.kind == ("device" if "device" in there else "rest" if there else "idle")
            else:
                move = line.moves[part.move]
                tensor, to = int(line.problem.storages.tensor[move.storage]), line.problem.device_names[move.target]
                route = placed.facts.routes[line.problem.device_names[move.source], to]
                there = sent_at(placed, set(route.channels), time, (tensor, to))
                assert part.kind == ("channel" if "channel" in there else "rest" if there else "idle")


def test_the_hand_trace_of_a_bus_told_both_ways() -> None:
    """The bus rests 25 µs behind the first transfer, which b waits for: 10 of them its transfer, 25 the rest."""
    rows = [(10_000, 0, 76_000), (10_000, 0, 76_000), (5_000, 0, 0), (5_000, 0, 0)]
    links = Links(kind="bus", bytes_per_ns=7.6, gap_ns=25_000)
    instance = made(rows, [(0, 2), (1, 3)], devices=3, links=links)
    solution = PlacementSolution(
        devices={"v0": "d0", "v1": "d0", "v2": "d1", "v3": "d2"},
        start={"v0": 0, "v1": 10_000, "v2": 20_000, "v3": 55_000},
        transfers=(Transfer(tensor=0, to="d1", start=10_000), Transfer(tensor=1, to="d2", start=45_000)),
    )
    line = timeline(placement_problem(instance), solution)
    assert spent(line.chain) == StepTimeSpent(compute=15_000, transfer=20_000, rest=25_000)
    assert spent(path_of_data(line)) == StepTimeSpent(compute=15_000, transfer=10_000, device=10_000, rest=25_000)
    found = explain(instance, solution, short(3))
    figures = {one.topic: one.figures for one in reversed(found.statements)}
    assert figures["chain"]["rest_ns"] == 25_000 and figures["path"]["device_ns"] == 10_000
    assert "waiting for a busy device 10 µs" in " ".join(one.message for one in found.statements)


def windowed(instance: PlacementInstance) -> bounds.HeadsAndTails:
    """Heads and tails, raised."""
    problem = placement_problem(instance)
    w = ancestors.raised(problem, bounds.heads_and_tails(problem, Deadline()), Deadline())
    return same_device_bound.raised(problem, w, True, Deadline())


def test_reasons_are_bounds_and_reach_what_the_bounds_do() -> None:
    """On random instances each reason is at most the optimum, and the strongest is as strong as the bounds' own."""
    random, compared, kinds = Random(31), 0, set[str]()
    while compared < 150:
        instance = tiny_instance(random)
        problem = placement_problem(instance)
        optimum, _ = brute_force(instance, check)
        if not problem.timed or optimum is None:
            continue
        compared += 1
        w = windowed(instance)
        shared, work = price_bound.interval(problem, w), price_bound.work(problem)
        low = max(work, bounds.group(problem, w), bounds.path(w), shared)
        own = {one.kind: one.value for one in reasons(problem, w, 0)}
        assert (own["work"], own["path"], own.get("interval", 0)) == (work, bounds.path(w), shared)
        low = bounds.target(problem, w, low, problem.horizon, Deadline())
        low = packing(problem, w, low, problem.horizon, Deadline())
        strongest = reasons(problem, w, low)[0]
        assert strongest.value == low <= optimum
        kinds.add(strongest.kind)
        assert all(one.value <= optimum for one in reasons(problem, w, low))
    assert kinds >= {"work", "group", "path", "uncut", "memory"}, kinds


def test_an_interval_is_a_reason() -> None:
    """Where many operations come between a few: stronger than work and path alone, as strong as the bound."""
    fan = [(4, 0, 1), *[(3, 0, 1)] * 8, (5, 0, 1)]
    instance = made(fan, [(0, v) for v in range(1, 9)] + [(v, 9) for v in range(1, 9)])
    problem = placement_problem(instance)
    w = bounds.heads_and_tails(problem, Deadline())
    one = reasons(problem, w, 0)[0]
    assert (one.kind, one.value) == ("interval", 4 + 12 + 5) == ("interval", price_bound.interval(problem, w))
    assert one.figures == {"work_ns": 24, "before_ns": 4, "behind_ns": 5, "operations": 8}


def test_memory_is_a_reason() -> None:
    """Two operations that can't be cut fit on no device together: a longer schedule, and memory says why."""
    instance = made([(2, 6, 9), (2, 6, 0)], [(0, 1)], memory=21, task={"memory": "static"})
    tight = made([(2, 6, 9), (2, 6, 0)], [(0, 1)], memory=20, task={"memory": "static"})
    assert explain(instance, options=short(60)).objective == 4
    found = explain(tight, options=short(60))
    assert (found.objective, found.status) == (13, "optimal")
    (said,) = [one for one in found.statements if one.topic == "bound"]
    assert said.figures["kind"] == "memory" and "more than the largest memory, 20 bytes" in said.message


def some(count: int, seed: int, objective: str) -> Iterator[PlacementInstance]:
    """Tiny instances with a placement, of two operations to four on two devices."""
    random = Random(seed)
    while count:
        instance = tiny_instance(random)
        small = len(instance.graph.operations) <= 3 and 1 < len(instance.system.devices) < 3
        if small and instance.task.objective == objective and brute_force(instance, check)[0] is not None:
            count -= 1
            yield instance


@pytest.mark.parametrize("objective", ["step_time", "throughput"])
def test_what_a_change_allows_at_best_is_a_bound_and_what_is_proved_is_the_optimum(objective: str) -> None:
    """By brute force of each changed instance."""
    gained, proved = 0, 0
    for instance in some(12, 41, objective):
        found = explain(instance, options=short(30))
        optimum, _ = brute_force(instance, check)
        assert (found.objective, found.status) == (optimum, "optimal")
        trials = {one.what: one for one in changes(placement_problem(instance), False)}
        assert {one.what for one in found.changes} == set(trials) and "one more device" in " ".join(trials)
        for change in found.changes:
            best, _ = brute_force(trials[change.what].instance, check)
            assert best is not None and optimum is not None and change.objective is not None
            assert (change.bound or 0) <= best <= min(change.objective, optimum)
            proved += change.standing == "proved"
            assert change.standing != "proved" or change.objective == best
            gained += best < optimum
            (told,) = [one for one in found.statements if one.figures.get("change") == change.what]
            assert told.figures["bound_ns"] == change.bound
            assert ("gains nothing (proved)" in told.message) == (change.bound == optimum)
    assert gained >= 5 and proved > 30


def test_a_new_device_is_linked_as_well_as_any() -> None:
    """Between single routes it gets the best of them; where links join all, it is joined as they say."""
    one = made([(4, 0, 3), (5, 0, 2), (3, 0, 0)], FORK)
    routes = (
        Route(source="d0", target="d1", latency_ns=3.0, bytes_per_ns=2.0, channels=("a",)),
        Route(source="d1", target="d0", latency_ns=1.0, bytes_per_ns=1.0, channels=("a",), gap_ns=2),
    )
    single = one.replace(system=one.system.replace(links=None, routes=routes))
    new = [route for route in with_device(single.system, "gpu").routes if "more0" in (route.source, route.target)]
    assert len(new) == 4 and {(r.latency_ns, r.bytes_per_ns, r.gap_ns) for r in new} == {(1.0, 2.0, 0)}
    assert len({r.channels for r in new}) == 4
    linked = with_device(one.system, "gpu")
    assert linked.routes == () and linked.devices[-1].name == "more0" and len(linked.devices) == 3
    named = one.system.replace(devices=tuple(d.replace(name=f"more{i}") for i, d in enumerate(one.system.devices)))
    assert with_device(named, "gpu").devices[-1].name == "more2"


def test_settings_make_the_changed_instance() -> None:
    """What `--set` is said to take gives the instance that was solved."""
    from chipmap.inputs.reading import decode

    checked = 0
    for seed in range(12):
        instance = random_instance(seed=seed, memory=0.9, task={"memory": "live", "limit_ns": 40})
        for trial in changes(placement_problem(instance), True) + changes(placement_problem(instance), False):
            if trial.setting:
                made_so = decode(instance.to_json(), "x", [trial.setting])
                assert made_so == trial.instance, trial
                checked += 1
    assert checked > 40


@pytest.mark.parametrize("name", sorted(infeasible()))
def test_explain_without_a_placement(name: str) -> None:
    """The reason with its remedy, and a change that helps: one for each label of the clash can be left out."""
    _, instance = infeasible()[name]
    found = explain(instance, options=short(10))
    assert (found.status, found.objective) == ("infeasible", None)
    assert found.statements[0].message in ("No schedule exists (proved).", "No placement exists (proved).")
    assert any(one.topic == "clash" and "Remedy: " in one.message for one in found.statements)
    helps = [one for one in found.changes if one.standing == "proved"]
    assert helps
    trials = {one.what: one.instance for one in changes(placement_problem(instance), True)}
    for change in found.changes:
        best, _ = brute_force(trials[change.what], check)
        assert best == change.objective and (change.standing == "infeasible") == (best is None)


def test_throughput_names_the_device_that_sets_the_pace() -> None:
    instance = made([(3, 0, 4), (6, 0, 2), (3, 0, 0)], [(0, 1), (1, 2)], task=throughput(memory="none"))
    solution = PlacementSolution(devices={"v0": "d0", "v1": "d1", "v2": "d1"})
    found = explain(instance, solution, short(5))
    t2 = check(instance, solution).terms["T2"]
    said = next(one for one in found.statements if one.topic == "load")
    assert (said.figures["device"], said.figures["work_ns"], said.figures["sent_ns"], t2) == ("d1", 9, 4, 13)
    assert found.objective == brute_force(instance, check)[0] == 11 and found.status == "optimal"
    given = next(one for one in found.statements if one.topic == "given")
    assert "18.2% above the best one found, 11 ns" in given.message


def test_two_schedules_side_by_side() -> None:
    instance = made([(4, 0, 3), (5, 0, 2), (3, 0, 0)], FORK)
    one = PlacementSolution(devices=dict.fromkeys(("v0", "v1", "v2"), "d0"), start={"v0": 0, "v1": 4, "v2": 9})
    two = one.replace(devices={**one.devices, "v1": "d1"}, start={"v0": 0, "v1": 0, "v2": 7},
                      transfers=(Transfer(tensor=1, to="d0", start=5),))  # fmt: skip
    assert [check(instance, s).objective for s in (one, two)] == [12, 10]
    found = explain(instance, one, short(3), against=two).difference
    assert found is not None and (found.before.objective, found.after.objective) == (12, 10)
    rows = {(row["resource"], row["quantity"]): (row["before"], row["after"]) for row in found.resources}
    assert rows["operations", "on_another_device"] == (0, 1) and rows["d1", "operations"] == (0, 1)
    assert rows["critical chain", "transfers_ms"] == (0, 2e-6)
    assert not explain(instance, one, short(2), against=one).difference.resources  # type: ignore[union-attr]


def test_a_schedule_that_is_refused_or_of_something_else() -> None:
    instance = made([(4, 0, 3), (5, 0, 2), (3, 0, 0)], FORK)
    early = PlacementSolution(devices=dict.fromkeys(("v0", "v1", "v2"), "d0"), start={"v0": 0, "v1": 4, "v2": 8})
    found = explain(instance, early, short(3))
    assert found.given is not None and not found.given.feasible
    assert "refused" in found.statements[0].message and "C2" in found.statements[0].message
    with pytest.raises(InputError, match="'v0' has no device"):
        explain(instance, PlacementSolution(devices={"x": "d0"}, start={"x": 0}), short(1))


def test_a_large_schedule_is_explained_before_anything_is_solved() -> None:
    """Whatever the time: the first explanation is about the schedule at hand, with a bound and both sums."""
    step = training_step("gnmt", SMALL, devices=4)
    problem, told = placement_problem(step), list[Explanation]()
    work = workspace(problem)
    device, none = human.split(problem, "time"), np.zeros(problem.operations, dtype=np.int64)
    simulate(tables(problem), device, default_keys(problem), False, none, NEVER, work)
    solution = schedule(problem, device, work)
    explain(step, solution, short(0.5), told=told.append)
    t1 = check(step, solution).terms["T1"]
    first = told[0]
    assert first.terms == {"T1": t1} and 0 < (first.bound or 0) <= t1
    parts = ("compute_ns", "transfer_ns", "device_ns", "channel_ns", "rest_ns", "idle_ns")
    sums = [one.figures for one in first.statements if "compute_ns" in one.figures]
    assert [sum(one[part] for part in parts) for one in sums] == [t1, t1]


def test_the_command_shows_units(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "placement/tiny-pair", "--time-limit", "120", "--quiet", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["unit"], shown["term_units"], shown["family"]) == ("ms", {"T1": "ms"}, "placement")
    assert shown["objective"] == shown["terms"]["T1"]
    assert main(["explain", "placement/tiny-live", "--time-limit", "120", "--quiet"]) == 2
    text = capsys.readouterr().out
    assert "No schedule exists (proved)." in text and "twice the memory" in text
    assert main(["explain", "placement/tiny-throughput", "--time-limit", "120", "--quiet"]) == 0
    assert "sets the pace" in capsys.readouterr().out
