"""Training on groups of unequal chips: random instances against brute force as the page states the problem, the
schedule event by event, what a stage by itself holds, what is refused."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import ceil
from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.instance import Degrees
from chipmap.instances.dataflow.offers import NONE
from chipmap.instances.dataflow.system import Group, Link
from chipmap.instances.dataflow.unequal import kinds
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.methods.dataflow.unequal import Layered, Table
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import run_of
from tests.dataflow.random_instances import made
from tests.dataflow.test_schedules import simulated
from tests.dataflow.test_unequal import Stage, alone, asked, every_method, rows, transfer, with_groups
from tests.lanes import of_all


def trained(instance: DataflowInstance, stage: Stage, samples: int, left: int) -> DataflowInstance:
    """The layers of a stage on its chips, that holds what is saved as ``left`` stages do, with it and after it."""
    own = alone(instance, stage, samples)
    return own.replace(task=own.task.replace(in_flight=left))


def layer_time(instance: DataflowInstance, own: Any, known: dict[Any, int | None]) -> int | None:
    """The least T4 of any mapping that fits the chips of a stage (its row, samples, stages left), by trying all."""
    if own not in known:
        there = trained(instance, *own)
        judged = [check(there, one) for one in candidates(there)]
        known[own] = min((one.terms["T4"] for one in judged if one.feasible), default=None)
    return known[own]


def both_ways(instance: DataflowInstance, one: Stage, other: Stage, samples: int) -> int:
    """Picoseconds of the transfers between two stages, by the page."""
    workload = instance.workload
    phases = {kernel.name: kernel.phase for kernel in workload.kernels}
    forward = tuple(pair for pair in workload.carries if phases[pair[0]] == "forward")
    back = tuple(pair for pair in workload.carries if phases[pair[0]] == "backward") or forward
    there, here = (instance.replace(workload=workload.replace(carries=some)) for some in (forward, back))
    return transfer(there, one, other, samples) + transfer(here, other, one, samples)


def by_the_page(instance: DataflowInstance) -> int | None:
    """The optimum: all pipelines, all mappings of their stages, all micro-batches."""
    task, groups = instance.task, instance.system.groups
    known: dict[Any, int | None] = {}
    best: int | None = None
    every = list(rows(instance, instance.workload.layers, tuple(group.network.size for group in groups)))
    if task.stage_groups:
        wanted = [row for row in every if len(row) == len(task.stage_groups)]
        every = [row for row in wanted if all(map(asked(groups), row, task.stage_groups))]
    for samples in range(1, task.batch + 1):
        if task.batch % samples or task.micro_batch not in (None, samples):
            continue
        rounds = task.batch // samples
        for row in every:
            lefts = [min(rounds, len(row) - s) for s in range(len(row))]
            layers = [layer_time(instance, (s, samples, left), known) for s, left in zip(row, lefts, strict=True)]
            if None in layers:
                continue
            stages = [one.layers * (t or 0) for one, t in zip(row, layers, strict=True)]
            sent = [*(both_ways(instance, a, b, samples) for a, b in pairwise(row)), 0]
            each = [a + b for a, b in zip(stages, sent, strict=True)]
            time = sum(each) + (rounds - 1) * max(each) + rounds * ceil(1000 * instance.system.step_ns)
            best = time if best is None else min(best, time)
    return best


def random_training(random: Random) -> DataflowInstance:
    """A random step of one or two forward kernels with backward kernels and perhaps an update."""
    names = "ab"[: random.choice((1, 1, 2))]
    heads = random.choice((1, 1, 1, 2))
    sizes: dict[str, Any] = {"M": random.choice((4, 8)), "N": 16, "outer": heads}
    product_: dict[str, Any] = {"kind": "gemm", "K": random.choice((8, 64)), "weights": True}
    kernels: dict[str, dict[str, Any]] = {"a": {**product_, **sizes}}
    if len(names) == 2:
        kernels["b"] = {"kind": "elementwise", **sizes}
    back = {"phase": "backward", **sizes}
    kernels["x"] = {**product_, **back, **({"parameters_of": "a"} if random.random() < 0.5 else {"weights": False})}
    edges = ["ab"] * (len(names) == 2) + [names[-1] + "x"]
    if random.random() < 0.6:
        kernels["u"] = {**product_, **back, "weights": False, "update": True, "parameters_of": "a"}
        edges += ["xu"]
    plain = made(
        kernels,
        " ".join(edges),
        carries=names[-1] + "a" + random.choice(("", " xx")) if random.random() < 0.9 else "",
        layers=random.choice((1, 2, 2, 3)),
        purpose="training",
        sizes=[random.randint(1, 2)],
        topology=random.choice(("ring", "switch", "full")),
        link_gbps=random.choice((0.5, 4.0, 25.0)),
        memory_gbps=random.choice((5.0, 50.0)),
        sram_bytes=random.choice((20_000, 400_000)),
        batch=random.choice((2, 3, 4)),
        micro_batch=random.choice((None, 1, 1)),
        fused=random.random() < 0.15,
        overlap=random.random() < 0.7,
        recompute=random.choice((False, False, "full", None)),
        latency_ns=random.choice((0.0, 10.0)),
    )
    return with_groups(random, plain)


@pytest.mark.parametrize("block", range(of_all(8, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    """All of 240 instances in the long run, 6 in the short one."""
    tried: Counter[str] = Counter()
    for seed in range(30 * block, 30 * block + of_all(30, few=6)):
        instance = random_training(Random(seed))
        optimum = by_the_page(instance)
        mapping = every_method(instance, optimum, seed)
        tried["instances"] += 1
        tried["none"] += mapping is None
        if mapping is None:
            continue
        tried["several groups"] += len({one.group for one in mapping.stage_groups}) > 1
        tried["several stages"] += len(mapping.stage_groups) > 1
        tried["recomputed"] += len({one.recompute for one in mapping.stage_groups}) > 1
    assert min(tried["several groups"], tried["several stages"]) >= 1, tried


def test_all_mappings_one_by_one() -> None:
    """Brute force over whole mappings, each judged by the checker, agrees with brute force over pipelines."""
    seen = 0
    for seed in range(1000, of_all(1100, few=1012)):
        instance = random_training(Random(seed))
        if count(instance) <= of_all(400, few=100):
            assert brute_force(instance, check)[0] == by_the_page(instance), seed
            seen += 1
    assert seen >= of_all(5, few=1)


def test_a_stage_holds_what_the_first_of_equal_stages_holds() -> None:
    """The bytes of a stage by itself are those of the first of as many equal stages; other terms don't depend on it."""
    compared = 0
    for seed in range(of_all(200, few=4)):
        plain = random_training(Random(seed))
        for left in (1, 2, 3):
            own = trained(plain, Stage(0, plain.system.network[0].size, 1), 1, left)
            row = own.system.network[0].replace(size=left)
            degrees = Degrees(tensor=own.system.network[0].size, pipeline=left, dimensions=("tensor", "pipeline"))
            pipeline = own.replace(
                system=own.system.replace(network=(*own.system.network, row)),
                task=own.task.replace(degrees=degrees, in_flight=None),
                workload=own.workload.replace(layers=left),
            )
            one = next(candidates(own))
            several = check(pipeline, one.replace(degrees=degrees))
            assert check(own, one).figures["dram_bytes"] == several.figures["dram_bytes"], (seed, left)
            compared += 1
    assert compared


