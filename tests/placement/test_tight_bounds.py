"""The arrays, bounds, decoder and models of ``placement`` on tiny instances: by the page, by hand and by brute force.

Kernels run as plain Python (:func:`~chipmap.kernels.plainly`), so that nothing is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice, product
from random import Random
from typing import Any

import numpy as np
import pytest

from chipmap.deadline import Deadline
from chipmap.formulations.placement import cpsat, cpsat_units, mip
from chipmap.formulations.placement.cpsat_builder import PlacementCpChoices
from chipmap.formulations.placement.narrowing import Narrowing
from chipmap.heuristics.placement.bounds import ancestors, price_bound, same_device_bound
from chipmap.heuristics.placement.bounds import simple as bounds
from chipmap.heuristics.placement.bounds.packing import bins, packing
from chipmap.heuristics.placement.bounds.simple import HeadsAndTails
from chipmap.heuristics.placement.keys import default_keys, latest, upward_rank
from chipmap.heuristics.placement.simulation.backward import backward
from chipmap.heuristics.placement.simulation.simulator import NEVER, schedule, simulate
from chipmap.heuristics.placement.simulation.tables import tables, workspace
from chipmap.instances.placement import DeviceClass, Links, Pin, PlacementInstance
from chipmap.instances.placement.generators import random_instance
from chipmap.instances.placement.problem import PlacementProblem, placement_problem
from chipmap.kernels import plainly
from chipmap.solvers import solve_model
from chipmap.solvers.outcome import SolveRequest
from chipmap.validation.brute_force import brute_force, candidates
from chipmap.validation.placement.checker import check
from tests.placement.page import Page
from tests.placement.page_instances import page_instance
from tests.placement.random_instances import CHAIN, FORK, made, throughput, tiny_instance
from tests.placement.test_at_once import in_order
from tests.placement.test_backward import holds

FOREVER = Deadline()


def few(instance: PlacementInstance, most: int) -> bool:
    """Whether brute force tries two solutions or more, and no more than so many."""
    return 2 <= sum(1 for _ in islice(candidates(instance), most + 1)) <= most


@pytest.fixture(autouse=True)
def in_plain_python() -> Iterator[None]:
    with plainly():
        yield


def test_the_arrays_are_those_of_the_page() -> None:
    """Times, devices, bytes, readers, outputs, copies, groups and routes of 250 random instances."""
    for seed in range(250):
        instance = page_instance(Random(seed))
        page, problem = Page(instance), placement_problem(instance)
        names, devices = problem.names, problem.device_names
        at = {v: i for i, v in enumerate(page.placed)}
        assert problem.position.tolist() == page.placed, seed
        for i, v in enumerate(page.placed):
            assert problem.time[i].tolist() == [page.time(v, d) for d in devices], (seed, names[i])
            assert problem.allowed[i].tolist() == [page.may_run(v, d) for d in devices], (seed, names[i])
            assert problem.weights[i] == page.ops[v].weight_bytes
        stored = problem.storages
        assert stored.tensor.tolist() == [one.tensor for one in page.storages], seed
        for s, one in enumerate(page.storages):
            found = int(stored.producer[s]), int(stored.bytes[s]), bool(stored.output[s]), {*stored.read_by(s)}
            assert found == (at[one.maker], one.bytes, one.output, {at[v] for v in one.readers}), seed
            assert bool(stored.resident[s]) == (page.ops[one.maker].role == "constant")
            for (a, source), (b, target) in product(enumerate(devices), repeat=2):
                route, kind = page.route(source, target) if a != b else None, int(problem.network.kind[a, b])
                assert (route is None) == (kind < 0), seed
                if route is not None:
                    assert int(stored.time[s, kind]) == page.send(one, route), seed
                    assert int(problem.network.gap[a, b]) == route.gap_ns
                    low = a * problem.devices + b
                    held = problem.network.channels[slice(*problem.network.channel_at[low : low + 2])].tolist()
                    assert tuple(problem.network.names[c] for c in held) == route.channels
        copies = sorted((size, tuple(sorted(at[v] for v in readers))) for size, readers in page.replicated)
        assert sorted(problem.copies) == copies, seed
        assert problem.gap.tolist() == [page.kind[page.device[d].kind].gap_ns for d in devices]
        group = list(range(len(at)))
        for members in ([at[page.at[name]] for name in names if page.at[name] in at] for names in instance.together):
            group = [min(members) if v in members else g for v, g in enumerate(group)]
        assert problem.group.tolist() == group, seed


def test_groups_that_share_an_operation_have_its_least_position() -> None:
    problem = placement_problem(made([(1, 0, 0)] * 4, [], together=(("v3", "v2"), ("v1", "v3"))))
    assert problem.group.tolist() == [0, 1, 1, 1]


@cache
def solved() -> tuple[tuple[PlacementInstance, int, Any], ...]:
    """Random instances of step time on up to three devices with their optima."""
    random, found = Random(31), list[tuple[PlacementInstance, int, Any]]()
    while len(found) < 40:
        instance = tiny_instance(random)
        if instance.task.objective == "step_time" and few(instance, 120):
            optimum, best = brute_force(instance, check)
            if optimum is not None:
                found.append((instance, optimum, best))
    return tuple(found)


def raised(problem: PlacementProblem) -> list[HeadsAndTails]:
    """Heads and tails as each bound raises them."""
    plain = bounds.heads_and_tails(problem, FOREVER)
    worked = ancestors.raised(problem, plain, FOREVER)
    return [
        plain,
        worked,
        same_device_bound.raised(problem, plain, False, FOREVER),
        same_device_bound.raised(problem, plain, True, FOREVER, nearest=2),
        same_device_bound.raised(problem, plain, True, FOREVER),
    ]


def test_no_bound_exceeds_an_optimum_and_all_are_met() -> None:
    met = dict.fromkeys(("path", "interval", "group", "target", "work", "memory"), 0)
    for instance, optimum, best in solved():
        problem = placement_problem(instance)
        with plainly():
            for w in raised(problem):
                for v, name in enumerate(problem.names):
                    end = best.start[name] + int(problem.time[v, problem.device_names.index(best.devices[name])])
                    assert w.head[v] <= best.start[name] and end + w.tail[v] <= optimum
                values = {
                    "path": bounds.path(w),
                    "interval": price_bound.interval(problem, w),
                    "group": bounds.group(problem, w),
                    "target": bounds.target(problem, w, 0, problem.horizon, FOREVER),
                    "work": price_bound.work(problem),
                    "memory": packing(problem, w, 0, problem.horizon, FOREVER),
                }
                for name, value in values.items():
                    assert value <= optimum, (name, instance)
                    met[name] += value == optimum
    assert min(met.values()) >= 2, met


def test_parts_lose_no_schedule_as_good_as_the_limit() -> None:
    """What ``parts`` says shares a device does so in an optimal schedule, the limit being the optimum."""
    joined = 0
    for instance, optimum, best in solved():
        problem = placement_problem(instance)
        with plainly():
            part = bounds.parts(problem, raised(problem)[-1], optimum).tolist()
        where = [best.devices[name] for name in problem.names]
        assert all(where[v] == where[p] for v, p in enumerate(part)), instance
        joined += part != problem.group.tolist()
    assert joined >= 5


def test_heads_by_hand() -> None:
    """A chain that may be cut at its cheapest tensor (2 ns), behind which two operations of 9 ns wait for a third.

    v0 (9 ns) makes what v1 reads, v2 (9 ns) what v3 reads, v4 reads v1 and v3. All on one device takes 20 until v4.
    With v2 elsewhere its tensor costs 2 ns before v3 or behind it, so that v4 starts at 12 at the earliest.
    """
    rows = [(9, 0, 5), (1, 0, 5), (9, 0, 2), (1, 0, 8), (1, 0, 0)]
    problem = placement_problem(made(rows, [(0, 1), (1, 4), (2, 3), (3, 4)]))
    w = bounds.heads_and_tails(problem, FOREVER)
    assert w.head.tolist() == [0, 9, 0, 9, 12] and w.tail.tolist() == [2, 1, 2, 1, 0]
    problem = placement_problem(made([(10, 0, 8), (10, 0, 8), (1, 0, 0)], FORK))
    assert bounds.heads_and_tails(problem, FOREVER).head.tolist() == [0, 0, 18]


def test_a_head_takes_the_least_transfer_of_a_path() -> None:
    """v0 and v1, 5 ns each, may run elsewhere and send v1's result in 1 ns, though v0's takes 8: v3 starts at 12."""
    problem = placement_problem(made([(5, 0, 8), (5, 0, 1), (12, 0, 1), (1, 0, 0)], [(0, 1), (1, 3), (2, 3)]))
    assert bounds.heads_and_tails(problem, FOREVER).head.tolist() == [0, 5, 0, 12]
    assert brute_force(problem.instance, check)[0] == 13


def test_brute_force_waits_for_bytes_to_be_freed() -> None:
    """v1's 3 bytes, an output, fit d0 once v0's are on d1: v0 0 to 2, sent 2 to 5, v1 5 to 7."""
    pins = tuple(Pin(operation=f"v{v}", device=d) for v, d in enumerate(("d0", "d0", "d1")))
    instance = made([(2, 0, 3), (2, 0, 3), (2, 0, 0)], [(0, 2)], memory=3, pins=pins)
    tensors = tuple(one.replace(output=one.producer > 0) for one in instance.graph.tensors)
    instance = instance.replace(graph=instance.graph.replace(tensors=tensors))
    assert brute_force(instance, check)[0] == 7


def test_sides_on_three_devices() -> None:
    """Three operations of 10 ns whose tensors take 1 ns feed one: two of them are on other devices, side by side."""
    problem = placement_problem(made([(10, 0, 1)] * 3 + [(1, 0, 0)], [(0, 3), (1, 3), (2, 3)], devices=3))
    w = bounds.heads_and_tails(problem, FOREVER)
    for probing in (False, True):
        assert same_device_bound.raised(problem, w, probing, FOREVER).head.tolist() == [0, 0, 0, 11]
    optimum, _ = brute_force(problem.instance, check)
    assert optimum == 12


def test_more_ancestors_raise_a_head() -> None:
    """v3 reads v0, v1 and v2; the tensor of v0, which v1 and v2 read, takes 20 ns to send: 21 with it, 19 without."""
    rows, edges = [(1, 0, 20), (10, 0, 8), (10, 0, 8), (1, 0, 0)], [(0, 1), (0, 2), (0, 3), (1, 3), (2, 3)]
    problem = placement_problem(made(rows, edges))
    w = bounds.heads_and_tails(problem, FOREVER)
    for nearest, start in ((2, 19), (3, 21), (256, 21)):
        for probing in (False, True):
            found = same_device_bound.raised(problem, w, probing, FOREVER, nearest)
            assert found.head.tolist() == [0, 1, 1, start], nearest
    assert brute_force(problem.instance, check)[0] == 22


def test_what_must_share_a_device_starts_at_its_heads() -> None:
    """v1 and v2 can't leave the device of v3 in time, and start behind v0, which may be anywhere: 10 + 2 · 10."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 3)]
    problem = placement_problem(made([(10, 0, 0), (10, 0, 99), (10, 0, 99), (1, 0, 0)], edges))
    plain = bounds.heads_and_tails(problem, FOREVER)
    lower = plain._replace(head=np.array([0, 10, 10, 20]))
    assert same_device_bound.raised(problem, lower, False, FOREVER).head.tolist() == [0, 10, 10, 30]


