"""Groups of unequal chips, with a degree of tensor parallelism for each stage: random instances against brute force as
the page states the problem, mappings against the page's formulas, what is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from math import ceil
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from chipmap.explaining.dataflow.explain import explain
from chipmap.inputs.reading import generate
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.instance import AskedStage, Degrees
from chipmap.instances.dataflow.system import Group, Link
from chipmap.methods.dataflow.bounds import bounds
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.methods.dataflow.two_pass import two_pass
from chipmap.records import InputError
from chipmap.report.dataflow.plots import plot
from chipmap.run import Run, SolveOptions
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import run_of
from tests.dataflow.random_instances import made
from tests.lanes import LONG, of_all


class Stage(NamedTuple):
    """A row of the page's pipeline: the place of its group, chips, layers."""

    group: int
    chips: int
    layers: int


def alone(instance: DataflowInstance, stage: Stage, samples: int) -> DataflowInstance:
    """The layers of a stage on its chips, as a plain network without a pipeline."""
    group = instance.system.groups[stage.group]
    plain: dict[str, Any] = {"others": (), "between": None, "step_ns": 0.0}
    system = instance.system.replace(
        chip=group.chip, memory=group.memory, network=(group.network.replace(size=stage.chips),), **plain
    )
    degrees = Degrees(tensor=stage.chips, dimensions=("tensor",))
    task = instance.task.replace(degrees=degrees, micro_batch=samples, stage_groups=())
    return instance.replace(system=system, task=task, workload=instance.workload.replace(layers=stage.layers))


def layer_time(instance: DataflowInstance, stage: Stage, samples: int, known: dict[Any, int | None]) -> int | None:
    """The least T4 of any mapping that fits the stage's chips, by trying all."""
    key = stage, samples
    if key not in known:
        own = alone(instance, stage, samples)
        judged = [check(own, one) for one in candidates(own)]
        known[key] = min((one.terms["T4"] for one in judged if one.feasible), default=None)
    return known[key]


def transfer(instance: DataflowInstance, one: Stage, other: Stage, samples: int) -> int:
    """Picoseconds between two stages, by the page."""
    system, total = instance.system, 0
    inside = system.groups[other.group].network
    between: Any = inside if one.group == other.group else system.between
    for name in {u for u, _ in instance.workload.carries}:
        kernel = next(k for k in instance.workload.kernels if k.name == name)
        size = kernel.outer * kernel.M * kernel.N * instance.workload.word_bytes * samples
        n, wait = other.chips, Fraction(between.latency_ns)
        time = Fraction(size) / (min(one.chips, n) * Fraction(between.bytes_per_ns)) + wait
        if n > 1:
            full = inside.topology == "full"
            time += Fraction(size * (1 if full else n - 1), n) / Fraction(inside.bytes_per_ns)
            time += Fraction(inside.latency_ns) * (1 if full else n - 1)
        total += ceil(1000 * time)
    return total


def rows(instance: DataflowInstance, left: int, free: tuple[int, ...]) -> Iterator[tuple[Stage, ...]]:
    """Every pipeline of so many layers on so many free chips of each group."""
    if left == 0:
        yield ()
    heads = [one.outer for one in instance.workload.kernels if one.outer > 1]
    for group, most in enumerate(free):
        for chips in range(1, most + 1):
            if any(h % chips and chips % h for h in heads):
                continue
            for layers in range(1, left + 1):
                after = (*free[:group], most - chips, *free[group + 1 :])
                for rest in rows(instance, left - layers, after):
                    yield (Stage(group, chips, layers), *rest)


def by_the_page(instance: DataflowInstance) -> int | None:
    """The optimum: all pipelines, all mappings of their stages, all micro-batches."""
    task, groups = instance.task, instance.system.groups
    known: dict[Any, int | None] = {}
    best: int | None = None
    every = list(rows(instance, instance.workload.layers, tuple(group.network.size for group in groups)))
    if task.stage_groups:
        every = [
            row
            for row in every
            if len(row) == len(task.stage_groups) and all(map(asked(groups), row, task.stage_groups))
        ]
    for samples in range(1, task.batch + 1):
        if task.batch % samples or task.micro_batch not in (None, samples):
            continue
        rounds = task.batch // samples
        for row in every:
            layers = [layer_time(instance, one, samples, known) for one in row]
            if None in layers:
                continue
            stages = [one.layers * (t or 0) for one, t in zip(row, layers, strict=True)]
            sent = [transfer(instance, a, b, samples) for a, b in pairwise(row)]
            fixed = rounds * ceil(1000 * instance.system.step_ns)
            time = sum(stages) + sum(sent) + (rounds - 1) * max(stages + sent) + fixed
            best = time if best is None else min(best, time)
    return best