def three_layers(batch: int, dram_bytes: int | None = None) -> DataflowInstance:
    """The page's example: a layer takes 300 ns on a chip of group A, 600 ns on one of B, a transfer 50 ns each way."""
    kernel = {"flop": 30_720_000, "output_bytes": 50, "weight_bytes": 0, "schemes": ["NONE"]}
    back = {**kernel, "flop": 61_440_000, "output_bytes": 0, "phase": "backward"}
    plain = {"utilisation": 1.0, "purpose": "training", "layers": 3, "memory_gbps": 1e9, "batch": batch, "sizes": [1]}
    instance = made({"a": kernel, "x": back}, "ax", carries="aa", **plain, name="three", dram_bytes=dram_bytes)
    own = instance.system
    chip = own.chip.replace(ghz=own.chip.ghz / 2)
    others = (Group(name="B", chip=chip, memory=own.memory, network=own.network[0]),)
    return instance.replace(system=own.replace(name="A", others=others, between=Link(bytes_per_ns=1.0)))


@pytest.mark.parametrize("method", [auto, mip, cpsat])
@pytest.mark.parametrize(
    ("batch", "dram_bytes", "ns", "stages"),
    [(1, None, 900, ["A"]), (4, None, 3400, None), (4, 199, 3400, ["B", "A"]), (4, 99, None, None)],
)
def test_the_page_example(
    method: Any, batch: int, dram_bytes: int | None, ns: int | None, stages: list[str] | None
) -> None:
    run = run_of(three_layers(batch, dram_bytes), method)
    assert run.upper == (None if ns is None else 1000 * ns)
    if ns is None:
        assert run.proved_infeasible and {one.label for one in run.infeasibility} == {"C6"}
    elif stages:
        assert run.best is not None
        mapping: Any = run.best.solution
        assert [one.group for one in mapping.stage_groups] == stages
        turned = mapping.replace(stage_groups=mapping.stage_groups[::-1])
        if len(stages) > 1:
            assert {one.label for one in check(three_layers(batch, dram_bytes), turned).violations} == {"C6"}


