"""Stages with unequal numbers of layers, and the network's ends: random instances against brute force, the page's own
formulas, an event-by-event run, layouts of Megatron-LM."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from chipmap.explaining.dataflow.spent import spent
from chipmap.inputs.reading import generate
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.instance import Degrees
from chipmap.instances.dataflow.workload import Kernel
from chipmap.methods.dataflow.bounds import bounds
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.plans.layers import megatron
from chipmap.plans.plan import EmitOptions
from chipmap.records import InputError
from chipmap.run import Run
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed, run_of
from tests.dataflow.random_instances import made, mixed_instance, outside_instance, tiny_instance
from tests.dataflow.test_schedules import ROW, simulated
from tests.lanes import of_all


def end_kernels(random: Random, names: str, training: bool) -> tuple[Kernel, ...]:
    """A few kernels of an end, one scheme each; the last ones backward where there is a backward phase."""
    found = []
    for i, name in enumerate(names):
        backward = training and i >= len(names) / 2
        sizes = {"M": random.choice((2, 4, 8)), "N": random.choice((2, 4))}
        if random.random() < 0.6:
            gemm = {"K": random.choice((4, 8)), "weights": True, "update": backward and random.random() < 0.5}
            schemes = ("M",) if gemm["update"] else (random.choice(("M", "K")),)
            one = Kernel.make(name=name, kind="gemm", **sizes, **gemm, schemes=schemes)
        else:
            table = 0 if backward else random.choice((0, 0, 512))
            one = Kernel.make(name=name, kind="elementwise", **sizes, table_bytes=table, schemes=("NONE",))
        found.append(one.replace(phase="backward" if backward else "forward"))
    return tuple(found)


def random_uneven(random: Random) -> DataflowInstance | None:
    """A random instance whose stages may have unequal numbers of layers, perhaps with ends; None where it can't be."""
    instance = random.choice((mixed_instance, outside_instance, outside_instance, tiny_instance))(random)
    task, workload = instance.task, instance.workload
    if task.across_layers or task.stages == "kernels" or workload.counted != "tokens":
        return None
    layers, training = random.choice((1, 2, 3, 3, 4)), any(one.phase == "backward" for one in workload.kernels)
    first = end_kernels(random, "uv"[: random.choice((0, 1, 2))], training)
    last = end_kernels(random, "xyz"[: random.choice((0, 1, 2, 3))], training)
    pairs = [(a, b) for part in ("uv", "xyz") for a in part for b in part if a < b and random.random() < 0.6]
    names = {one.name for one in (*first, *last)}
    edges = tuple(one for one in pairs if names.issuperset(one))
    workload = workload.replace(layers=layers, first=first, last=last, end_edges=edges)
    schedule = random.choice(("1f1b", "1f1b", "interleaved", "interleaved-lean"))
    plan = {"schedule": schedule, "chunks": None, "stage_layers": None, "keep": None, "overlap_gradients": False}
    task = task.replace(**plan, batch=random.choice((2, 4)), utilisation=task.utilisation or 0.9)
    memory = instance.system.memory.replace(capacity_bytes=None)
    system = instance.system.replace(memory=memory)
    try:
        instance = instance.replace(workload=workload, task=task, system=system, mode="physical")
        instance.check()
        if count(instance) > 600:
            return None
        mappings = list(candidates(instance))
    except InputError:
        return None
    if mappings and random.random() < 0.6:  # the DRAM of some mapping, or a byte less
        limit = round(check(instance, random.choice(mappings)).figures["dram_bytes"]) - random.choice((0, 0, 1))
        if limit > 0:
            limited = instance.replace(system=system.replace(memory=memory.replace(capacity_bytes=limit)))
            given = random.choice(mappings).stage_layers
            alone = given and random.random() < 0.2 and schedule == "1f1b"
            return limited.replace(task=task.replace(stage_layers=given)) if alone else limited
    return instance if mappings else None