def test_a_tensor_between_two_other_devices_may_cost_nothing() -> None:
    """v1 reads v0 and both feed v2, which is pinned away from them: nothing is sent between v0 and v1."""
    problem = placement_problem(made([(3, 0, 1), (3, 0, 1), (9, 0, 2), (1, 0, 0)], [(0, 1), (1, 3), (2, 3), (0, 3)]))
    w = same_device_bound.raised(problem, bounds.heads_and_tails(problem, FOREVER), True, FOREVER)
    assert w.head.tolist() == [0, 3, 0, 9]
    assert brute_force(problem.instance, check)[0] == 10


def test_ancestors_share_two_and_three_devices() -> None:
    """Six operations of 10 ns without transfers before one: 30 on two devices, 20 on three."""
    for devices, start in ((2, 30), (3, 20)):
        problem = placement_problem(made([(10, 0, 0)] * 6 + [(1, 0, 0)], [(v, 6) for v in range(6)], devices))
        assert ancestors.raised(problem, bounds.heads_and_tails(problem, FOREVER), FOREVER).head[6] == start
    # a tensor of 4 ns each: k of them elsewhere are there 4 ns later; 17 on three devices, as 17 + 2 · 13 >= 42
    problem = placement_problem(made([(7, 0, 4)] * 6 + [(1, 0, 0)], [(v, 6) for v in range(6)], 3))
    found = ancestors.raised(problem, bounds.heads_and_tails(problem, FOREVER), FOREVER).head[6]
    assert found == 17