@pytest.mark.parametrize("block", range(of_all(20, few=1)))
def test_no_run_takes_longer(block: int) -> None:
    """1F1B event by event, with a forward pass of 1 and a backward pass of 2 times a length of each stage."""
    random, shortest = Random(block), 1.0
    for _ in range(200):
        stages, rounds, hop = random.randint(1, 6), random.randint(1, 12), random.choice((0, 0, 1, 5))
        lengths = [random.choice((1, random.randint(0, 9))) for _ in range(stages)]
        took, held = simulated(stages, 1, rounds, hop, 1, lengths)
        assert held == [min(rounds, stages - s) for s in range(stages)]
        own = [(one + hop * (s < stages - 1), 2 * one + hop * (s < stages - 1)) for s, one in enumerate(lengths)]
        total, both = sum(map(sum, own)), max(map(sum, own))
        surely = total + (rounds - 1) * sum(map(max, zip(*own, strict=True)))
        assert took <= surely
        assert hop or took <= total + (rounds - 1) * both == surely
        shortest = min(shortest, took / (total + (rounds - 1) * both or 1))
    assert shortest < 1


def test_a_stage_that_is_not_found_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no mapping of a stage that holds two micro-batches was found in time, no pipeline has such a stage."""
    monkeypatch.setattr(Table, "most", 3)
    instance = three_layers(4)
    every = kinds(instance)
    table = Table(instance, 1, every, Run(instance, SolveOptions(), check), auto)
    found, late = Layered(100, 0, None), Layered(NONE, 0, None)
    rows = [dict.fromkeys((1, 2, 3), found), dict.fromkeys((1, 2, 3), late)]
    table.layered = [{1: rows[0], 2: rows[1], 3: rows[0]} for _ in every]
    offer = table.offer(proved=False)
    assert [int(offer.at(place)[0, 1]) for place in range(4)] == [100, NONE, 100, 100]


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ({"optimizer_step": True}, "no kernel is a weight update"),
        ({"shard": "optimizer"}, "no kernel is a weight update"),
        ({"in_flight": 2}, "isn't tensor parallelism alone"),
        ({"purpose": "prefill"}, "kernels run backward"),
        ({"schedule": "interleaved"}, "the schedule isn't 1f1b"),
    ],
)
def test_what_is_refused(task: dict[str, Any], says: str) -> None:
    instance = three_layers(4)
    with pytest.raises(InputError, match=says):
        instance.replace(task=instance.task.replace(**task)).check()


def test_updates_name_what_they_update() -> None:
    instance = three_layers(4)
    a, x = instance.workload.kernels
    kernels = (a.replace(weight_bytes=10), x.replace(update=True))
    named = (kernels[0], kernels[1].replace(parameters_of="a"))
    for own, refused in ((kernels, True), (named, False)):
        there = instance.replace(workload=instance.workload.replace(kernels=own))
        if refused:
            with pytest.raises(InputError, match="no update names the weights of 'a'"):
                there.check()
        else:
            there.check()
            for field, says in (("optimizer_step", "step counts"), ("overlap_gradients", "gradients are summed")):
                with pytest.raises(InputError, match=says):
                    there.replace(task=there.task.replace(**{field: True})).check()
