"""Training: what replicas share out, nested sums, the optimiser's step; the page's cases, random instances against
brute force."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random
from typing import Any

import pytest

from chipmap.formulations.dataflow import cpsat as cp_model
from chipmap.formulations.dataflow import mip as mip_model
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.instance import SHARDS, DataflowSolution, Degrees
from chipmap.instances.dataflow.plans import allowed_plans, settled
from chipmap.methods.dataflow.bounds import bounds
from chipmap.methods.dataflow.chain import auto
from chipmap.methods.dataflow.models import cpsat, mip
from chipmap.records import InputError
from chipmap.validation.dataflow.candidates import candidates, count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed, run_of
from tests.dataflow.random_instances import made, mixed_instance, outside_instance, with_little_dram
from tests.lanes import of_all

FOUR = Degrees(data=4, dimensions=("data",))
NESTED = Degrees(data=8, dimensions=("data", "data"))
#: A forward kernel, the backward one that reads the same weights, and the update of these.
WEIGHTS = 80_000
SIMPLE: dict[str, Any] = {"flop": 0, "output_bytes": 0, "weight_bytes": WEIGHTS, "schemes": ["NONE"]}
LAYER: dict[str, dict[str, Any]] = {
    "a": SIMPLE,
    "x": {**SIMPLE, "phase": "backward"},
    "u": {**SIMPLE, "weight_bytes": 0, "output_bytes": WEIGHTS, "phase": "backward", "update": True},
}
PARTITIONS = DataflowSolution(degrees=FOUR, schemes=("NONE",) * 3, partitions=(0, 1, 2))


#: Eight layers on four replicas, each with two micro-batches of a sample, one thing after the other.
GIVEN: dict[str, Any] = {
    **{"layers": 8, "batch": 8, "sizes": [4], "topology": "switch", "degrees": FOUR, "overlap": False},
    **{"fused": False, "purpose": "training", "optimizer_step": True, "dram_bytes": 10**9},
}
TENSOR_DATA = Degrees(tensor=2, data=2, dimensions=("tensor", "data"))
TENSOR_ROW = Degrees(tensor=2, pipeline=2, dimensions=("tensor", "pipeline"))
TOPOLOGIES = ("ring", "switch", "full")


def replicated(**parameters: Any) -> DataflowInstance:
    """The page's layer under :data:`GIVEN`, or what ``parameters`` have instead."""
    return made(LAYER, "ax au", **{**GIVEN, **parameters})


#: What is shared out: bytes held of 80,000 of weights in each of eight layers; T3, T6 and T8 in nanoseconds.
CASES: dict[str, tuple[int, int, int, int]] = {
    "none": (64 * WEIGHTS, 0, 38_400, 89_600),
    "optimizer": (28 * WEIGHTS, 0, 38_400, 22_400),
    "gradients": (23 * WEIGHTS, 2_400, 19_200, 22_400),
    "weights": (19 * WEIGHTS, 7_200, 0, 22_400),
}


@pytest.mark.parametrize("shard", SHARDS)
def test_what_replicas_share_out(shard: str) -> None:
    """The page's table, to the tick and the byte."""
    held, exchanged, summed, step = CASES[shard]
    instance = replicated(shard=shard)
    certificate = check(instance, PARTITIONS)
    assert certificate.figures["dram_bytes"] == held
    terms = certificate.terms
    assert [terms[label] for label in ("T3", "T6", "T8")] == [1000 * one for one in (exchanged, summed, step)]
    # T2: weights are read by a and x, 800 ns each; two micro-batches of eight layers
    assert terms["T2"] == 1_600_000
    assert certificate.objective == 1000 * (16 * (1_600 + exchanged) + summed + step)
    for method in (auto, mip, cpsat):
        run = run_of(instance, method)
        assert run.upper == certificate.objective
        assert run.lower is not None and run.lower.value == run.upper


