"""Weight updates that run late (ZB-H1): the page's case, a run event by event, random instances against brute force."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any, NamedTuple

import pytest

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.instance import DataflowSolution, Degrees
from chipmap.instances.dataflow.late import late_moments
from chipmap.methods.dataflow.bounds import bounds
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import InputError
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed, run_of
from tests.dataflow.pairs_run import held
from tests.dataflow.random_instances import made, mixed_instance, outside_instance, with_little_dram
from tests.lanes import of_all

ROW = Degrees(pipeline=2, dimensions=("pipeline",))
MAPPING = DataflowSolution(degrees=ROW, schemes=("NONE",) * 3, partitions=(0, 1, 2))
#: A kernel that computes 307,200 FLOP a nanosecond on an SN10 at its whole peak.
ONE: dict[str, Any] = {"output_bytes": 0, "weight_bytes": 0, "schemes": ["NONE"]}
NS = 307_200


class Passes(NamedTuple):
    """Times of a stage's three passes."""

    forward: int
    backward: int
    update: int


ALIKE = Passes(100, 100, 100)


def staged(times: Passes = ALIKE, **parameters: Any) -> DataflowInstance:
    """Two stages of a layer, four samples one by one, kernel by kernel."""
    kernels = {
        "a": {**ONE, "flop": times.forward * NS, "output_bytes": 1000},
        "x": {**ONE, "flop": times.backward * NS, "output_bytes": 500, "phase": "backward"},
        "u": {**ONE, "flop": times.update * NS, "phase": "backward", "update": True},
    }
    given: dict[str, Any] = {"layers": 2, "degrees": ROW, "utilisation": 1.0, "memory_gbps": 1e12, "fused": False}
    return made(kernels, "ax au xu", **{**given, "schedule": "zb-h1", "purpose": "training", **parameters})


def ticks(instance: DataflowInstance) -> int:
    """The objective of the mapping, kernel by kernel."""
    objective = check(instance, MAPPING).objective
    assert objective is not None
    return objective


@pytest.mark.parametrize(
    ("times", "late", "run_takes"),
    [((100, 100, 100), 1300, 1300), ((100, 160, 40), 1420, 1420), ((40, 100, 160), 1420, 1300)],
)
def test_the_page(times: tuple[int, int, int], late: int, run_takes: int) -> None:
    """The page's table, and what every method says."""
    each = Passes(*times)
    assert abs(ticks(staged(each, schedule="1f1b")) - 1_500_000) <= 100
    objective = ticks(staged(each))
    assert abs(objective - 1000 * late) <= 100  # a picosecond for each transfer to DRAM, which is next to free here
    for method in (auto, mip, cpsat):
        run = run_of(staged(each), method)
        assert run.upper == objective and run.lower is not None and run.lower.value == objective
    assert simulated(2, 4, each)[0] == run_takes


def test_dram() -> None:
    """Gradients wait for a micro-batch more than with 1f1b: 500 bytes, and in a byte less nothing fits."""
    for schedule, need in (("1f1b", 2500), ("zb-h1", 3000)):
        for limit in (need, need - 1):
            instance = staged(schedule=schedule, dram_bytes=limit, optimizer_bytes=0)
            certificate = check(instance, MAPPING)
            assert certificate.figures["dram_bytes"] == need and certificate.feasible is (limit == need)
            for method in (auto, mip, cpsat):
                assert (run_of(instance, method).best is not None) is (limit == need)


def test_few_micro_batches_and_one_stage() -> None:
    """With one micro-batch nothing can be put off but what runs while the gradients go back; without a pipeline nothing
    is saved."""
    one = staged(batch=1)
    assert abs(ticks(one) - (2 * 300 - 100) * 1000) <= 100
    assert simulated(2, 1, ALIKE)[0] == 500
    alone = MAPPING.replace(degrees=Degrees(data=2, dimensions=("data",)))
    free = staged(degrees=None)
    assert check(free, alone).objective == check(staged(degrees=None, schedule="1f1b"), alone).objective


def test_sums_behind_updates() -> None:
    """Only a layer's updates, 100 ns, lie between its last gradients and those of the next."""
    degrees = Degrees(data=2, pipeline=2, dimensions=("data", "pipeline"))
    given: dict[str, Any] = {"sizes": [2, 2], "layers": 4, "degrees": degrees, "overlap_gradients": True}
    for schedule, left in (("1f1b", 400), ("zb-h1", 400 + 300)):
        instance = staged(schedule=schedule, **given)
        kernels = [one.replace(output_bytes=10_000) if one.update else one for one in instance.workload.kernels]
        kernels[1] = kernels[1].replace(flop=400 * NS)
        instance = instance.replace(workload=instance.workload.replace(kernels=kernels))
        assert check(instance, MAPPING.replace(degrees=degrees)).terms["T6"] == 1000 * left  # 10,000 / 25 each


def order(stages: int, rounds: int, s: int) -> list[tuple[int, int]]:
    """(pass, micro-batch) in the order in which stage s runs them; passes are numbered as in :class:`Passes`."""
    begun = min(rounds, stages - s)
    found = [(0, i) for i in range(begun)]
    for i in range(rounds):
        found.append((1, i))
        if i >= s:
            found.append((2, i - s))
        if begun < rounds:
            found.append((0, begun))
            begun += 1
    return found + [(2, i) for i in range(max(0, rounds - s), rounds)]