def test_work_and_interval_round_up_once() -> None:
    """Two operations of 3 ns on two devices take 3; with one of 1 ns more it is 4; a chain before them comes on top."""
    assert price_bound.work(placement_problem(made([(3, 0, 0)] * 2, []))) == 3
    assert price_bound.work(placement_problem(made([(3, 0, 0), (3, 0, 0), (1, 0, 0)], []))) == 4
    problem = placement_problem(made([(5, 0, 0), *[(4, 0, 0)] * 4], [(0, v) for v in range(1, 5)]))
    assert price_bound.interval(problem, bounds.heads_and_tails(problem, FOREVER)) == 5 + 8


def test_a_target_is_refuted_only_above_it() -> None:
    """One operation with two readers of 4 ns, and tensors of 2: cut, a step takes 1 + 2 + 4; on one device 9."""
    problem = placement_problem(made([(1, 0, 2), (4, 0, 0), (4, 0, 0)], [(0, 1), (0, 2)]))
    w = bounds.heads_and_tails(problem, FOREVER)
    assert bounds.target(problem, w, 0, problem.horizon, FOREVER) == 7 == brute_force(problem.instance, check)[0]
    # three parts on two devices: two of the least share one
    problem = placement_problem(made([(4, 0, 0), (4, 0, 0), (4, 0, 0)], []))
    w = bounds.heads_and_tails(problem, FOREVER)
    assert bounds.target(problem, w, 0, problem.horizon, FOREVER) == 8