@pytest.mark.parametrize("method", [auto, mip, cpsat])
def test_the_least_memory_decides(method: Any) -> None:
    """Left open, the state alone is shared out as long as that fits DRAM; the page's limits, to the byte."""
    for limit, shard in ((28, "optimizer"), (23, "gradients"), (19, "weights")):
        for less in (0, 1):
            run = run_of(replicated(shard=None, dram_bytes=limit * WEIGHTS - less), method)
            wanted = shard if not less else {28: "gradients", 23: "weights", 19: None}[limit]
            found = run.best.solution.shard if run.best is not None else None  # type: ignore[attr-defined]
            assert found == wanted, (limit, less)


def test_sums_are_nested() -> None:
    """The page's case: eight replicas on a fast switch of four and a slow one of two, in either order."""
    rates = {4: 100.0, 2: 25.0}
    for sizes in ([4, 2], [2, 4]):
        instance = replicated(sizes=sizes, degrees=NESTED)
        network = tuple(one.replace(bytes_per_ns=rates[one.size]) for one in instance.system.network)
        instance = instance.replace(system=instance.system.replace(network=network))
        for shard, sums in zip(SHARDS, (16_000, 16_000, 8_000, 0), strict=True):
            certificate = check(settled(instance, 1, shard=shard), PARTITIONS.replace(degrees=NESTED))
            assert certificate.terms["T6"] == 1000 * sums, (sizes, shard)


def test_who_has_no_parameters_waits_for_no_latency() -> None:
    """Beside the page's layer a kernel e without parameters, and 10 ns of latency a step: gathers, scatters and sums
    have three steps each, an all-reduce six, and e none, in whatever the replicas share out."""
    kernels = {**LAYER, "e": {**SIMPLE, "weight_bytes": 0}}
    alike = replicated(latency_ns=10.0)
    for shard in SHARDS:
        _, exchanged, summed, _ = CASES[shard]
        instance = made(kernels, "ax au ae", **{**GIVEN, "latency_ns": 10.0, "shard": shard})
        late = {"none": (0, 60), "optimizer": (0, 60), "gradients": (30, 30), "weights": (90, 0)}[shard]
        wanted = [1000 * (exchanged + late[0]), 1000 * (summed + late[1])]
        solution = DataflowSolution(degrees=FOUR, schemes=("NONE",) * 4, partitions=(0, 2, 3, 1))
        found = check(instance, solution)
        assert [found.terms["T3"], found.terms["T6"]] == wanted, shard
        assert found.objective == check(settled(alike, 1, shard=shard), PARTITIONS).objective, shard
        for method in (auto, mip, cpsat):
            run = run_of(instance, method)
            assert run.upper == found.objective and run.lower is not None and run.lower.value == run.upper, shard


def test_where_there_are_no_bytes_there_is_no_latency() -> None:
    """Sums, changes of layout, exchanges, hand-overs and transfers of nothing: a network of any latency is as good as
    one of none, for the checker and the program."""
    nothing = {"kind": "gemm", "M": 4, "K": 4, "N": 4, "flop": 10**6, "output_bytes": 0, "weight_bytes": 0}
    back, update = {"phase": "backward"}, {"phase": "backward", "update": True, "schemes": ["M", "K_RS"]}
    free: dict[str, Any] = {"schemes": ["M", "K", "K_RS", "N", "OUTER"]}
    layer = {"a": {**nothing, **free}, "b": {**nothing, **free}, "x": {**nothing, **back}, "u": {**nothing, **update}}
    for mode, shard in (("physical", "none"), ("physical", "optimizer"), ("physical", "weights"), ("dfmodel", "none")):
        for degrees in (TENSOR_DATA, TENSOR_ROW):
            given: dict[str, Any] = {"sizes": [2, 2], "degrees": degrees, "layers": 2, "batch": 4, "fused": False}
            given |= {"mode": mode, "shard": shard, "purpose": "training", "carries": "ba bb xx"}
            if mode == "dfmodel":
                layer |= {"a": {**nothing, "schemes": ["M", "K", "N"]}, "b": {**nothing, "schemes": ["M", "K", "N"]}}
                layer |= {"u": {**nothing, **back}}
                given["shard"] = False
            late, early = (made(layer, "ab bx ax xu", latency_ns=ns, **given) for ns in (500.0, 0.0))
            assert late.system != early.system
            for mapping in islice(candidates(late), 0, 400, 8):
                assert check(late, mapping).terms == check(early, mapping).terms, (mode, shard, mapping)
            assert run_of(late, auto).upper == run_of(early, auto).upper