def simulated(stages: int, rounds: int, times: Passes) -> tuple[int, int, int]:
    """When all is done, the most micro-batches between F and W on any stage, and the most between B and W."""
    todo = [order(stages, rounds, s) for s in range(stages)]
    clock, held, waiting = [0] * stages, [[0, 0, 0] for _ in range(stages)], [0, 0]
    done: dict[tuple[int, int, int], int] = {}
    while any(todo):
        before = len(done)
        for s in range(stages):
            while todo[s]:
                kind, i = todo[s][0]
                last = s == stages - 1
                needs = [(0, s - 1, i), (0, s, i) if last else (1, s + 1, i), (1, s, i)][kind]
                if needs not in done and not (kind == 0 and s == 0):
                    break
                clock[s] = done[kind, s, i] = max(clock[s], done.get(needs, 0)) + times[kind]
                held[s][kind] += 1
                waiting = [max(waiting[0], held[s][0] - held[s][2]), max(waiting[1], held[s][1] - held[s][2])]
                todo[s].pop(0)
        assert len(done) > before
    return max(clock), waiting[0], waiting[1]


def formula(stages: int, rounds: int, times: Passes, least: int) -> int:
    """The page's."""
    whole = sum(times)
    return rounds * whole + (stages - 1) * (whole - least) - (min(rounds, stages) - 1) * least


@pytest.mark.parametrize("stages", range(1, 8))
def test_passes_of_equal_length(stages: int) -> None:
    """The formula is what an event-by-event run takes, and no stage has more micro-batches than there are stages."""
    for rounds in range(1, 21):
        span, held, late = simulated(stages, rounds, Passes(1, 1, 1))
        assert span == formula(stages, rounds, Passes(1, 1, 1), 1)
        assert held == min(stages, rounds) and late <= held


def test_moments() -> None:
    """At no time does a stage hold more than at the page's moments, and some stage does at each of them, by layers."""
    for stages in range(2, of_all(7, few=5)):
        for rounds, layers in ((1, 2), (stages, 1), (stages + 1, 2), (3 * stages, 3)):
            degrees = Degrees(pipeline=stages, dimensions=("pipeline",))
            instance = staged(sizes=[stages], layers=layers * stages, batch=rounds, degrees=degrees)
            moments = [(int(one.passes), int(one.late)) for one in late_moments(instance, degrees)]
            orders = ([(("FBW"[kind], 0, i),) for kind, i in order(stages, rounds, s)] for s in range(stages))
            ran = {one for passes in orders for one in held(passes, layers)}
            assert {*moments} <= ran
            for x, y in ((1, 0), (0, 1), *((1 + k % 7, 1 + k % 11) for k in range(30)), (1, 40)):
                assert max(x * a + y * b for a, b in ran) == max(x * a + y * b for a, b in moments)


def test_passes_of_any_length() -> None:
    """The run takes no longer than the formula; just as long where updates are the shortest and there are as many
    micro-batches as stages."""
    random, equal = Random(0), 0
    for _ in range(2000):
        stages, rounds = random.randint(1, 6), random.randint(1, 14)
        times = Passes(*(random.randint(0, 9) for _ in range(3)))
        span = simulated(stages, rounds, times)[0]
        assert span <= formula(stages, rounds, times, min(times))
        if times.update == min(times) and rounds >= stages:
            published = rounds * sum(times) + (stages - 1) * (times.forward + times.backward - times.update)
            assert span == published == formula(stages, rounds, times, min(times))
            equal += 1
    assert equal > 100


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mode": "dfmodel"}, "mode dfmodel"),
        ({"fused": True}, "kernels are fused"),
        ({"chunks": 2}, "one part of the network in schedule zb-h1"),
        ({"across_layers": True, "degrees": None}, "partitions reach across layers"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        staged(**changes)
    with pytest.raises(InputError, match="reads what a weight update makes"):
        kernels = {"u": {**ONE, "update": True, "phase": "backward"}, "x": {**ONE, "phase": "backward"}}
        made(kernels, "ux", fused=False, schedule="zb-h1")
    with pytest.raises(InputError, match="no kernel is a weight update"):
        made({"a": {**ONE, "flop": 1}}, "", fused=False, schedule="zb-h1")


def random_late(random: Random) -> DataflowInstance | None:
    """A random instance with features of all kinds whose updates run late; None where it can't be, or has too many
    mappings."""
    instance = random.choice((mixed_instance, outside_instance, outside_instance))(random)
    task = instance.task
    if task.across_layers or task.stages == "kernels" or not any(one.update for one in instance.workload.kernels):
        return None
    capacity = instance.system.memory.capacity_bytes
    task = task.replace(schedule="zb-h1", fused=False, together=(), utilisation=task.utilisation or 0.9)
    task = task.replace(overlap_gradients=task.purpose == "training" and random.random() < 0.3, partitions=None)
    task = task.replace(exactly=False, micro_batch=random.choice((1, 1, None)), batch=random.choice((4, 8)))
    if random.random() < 0.3 and {one.phase for one in instance.workload.kernels} == {"forward", "backward"}:
        task = task.replace(recompute=None)
    system = instance.system.replace(memory=instance.system.memory.replace(capacity_bytes=None))
    workload = instance.workload.replace(layers=random.choice((2, 4)))
    instance = instance.replace(task=task, mode="physical", system=system, workload=workload)
    try:
        instance.check()
    except InputError:
        return None
    if not 0 < count(instance) <= 500:
        return None
    return with_little_dram(instance, random) if capacity is not None else instance


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried: Counter[str] = Counter()
    for seed in range(44 * block, 44 * block + 44):
        instance = random_late(Random(seed))
        if instance is None:
            continue
        _, mapping = agreed(instance, seed, (bounds,), tolerance=1e-6)
        tried["all"] += 1
        tried["pipelines"] += mapping is not None and mapping.degrees.pipeline > 1
    assert tried["all"] >= 5 and tried["pipelines"], tried