def test_bins_that_just_fit() -> None:
    for sizes, room, fewest in (([6], 6, 1), ([4, 6], 10, 1), ([6, 6, 4, 4], 10, 2), ([7, 7, 4, 4], 10, 3), ([], 5, 0)):
        assert bins(np.array(sizes, dtype=np.int64), room) == fewest, sizes


def test_ranks_by_hand() -> None:
    """v0 -> v1, v2 -> v3: the longest way from each, transfers of 3 and 2 ns counted."""
    rows = [(1, 0, 3), (5, 0, 2), (9, 0, 2), (4, 0, 0)]
    problem = placement_problem(made(rows, [(0, 1), (0, 2), (1, 3), (2, 3)]))
    assert upward_rank(problem).tolist() == [1 + 3 + 9 + 2 + 4, 5 + 2 + 4, 9 + 2 + 4, 4]
    none = np.zeros(len(problem.storages), dtype=np.int64)
    assert latest(problem, bounds.least_times(problem), none).tolist() == [14, 9, 13, 4]
    rows[1], rows[2] = rows[2], rows[1]  # the other reader is the later one
    crossed = placement_problem(made(rows, [(0, 1), (0, 2), (1, 3), (2, 3)]))
    assert upward_rank(crossed).tolist() == [1 + 3 + 9 + 2 + 4, 9 + 2 + 4, 5 + 2 + 4, 4]