def test_sharing_out_the_state_costs_no_more() -> None:
    """The page's three conditions: equal updates, no switch that reduces, nothing behind the backward pass; a sum is
    rounded up once, a scatter and a gather once each."""
    random = Random(3)
    for _ in range(40):
        sizes = [random.randint(0, 10**6) for _ in range(3)]
        kernels: dict[str, dict[str, Any]] = {"d": {**SIMPLE, "weight_bytes": 0}}
        for name, size in zip("abc", sizes, strict=True):
            kernels[name] = {**SIMPLE, "weight_bytes": size}
            kernels[name.upper()] = {**LAYER["u"], "output_bytes": size}
        given = {**GIVEN, "latency_ns": random.choice((0.0, 7.5, 5000.0)), "topology": random.choice(TOPOLOGIES)}
        given |= {"optimizer_step": random.random() < 0.5, "sizes": random.choice(([8], [4, 2], [2, 2, 2]))}
        given["degrees"] = Degrees.make(data=8, dimensions=["data"] * len(given["sizes"]))
        instance = made(kernels, "aA bB cC", **given, shard=None)
        mapping = DataflowSolution(degrees=given["degrees"], schemes=("NONE",) * 7, partitions=(0, 1, 4, 2, 5, 3, 6))
        costs = [check(instance, mapping.replace(shard=shard)).objective for shard in ("none", "optimizer")]
        assert costs[0] is not None and costs[1] is not None and costs[1] <= costs[0] + 3, (sizes, given)


def overlapped(flop: int = 0, **parameters: Any) -> DataflowInstance:
    """:func:`replicated` whose sums run behind the backward pass; x and u have ``flop`` each, 307,200 a nanosecond."""
    instance = replicated(overlap_gradients=True, utilisation=1.0, optimizer_step=False, **parameters)
    kernels = [one.replace(flop=flop if one.phase == "backward" else 0) for one in instance.workload.kernels]
    return instance.replace(workload=instance.workload.replace(kernels=kernels))