def asked(groups: tuple[Group, ...]) -> Any:
    """Whether a stage is one that the task asks for."""

    def suits(stage: Stage, one: AskedStage) -> bool:
        same = one.group == groups[stage.group].name
        return same and one.tensor in (None, stage.chips) and one.layers in (None, stage.layers)

    return suits


def random_kernel(random: Random) -> dict[str, Any]:
    """A product with weights, or an element-wise kernel, perhaps of heads."""
    sizes = {"M": random.choice((4, 8, 12)), "N": 16, "outer": random.choice((1, 1, 1, 2, 4))}
    if random.random() < 0.3:
        return {"kind": "elementwise", **sizes}
    return {"kind": "gemm", "K": random.choice((8, 64)), "weights": True, **sizes}


def random_unequal(random: Random) -> DataflowInstance:
    """A random instance of one to three kernels on two or three groups of one to three chips."""
    names = "abc"[: random.choice((1, 2, 2, 3))]
    kernels = {name: random_kernel(random) for name in names}
    edges = " ".join(a + b for a in names for b in names if a < b and random.random() < 0.7)
    purpose = random.choice(("prefill", "decode"))
    if purpose == "decode" and kernels["a"]["kind"] == "gemm" and random.random() < 0.5:
        kernels["a"]["fetch_bytes"] = 2000
    few = 2 if len(names) == 3 else 3
    plain = made(
        kernels,
        edges,
        carries=names[-1] + names[0] if random.random() < 0.9 else "",
        layers=random.choice((1, 2, 2, 3, 4)),
        purpose=purpose,
        sizes=[random.randint(1, few)],
        topology=random.choice(("ring", "switch", "full")),
        link_gbps=random.choice((0.5, 4.0, 25.0)),
        memory_gbps=random.choice((5.0, 50.0)),
        sram_bytes=random.choice((4_000, 20_000, 400_000)),
        batch=random.choice((1, 2, 4, 6)),
        micro_batch=random.choice((None, 1)),
        fused=random.random() < 0.7,
        partitions=random.choice((None, None, 1)),
        latency_ns=random.choice((0.0, 10.0)),
    )
    return with_groups(random, plain)


def with_groups(random: Random, plain: DataflowInstance) -> DataflowInstance:
    """One or two further groups of one or two chips, perhaps little memory, perhaps stages that are asked for."""
    own = plain.system
    others = []
    for name in ("other", "third")[: random.choice((1, 1, 2))]:
        chip = own.chip.replace(
            ghz=own.chip.ghz * random.choice((0.25, 0.5, 2.0)), sram_bytes=random.choice((4_000, 400_000))
        )
        memory = own.memory.replace(bytes_per_ns=own.memory.bytes_per_ns * random.choice((0.5, 1.0, 3.0)))
        network = own.network[0].replace(size=random.randint(1, 2), bytes_per_ns=random.choice((0.5, 8.0)))
        others.append(Group(name=name, chip=chip, memory=memory, network=network))
    between = Link(bytes_per_ns=random.choice((0.05, 1.0, 30.0)), latency_ns=random.choice((0.0, 100.0)))
    system = own.replace(name="own", others=tuple(others), between=between, step_ns=random.choice((0.0, 30.0)))
    instance = plain.replace(system=system)
    if random.random() < 0.5:
        instance = with_little_memory(random, instance)
    if random.random() < 0.3:
        instance = with_stages(random, instance)
    instance.check()
    return instance