def test_schedules_hold_on_random_instances() -> None:
    """The decoder's, those in order and those run backwards: gaps, channels and transfers as the page has them."""
    random, made_, gaps = Random(8), 0, 0
    for _ in range(120):
        instance = random_instance(
            random.randint(3, 7),
            random.choice((2, 3)),
            links=random.choice(("none", "pair", "bus", "duplex", "host")),
            gap_ns=random.choice((0, 2, 3)),
            seed=random.randrange(10**6),
            task={"memory": "none", "weights": "variable"},
        )
        problem = placement_problem(instance)
        device = np.array([random.choice(np.flatnonzero(row).tolist()) for row in problem.allowed], dtype=np.int64)
        flat, work, none = tables(problem), workspace(problem), np.zeros(problem.operations, dtype=np.int64)
        with plainly():
            step = simulate(flat, device, default_keys(problem), False, none, NEVER, work)
            decoded = schedule(problem, device, work)
            rank = np.array(random.sample(range(problem.operations), problem.operations), dtype=np.int64)
            done = np.zeros(problem.operations, dtype=np.int64)
            last = backward(flat, device, rank, work, done)
        assert holds(problem, device, last - done, last), instance
        certificate = check(instance, decoded)
        assert certificate.feasible and certificate.objective == step, certificate.violations
        plain = in_order(problem, device)
        assert plain is not None and check(instance, plain).feasible, instance
        made_ += len(decoded.transfers)
        gaps += instance.system.classes[0].gap_ns > 0
    assert made_ > 100 and gaps > 20


def value(model: Any, solver: str) -> tuple[str, float | None, Any]:
    """(how it ends, its value, the outcome) of a model."""
    outcome = solve_model(model, SolveRequest(time_limit=60.0, threads=1), solver)
    return outcome.termination.reason, outcome.objective, outcome


@pytest.mark.parametrize(("module", "solver"), [(cpsat, "cpsat"), (mip, "highs")], ids=["cpsat", "mip"])
def test_a_model_has_the_optimum_of_instances_with_all_features(module: Any, solver: str) -> None:
    """Views, outputs, constants, gaps, routes, measured times, blocks and hosts: brute force's optimum, or none."""
    random, seen = Random(17), dict[tuple[str, str, bool], int]()
    for _ in range(180):
        instance = page_instance(random)
        if len(placement_problem(instance).names) > 4 or not few(instance, 60):
            continue
        optimum, _ = brute_force(instance, check)
        model = module.build(instance)
        reason, found, outcome = value(model, solver)
        key = instance.task.objective, instance.task.memory, optimum is None
        seen[key] = seen.get(key, 0) + 1
        if optimum is None:
            assert reason == "infeasible", instance
            continue
        assert reason == "optimal" and found == pytest.approx(optimum), instance
        certificate = check(instance, model.decode(outcome.value_of))
        assert certificate.feasible and certificate.objective == optimum, instance
    assert len(seen) >= 7 and sum(seen.values()) >= 40, seen


@pytest.mark.parametrize("solver", ["cpsat", "highs"])
def test_what_models_count_by_hand(solver: str) -> None:
    """Outputs to the end of the step, copies of constants, what is sent, what a backward operation may do."""
    module: Any = cpsat if solver == "cpsat" else mip
    wanted = [None, 6, 9, 8, 12, 8, 6, None]
    for instance, optimum in zip(by_hand(), wanted, strict=True):
        assert brute_force(instance, check)[0] == optimum
        reason, found, _ = value(module.build(instance), solver)
        assert (reason, found) == (("infeasible", None) if optimum is None else ("optimal", pytest.approx(optimum)))