@pytest.mark.parametrize(
    ("behind", "left"), [(0, 38_400), (800, 32_800), (2_400, 21_600), (4_800, 4_800), (9_000, 4_800)]
)
def test_sums_behind_the_backward_pass(behind: int, left: int) -> None:
    """The page's table: g is 4,800 ns, and so many of a layer's pass are compute."""
    instance = overlapped(behind * 307_200 // 2, shard="none")
    certificate = check(instance, PARTITIONS)
    assert certificate.terms["T6"] == 1000 * left
    for method in (auto, mip, cpsat):
        run = run_of(instance, method)
        assert run.upper == certificate.objective and run.lower is not None and run.lower.value == run.upper


def test_what_is_hidden() -> None:
    """ZeRO-1 hides its reduce-scatter, not the gather of what is updated; ZeRO-2 has none left to hide. Where replicas
    exchange anything else nothing is hidden, and each layer waits for its own steps of a slow network."""
    for shard, left in (("optimizer", 19_200 + 2_400), ("gradients", 19_200), ("weights", 0)):
        assert check(overlapped(10**9, shard=shard), PARTITIONS).terms["T6"] == 1000 * left, shard
    busy = overlapped(10**9, shard="none")
    kernels = [one.replace(exchange="broadcast", exchange_bytes=1) for one in busy.workload.kernels]
    busy = busy.replace(workload=busy.workload.replace(kernels=kernels))
    assert check(busy, PARTITIONS).terms["T6"] == 1000 * 38_400
    slow = overlapped(0, shard="none", latency_ns=10.0)
    assert check(slow, PARTITIONS).terms["T6"] == 1000 * (38_400 + 8 * 60)
    whole = overlapped(0, shard="none", latency_ns=10.0).replace(task=slow.task.replace(overlap_gradients=False))
    assert check(whole, PARTITIONS).terms["T6"] == 1000 * (38_400 + 60)


def test_the_formula_is_what_a_run_takes() -> None:
    """Layers' passes and their sums one by one, at random: sums end no later than the page has it, and just then where
    passes take no longer than they must."""
    random = Random(1)
    for _ in range(300):
        layers, least, each = random.randint(1, 9), random.randint(0, 9), random.randint(0, 9)
        longer = random.random() < 0.5
        passes = [least + longer * random.randint(0, 5) for _ in range(layers)]
        clock = free = 0
        for one in passes:
            clock += one
            free = max(free, clock) + each
        formula = each + (layers - 1) * max(0, each - least)
        assert free - clock <= formula
        assert longer or free - clock == formula


def test_one_replica_shares_nothing() -> None:
    """Alone, a replica has all of everything, whatever is asked."""
    alone = Degrees(tensor=4, dimensions=("tensor",))
    found = {
        (certificate.objective, certificate.figures["dram_bytes"])
        for shard in SHARDS
        for certificate in [check(replicated(shard=shard, degrees=alone), PARTITIONS.replace(degrees=alone))]
    }
    assert len(found) == 1
    assert {plan.shard for plan in allowed_plans(replicated(shard=None, degrees=alone), alone)} == {"none"}
    assert {plan.shard for plan in allowed_plans(replicated(shard=None), FOUR)} == set(SHARDS)


def test_what_a_mapping_may_say() -> None:
    """C0: what the task asks for; where it leaves that open, anything that is said."""
    asked, free = replicated(shard=True), replicated(shard=None)
    for instance, shard, fits in (
        (asked, None, True),
        (asked, "weights", True),
        (asked, "optimizer", False),
        (free, None, False),
        (free, "none", True),
        (free, "weights", True),
        (replicated(), "optimizer", False),
    ):
        assert check(instance, PARTITIONS.replace(shard=shard)).feasible is fits, (instance.task.shard, shard)


def test_models_of_one_choice() -> None:
    """A model is exact where nothing else could be better, else a restriction."""
    for build in (mip_model.build, cp_model.build):
        assert not build(replicated(shard=None), {"shard": "optimizer"}).standing.bounds  # type: ignore[operator]
        assert build(replicated(shard="optimizer"), {}).standing.bounds  # type: ignore[operator]
        with pytest.raises(InputError, match="not among the parts"):
            build(replicated(shard="optimizer"), {"shard": "weights"})  # type: ignore[operator]


@pytest.mark.parametrize("field", ["shard", "optimizer_step", "overlap_gradients"])
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"mode": "dfmodel"}, "mode dfmodel"),
        ({"purpose": "prefill"}, "purpose is prefill"),
        ({"across_layers": True, "degrees": None}, "partitions reach across layers"),
    ],
)
def test_what_a_task_may_say(field: str, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        replicated(**{"optimizer_step": False, field: True, **changes})


def test_something_is_updated() -> None:
    kernels = {"a": SIMPLE, "x": {**SIMPLE, "phase": "backward"}}
    with pytest.raises(InputError, match="no kernel is a weight update"):
        made(kernels, "ax", shard=True)


def random_training(random: Random) -> DataflowInstance | None:
    """A random instance with features of all kinds whose replicas may share out what they hold; None where it can't be,
    or has too many mappings."""
    instance = random.choice((mixed_instance, outside_instance))(random)
    task = instance.task
    kernels = instance.workload.kernels
    if task.across_layers or task.stages == "kernels" or not any(kernel.update for kernel in kernels):
        return None
    task = task.replace(
        shard=random.choice((None, None, *SHARDS)), optimizer_step=random.random() < 0.6, purpose="training"
    )
    if task.utilisation is not None:
        task = task.replace(overlap_gradients=random.random() < 0.6)
    network = [one.replace(bytes_per_ns=one.bytes_per_ns * random.choice((1, 4))) for one in instance.system.network]
    capacity = instance.system.memory.capacity_bytes
    memory = instance.system.memory.replace(capacity_bytes=None)
    instance = instance.replace(
        task=task, mode="physical", system=instance.system.replace(network=tuple(network), memory=memory)
    )
    try:
        instance.check()
    except InputError:
        return None
    if count(instance) > 500 or count(instance) == 0:
        return None
    return with_little_dram(instance, random) if capacity is not None else instance


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried: Counter[str | None] = Counter()
    for seed in range(45 * block, 45 * block + 45):
        instance = random_training(Random(seed))
        if instance is None:
            continue
        _, mapping = agreed(instance, seed, (bounds,))
        if instance.task.shard is None and mapping is not None:
            tried[mapping.shard] += 1
        tried["all"] += 1
        tried["overlapped"] += instance.task.overlap_gradients and mapping is not None
    assert tried["all"] >= 5 and tried["overlapped"], tried


#: Bytes of state per parameter (page, "The optimiser's state").
STATES: dict[tuple[str, int, bool], int] = {
    ("none", 4, True): 0,
    ("sgd", 4, True): 4,
    ("sgd", 2, False): 0,
    ("momentum", 4, True): 8,
    ("momentum", 2, False): 2,
    ("momentum", 1, True): 5,
    ("adam", 4, True): 12,
    ("adam", 4, False): 8,
    ("adam", 2, False): 4,
    ("adam", 1, True): 6,
}


@pytest.mark.parametrize("named", STATES)
def test_the_state_by_the_name_of_an_optimizer(named: tuple[str, int, bool]) -> None:
    """Two-byte weights and gradients and s bytes per parameter, and 2 · 2 + 2 s bytes moved by the step; the same as
    with ``optimizer_bytes``, in the checker and in the program."""
    (name, width, master), state = named, STATES[named]
    step = name != "none"
    asked = {"optimizer": name, "state_bytes": width, "master_weights": master, "optimizer_step": step}
    instance, stated = replicated(**asked), replicated(optimizer_bytes=state, optimizer_step=step)
    certificate = check(instance, PARTITIONS)
    assert certificate.figures["dram_bytes"] == 8 * (WEIGHTS * 2 + WEIGHTS // 2 * state)
    moved = 8 * WEIGHTS // 2 * (4 + 2 * state) if step else 0
    assert certificate.terms["T8"] == moved * 1000 // 100
    assert certificate.terms == check(stated, PARTITIONS).terms
    held = int(certificate.figures["dram_bytes"])
    for method in (auto, mip, cpsat) if name == "momentum" else (auto,):
        run = run_of(replicated(**asked, dram_bytes=held), method)
        assert run.upper == check(instance, PARTITIONS).objective
        assert run_of(replicated(**asked, dram_bytes=held - 1), method).best is None


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"optimizer": "adam", "optimizer_bytes": 12}, "task.optimizer_bytes: is 12, but task.optimizer is adam"),
        ({"optimizer": "adam", "state_bytes": 3}, "task.state_bytes: is 3"),
        ({"state_bytes": 2}, "task.state_bytes: says how task.optimizer keeps"),
        ({"master_weights": False}, "task.master_weights: says how task.optimizer keeps"),
        ({"optimizer": "none"}, "task.optimizer_step: is true, but task.optimizer is none"),
    ],
)
def test_a_state_that_is_stated_twice_or_by_halves_is_refused(task: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        replicated(**task)


def test_files_from_before_the_optimizer_had_a_name_are_the_same_instances() -> None:
    instance = replicated()
    fields = instance.to_json()
    old = DataflowInstance.from_json(
        fields.replace(b'"optimizer":null,"state_bytes":4,"master_weights":true', b'"overlap_gradients":false')
    )
    assert b"state_bytes" in fields and old.content_hash == instance.content_hash