def with_little_memory(random: Random, instance: DataflowInstance) -> DataflowInstance:
    """DRAM for some of the layers on each chip."""
    system, groups, found = instance.system, instance.system.groups, []
    for g, group in enumerate(groups):
        stage = Stage(g, random.randint(1, group.network.size), random.randint(1, instance.workload.layers))
        own = alone(instance, stage, 1)
        if instance.task.purpose == "training":
            own = own.replace(task=own.task.replace(in_flight=random.randint(1, 3)))
        judged = [check(own, one) for one in candidates(own)]
        sizes = [round(one.figures["dram_bytes"]) for one in judged if one.objective is not None] or [1000]
        limit = max(1, round(random.choice(sizes) * random.choice((0.4, 1, 1))) - random.choice((0, 0, 1)))
        found.append(group.memory.replace(capacity_bytes=limit))
    others = tuple(one.replace(memory=m) for one, m in zip(system.others, found[1:], strict=True))
    return instance.replace(system=system.replace(memory=found[0], others=others))


def with_stages(random: Random, instance: DataflowInstance) -> DataflowInstance:
    """The stages of some pipeline asked for, in part."""
    groups = instance.system.groups
    every = list(rows(instance, instance.workload.layers, tuple(group.network.size for group in groups)))
    if not every:
        return instance
    stages = tuple(
        AskedStage(
            group=groups[one.group].name,
            tensor=random.choice((None, one.chips)),
            layers=random.choice((None, None, one.layers)),
        )
        for one in random.choice(every)
    )
    return instance.replace(task=instance.task.replace(stage_groups=stages))