def by_hand() -> list[PlacementInstance]:
    """Each is feasible only, or better only, where one rule is counted as the page has it."""
    output = made([(2, 0, 3), (2, 0, 3)], [], 1, memory=5)
    kept = tuple(one.replace(output=True) for one in output.graph.tensors)
    output = output.replace(graph=output.graph.replace(tensors=kept))
    pins = tuple(Pin(operation=f"v{v}", device=d) for v, d in enumerate(("d0", "d0", "d1")))
    rested = Links(bytes_per_ns=1.0, gap_ns=3)
    slow = made([(3, 0, 0), (3, 0, 0)], [], 1)
    slow = slow.replace(system=slow.system.replace(classes=(DeviceClass(name="gpu", gap_ns=2),)))
    table = made([(0, 0, 6), (3, 0, 0), (3, 0, 0)], [(0, 1), (0, 2)], memory=6, task={"memory": "static"})
    roles = [one.replace(role="constant") if i == 0 else one for i, one in enumerate(table.graph.operations)]
    copied = table.replace(graph=table.graph.replace(operations=tuple(roles)))
    small = copied.system.devices[1].replace(memory_bytes=5)
    copied = copied.replace(system=copied.system.replace(devices=(copied.system.devices[0], small)))
    back: dict[str, Any] = {"task": throughput(contiguous=True, memory="none"), "together": (("v0", "v2"),)}
    chain = [(3, 0, 1), (6, 0, 1), (3, 0, 1)]
    return [
        output,
        copied,
        made([(1, 0, 2), (1, 0, 2), (1, 0, 0)], FORK, links=rested, pins=pins),
        slow,
        made(chain, CHAIN, **back),
        made(chain, CHAIN, backward=("v2",), **back),
        made([(2, 0, 9), (2, 0, 9), (2, 0, 0)], FORK, task=throughput(memory="none")),
        made([(2, 4, 3), (2, 4, 3), (2, 0, 0)], FORK, memory=9, task=throughput()),
    ]


def test_the_model_of_units_counts_loads_and_bytes() -> None:
    """Loads of what is sent, and bytes of nets that a device touches: brute force's optimum."""
    random, compared = Random(5), 0
    while compared < 25:
        instance = tiny_instance(random)
        if instance.task.objective != "throughput" or not few(instance, 300):
            continue
        optimum, _ = brute_force(instance, check)
        reason, found, _ = value(cpsat_units.build(instance), "cpsat")
        assert (reason, found) == (("infeasible", None) if optimum is None else ("optimal", optimum)), instance
        compared += 1


def test_narrowing_at_the_optimum_loses_nothing() -> None:
    """Windows, parts and equal devices at the optimum itself: the model still has it."""
    for instance, optimum, _ in solved()[:25]:
        problem = placement_problem(instance)
        with plainly():
            w = raised(problem)[-1]
            part = bounds.parts(problem, w, optimum)
        known = Narrowing(optimum, tuple(w.head.tolist()), tuple(w.tail.tolist()), tuple(part.tolist()), bounds.path(w))
        model = cpsat.build(instance, PlacementCpChoices(narrowing=known, symmetry=True))
        reason, found, _ = value(model, "cpsat")
        assert (reason, found) == ("optimal", optimum), instance


def test_the_interval_bound_is_that_of_every_pair_of_a_head_and_a_tail() -> None:
    """So larger heads never lower it at the same prices; more heads than a grid of them would have are looked at."""
    random = np.random.default_rng(5)
    for n, most in ((1, 9), (7, 5), (40, 30), (260, 4_000)):
        head, tail, cost = (random.integers(0, most, n) for _ in range(3))
        for factor, devices in ((1, 3), (2**50, 8_000)):
            w = bounds.HeadsAndTails(head * factor, cost, tail * factor)
            value, behind = price_bound.largest_interval(w, cost * factor, devices)
            expected = 0
            for h, t in product(set(w.head.tolist()), set(w.tail.tolist())):
                if (within := (w.head >= h) & (w.tail >= t)).any():
                    expected = max(expected, h + t - (-int(cost[within].sum()) * factor // devices))
            assert value == expected
            own = int(w.head[behind].min()) + int(w.tail[behind].min()) - (-int(cost[behind].sum()) * factor // devices)
            assert own == value