@pytest.mark.parametrize("block", range(of_all(5, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    """All of 500 seeds (about 250 instances) in the long run, 36 in the short one."""
    tried: Counter[Any] = Counter()
    for seed in range(100 * block, 100 * block + of_all(100, few=36)):
        instance = random_uneven(Random(seed))
        if instance is None:
            continue
        optimum, mapping = agreed(instance, seed, (bounds,))
        tried["instances"] += 1
        tried["none"] += optimum is None
        if mapping is not None:
            tried["uneven"] += len(set(mapping.stage_layers)) > 1
            tried["ends"] += bool(instance.workload.first or instance.workload.last)
            tried["pipeline"] += mapping.degrees.pipeline > 1
    assert tried["instances"] >= of_all(25, few=14), tried
    assert min(tried["uneven"], tried["ends"], tried["pipeline"]) >= of_all(5, few=3), tried


FOUR: dict[str, Any] = {"machine": "h100-sxm", "sizes": [4], "batch": 8}


def numbers_of(run: Run) -> tuple[int, ...]:
    """The layers of each chunk of the best mapping."""
    assert run.best is not None
    solution: Any = run.best.solution
    found: tuple[int, ...] = solution.stage_layers
    return found


def page_layers(instance: DataflowInstance, mapping: Any, terms: dict[str, int]) -> int:
    """The objective as the page states it, from T4 to T8 and the ends' times, read off pipelines of such layers."""
    stages, chunks = mapping.degrees.pipeline, mapping.chunks or 1
    rounds = instance.task.batch // (mapping.degrees.data * mapping.micro_batch)
    counts = mapping.stage_layers
    every = [layers * terms["T4"] for layers in counts]
    every[0] += end_time(instance, mapping, "first")
    every[-1] += end_time(instance, mapping, "last")
    return (rounds * chunks + stages - 1) * max(every) + terms["T5"] + terms["T6"] + terms["T8"]


def end_time(instance: DataflowInstance, mapping: Any, end: str) -> int:
    """T4 of a network whose layers are the end's kernels, each a partition of its own, in their order."""
    kernels = getattr(instance.workload, end)
    if not kernels:
        return 0
    names = {one.name for one in kernels}
    edges = tuple(edge for edge in instance.workload.end_edges if names.issuperset(edge))
    stages = mapping.degrees.pipeline
    of = {"kernels": kernels, "edges": edges, "carries": (), "first": (), "last": (), "end_edges": ()}
    of["layers"] = 2 * stages  # so that weights don't stay in SRAM
    plain: dict[str, Any] = {
        "stage_layers": (),
        "schedule": "1f1b",
        "chunks": None,
        "fused": False,
        "together": (),
        "partitions": None,
    }
    plain |= {"exactly": False, "schemes": {}, "recompute": False, "selective": (), "apart": (), "pins": ()}
    alone = instance.replace(workload=instance.workload.replace(**of), task=instance.task.replace(**plain))
    alone = alone.replace(system=alone.system.replace(memory=alone.system.memory.replace(capacity_bytes=None)))
    order = [one.name for one in kernels]
    given = {"schemes": tuple(one.schemes[0] for one in kernels), "partitions": tuple(range(len(order)))}
    one_layer = mapping.replace(**given, stage_layers=(), chunks=None, recompute=None)
    return check(alone, one_layer).terms["T4"]


def test_the_page() -> None:
    """Any mapping takes what the page's formula says, and numbers that aren't the network's break C0."""
    seen = 0
    for seed in range(60):
        instance = random_uneven(Random(seed))
        if instance is None:
            continue
        for mapping in list(candidates(instance))[::40]:
            certificate = check(instance, mapping)
            assert certificate.objective == page_layers(instance, mapping, certificate.terms), (seed, mapping)
            wrong = mapping.replace(stage_layers=(*mapping.stage_layers[:-1], mapping.stage_layers[-1] + 1))
            assert [one.label for one in check(instance, wrong).violations] == ["C0"]
            seen += 1
    assert seen > 100


def two_stages(layers: tuple[int, ...] | None, **task: Any) -> DataflowInstance:
    """Three layers of 100 ns on two stages, four micro-batches, an end of 100 ns."""
    kernel = {"flop": 30_720_000, "output_bytes": 0, "weight_bytes": 0, "schemes": ["NONE"]}
    plain = {"utilisation": 1.0, "purpose": "prefill", "layers": 3, "memory_gbps": 1e9, "batch": 4, "sizes": [2]}
    made_ = made({"a": kernel}, "", **plain, stage_layers=layers, degrees=ROW, **task)
    head = Kernel.make(name="h", kind="opaque", **kernel)
    return made_.replace(workload=made_.workload.replace(last=(head,)))


@pytest.mark.parametrize("method", [auto, mip, cpsat])
def test_the_page_example(method: Any) -> None:
    for layers, ns in (((2, 1), 1000), ((1, 2), 1500), (None, 1000)):
        run = run_of(two_stages(layers), method)
        assert run.upper == 1000 * ns and numbers_of(run) == (layers or (2, 1))


@pytest.mark.parametrize(("stages", "chunks", "rounds"), [(2, 1, 4), (3, 1, 5), (2, 2, 4), (4, 2, 8)])
def test_no_run_takes_longer(stages: int, chunks: int, rounds: int) -> None:
    """Event by event, passes as long as their chunk: never above m · v + PP - 1 times the longest."""
    random = Random(7 * stages + chunks)
    for _ in range(20):
        lengths = [random.randint(0, 4) for _ in range(stages * chunks)]
        for ahead in (1, 2):
            span, _ = simulated(stages, chunks, rounds, 0.0, ahead, lengths)
            assert span <= 3 * max(lengths) * (rounds * chunks + stages - 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"stage_layers": (1, 1)}, "are 2 layers of 3"),
        ({"stage_layers": ()}, "Set task.stage_layers to null"),
        ({"stage_layers": (1, 1, 1)}, "no multiple of 2 stages"),
        ({"schedule": "interleaved", "chunks": 3}, "are too many for 3 layers"),
        ({"overlap_gradients": True}, "overlap_gradients"),
        ({"mode": "dfmodel"}, "mode dfmodel"),
    ],
)
def test_what_a_task_may_say(changes: dict[str, Any], says: str) -> None:
    instance, mode = two_stages(None), changes.pop("mode", "physical")
    with pytest.raises(InputError, match=says):
        instance.replace(task=instance.task.replace(**changes), mode=mode).check()