def every_method(instance: DataflowInstance, optimum: int | None, seed: int) -> Any:
    """The mapping of a model or the chain, after all of them proved the optimum and no bound lies above it."""
    models: tuple[Any, ...] = (mip, cpsat) if LONG else ((mip, cpsat)[seed // 4 % 2],) if seed % 4 == 0 else ()
    for method in (auto, *models):
        run = Run(instance, SolveOptions(time_limit=3000.0, threads=1), check)
        reason = method(instance, run).reason
        assert run.upper == optimum and not run.rejected, (seed, method, run.upper, optimum, run.rejected)
        assert reason == ("infeasible" if optimum is None else "optimal"), (seed, method, reason)
    if optimum is None:
        return None
    lower = run_of(instance, bounds).lower
    assert lower is not None and lower.value <= optimum, seed
    assert run.best is not None
    return run.best.solution


@pytest.mark.parametrize("block", range(of_all(8, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    """All of 400 instances in the long run, 16 in the short one."""
    tried: Counter[str] = Counter()
    for seed in range(50 * block, 50 * block + of_all(50, few=16)):
        instance = random_unequal(Random(seed))
        optimum = by_the_page(instance)
        mapping = every_method(instance, optimum, seed)
        tried["instances"] += 1
        tried["none"] += mapping is None
        if mapping is None:
            continue
        tried["several groups"] += len({one.group for one in mapping.stage_groups}) > 1
        tried["several degrees"] += len({one.tensor for one in mapping.stage_groups}) > 1
        tried["asked"] += bool(instance.task.stage_groups)
    assert min(tried["several groups"], tried["several degrees"], tried["asked"]) >= 1, tried


def test_all_mappings_one_by_one() -> None:
    """Brute force over whole mappings, each judged by the checker, agrees with brute force over pipelines."""
    seen = 0
    for seed in range(1000, of_all(1100, few=1030)):
        instance = random_unequal(Random(seed))
        if count(instance) <= of_all(400, few=60):
            assert brute_force(instance, check)[0] == by_the_page(instance), seed
            seen += 1
    assert seen >= 5


def three_layers(batch: int, **task: Any) -> DataflowInstance:
    """The page's example: three layers of 100 ns on a chip of group A, of 200 ns on one of B, transfers of 50 ns."""
    kernel = {"flop": 30_720_000, "output_bytes": 50, "weight_bytes": 0, "schemes": ["NONE"]}
    plain = {"utilisation": 1.0, "purpose": "prefill", "layers": 3, "memory_gbps": 1e9, "batch": batch, "sizes": [1]}
    instance = made({"a": kernel}, "", carries="aa", **plain, name="three")
    own = instance.system
    chip = own.chip.replace(ghz=own.chip.ghz / 2)
    others = (Group(name="B", chip=chip, memory=own.memory, network=own.network[0]),)
    system = own.replace(name="A", others=others, between=Link(bytes_per_ns=1.0))
    return instance.replace(system=system, task=instance.task.replace(**task))


@pytest.mark.parametrize("method", [auto, mip, cpsat])
def test_the_page_example(method: Any) -> None:
    for batch, ns, layers in ((1, 300, [3]), (4, 1050, [2, 1])):
        run = run_of(three_layers(batch), method)
        assert run.upper == 1000 * ns and run.best is not None
        solution: Any = run.best.solution
        assert sorted((one.layers for one in solution.stage_groups), reverse=True) == layers


def test_a_start_as_short_as_all_flop() -> None:
    """A start that no micro-batch can beat leaves nothing to search, and is proved."""
    instance = three_layers(1)
    instance = instance.replace(workload=instance.workload.replace(layers=1))
    known = run_of(instance).best
    assert known is not None
    run = Run(instance, SolveOptions(threads=1), check)
    run.solution(known.solution, "start")
    assert auto(instance, run).reason == "optimal"


def test_stages_that_are_asked_for() -> None:
    """As they are asked for, or C8 says so."""
    stages = ({"group": "B"}, {"group": "A", "layers": 1})
    asked_ = tuple(AskedStage(**one) for one in stages)  # type: ignore[arg-type]
    instance = three_layers(4, stage_groups=asked_)
    run = run_of(instance)
    assert run.upper == 1000 * (400 + 50 + 100 + 3 * 400) and run.best is not None
    solution: Any = run.best.solution
    turned = solution.replace(stage_groups=solution.stage_groups[::-1])
    assert {one.label for one in check(instance, turned).violations} == {"C8"}
    first, second = solution.stage_groups
    for wrong in (first.replace(layers=1), first.replace(group="C"), first.replace(tensor=2)):
        broken = check(instance, solution.replace(stage_groups=(wrong, second)))
        assert {one.label for one in broken.violations} >= {"C0"} and broken.objective is None


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ({"stage_groups": (AskedStage(group="H100"),)}, "no group is called 'H100'"),
        ({"stage_groups": (AskedStage(group="A", tensor=2),)}, "group 'A' has 1 chip"),
        ({"stage_groups": (AskedStage(group="A"), AskedStage(group="A"))}, "take 2 chips or more of group 'A'"),
        ({"stage_groups": (AskedStage(group="A", layers=4),)}, "is 4, the network has 3 layers"),
        ({"stage_groups": (AskedStage(group="A", layers=2),)}, "have 2 layers, the network has 3"),
        ({"stage_layers": None}, "task.stage_layers"),
        ({"purpose": "training"}, "only forward kernels are trained"),
    ],
)
def test_what_is_refused(task: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        three_layers(4, **task).check()


def test_degrees_divide_heads() -> None:
    heads = {"kind": "elementwise", "M": 4, "N": 4, "outer": 4}
    plain = made({"a": heads}, "", purpose="prefill", sizes=[4])
    own = plain.system
    others = (Group(name="B", chip=own.chip, memory=own.memory, network=own.network[0]),)
    system = own.replace(name="A", others=others, between=Link(bytes_per_ns=1.0))
    task = plain.task.replace(stage_groups=(AskedStage(group="B", tensor=3),))
    with pytest.raises(InputError, match="doesn't divide 4 heads"):
        plain.replace(system=system, task=task).check()


def test_machines_by_name(tmp_path: Path) -> None:
    """Groups of shipped machines; the picture and the explanation of a mapping; what else is refused."""
    groups: dict[str, Any] = {"machine": "h100-sxm", "sizes": [2], "others": ["a100-80gb-2"]}
    instance: Any = generate("dataflow-llama", model="llama3-8b", layers=3, purpose="prefill", batch=4, **groups)
    run = run_of(instance)
    assert run.best is not None and run.gap == 0
    solution: Any = run.best.solution
    plot(instance, solution, tmp_path / "stages.svg")
    told = explain(instance, solution, SolveOptions(time_limit=60.0, threads=1))
    assert any("slowest" in one.message for one in told.statements)
    with pytest.raises(InputError, match="groups of unequal chips"):
        two_pass(instance, Run(instance, SolveOptions(time_limit=5.0), check))
    with pytest.raises(InputError, match="isn't given"):
        instance.replace(system=instance.system.replace(between=None)).check()
    with pytest.raises(InputError, match="no file and no system is called 'a10-8'"):
        generate("dataflow-llama", model="llama3-8b", **groups | {"others": ["a10-8"]})