def test_the_remedy_of_a_training_step() -> None:
    """Stages that don't divide the layers: what is told helps, and isn't refused next."""
    shape = {"model": "llama3-8b", "layers": 6, "backward": True, "step": "forward", **FOUR}
    degrees = Degrees(pipeline=4, dimensions=("pipeline",))
    with pytest.raises(InputError) as error:
        generate("dataflow-llama", **shape, degrees=degrees)
    assert "task.stage_layers to null" in error.value.remedy and "kernels" not in error.value.remedy
    instance: Any = generate("dataflow-llama", **shape, degrees=degrees, stage_layers=None)
    assert sorted(numbers_of(run_of(instance))) == [1, 1, 2, 2]


def test_layouts_of_megatron() -> None:
    """What `emit` writes `adopt` reads: embedding and head at the ends, unequal layers between."""
    shape = {"model": "llama3-8b", "layers": 6, "backward": True, "step": "forward", **FOUR}
    degrees = Degrees(pipeline=4, dimensions=("pipeline",))
    instance: Any = generate("dataflow-llama", **shape, degrees=degrees, staged_ends=True, micro_batch=1)
    run = run_of(instance)
    assert run.best is not None
    text, counts = str(megatron.emit(instance, run.best.solution, EmitOptions())["megatron.sh"]), numbers_of(run)
    assert "--pipeline-model-parallel-layout" in text and len(set(counts)) > 1
    adopted = megatron.adopt(instance, text.encode(), "plan")
    assert adopted.pinned is not None and adopted.pinned.task.stage_layers == counts  # type: ignore[attr-defined]


def test_where_the_time_goes() -> None:
    """The parts of the batch's time, the ends' among them, add up to it."""
    instance = two_stages(None)
    run = run_of(instance)
    assert run.best is not None
    mapping: Any = run.best.solution
    parts = spent(instance, mapping, check(instance, mapping).terms).parts
    assert parts == {"compute": 400_000, "ends": 400_000, "bubble": 200_000}
