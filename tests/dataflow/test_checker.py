"""The checker: every constraint names what breaks it, every cost equals a figure worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.certificate import Certificate
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.instance import check_degrees
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.records import InputError
from chipmap.validation.dataflow.checker import breakdown, check
from tests.dataflow.random_instances import BACK, HEAVY, LIGHT, made

RING = Degrees(tensor=2, dimensions=("tensor",))
CHAIN = {"a": LIGHT, "b": HEAVY, "c": LIGHT}


def mapping(instance: DataflowInstance, partitions: tuple[int, ...], **fields: Any) -> Certificate:
    schemes = fields.pop("schemes", ("M",) * len(partitions))
    given = {"degrees": RING, "schemes": schemes, "partitions": partitions}
    return check(instance, DataflowSolution(**{**given, **fields}))


def test_a_valid_mapping_by_hand() -> None:
    """Two chips, M everywhere: times in ps from FLOP / (2 · 0.9 · 307,200 per ns) and bytes at 100 per ns."""
    instance = made(CHAIN, "ab bc")
    certificate = mapping(instance, (0, 1, 1))
    light, heavy = 72_338, 361_690  # 40e6 and 200e6 FLOP
    parts = breakdown(instance, DataflowSolution(degrees=RING, schemes=("M",) * 3, partitions=(0, 1, 1)))
    assert (parts[0][0], parts[1][0]) == (light, heavy + light)
    weights = (45_000 * 10, (100_000 + 45_000) * 10)
    border = 30_000 * 10
    assert (parts[0][1], parts[1][1]) == (weights[0] + border, weights[1] + border)
    assert parts[0][2] == parts[1][2] == 0
    assert certificate.feasible and certificate.grade == "physical"
    layer = sum(max(times) for times in parts.values())
    assert certificate.terms["T4"] == layer and certificate.objective == 4 * layer
    assert certificate.figures["partitions"] == 2.0


def test_modes_count_memory_in_their_own_way() -> None:
    fork = {"a": LIGHT, "b": HEAVY, "c": HEAVY}
    published, physical = made(fork, "ab ac", mode="dfmodel"), made(fork, "ab ac")
    border = 30_000 * 10
    assert mapping(published, (0, 1, 1)).terms["T2"] == 4 * border
    assert mapping(physical, (0, 1, 1)).terms["T2"] == 2 * border + 245_000 * 10
    assert mapping(physical, (0, 1, 2)).terms["T2"] == 3 * border + 245_000 * 10
    assert mapping(physical, (0, 0, 0)).terms["T2"] == 0, "the weights stay in SRAM"
    assert mapping(physical.replace(workload=physical.workload.replace(layers=2)), (0, 0, 0)).terms["T2"] == 2_450_000


def test_decode_steps_read_weights_and_caches() -> None:
    cached = {"a": {**LIGHT, "fetch_bytes": 300_000}, "b": HEAVY}
    for mode, purpose, weights in (
        ("dfmodel", "decode", 145_000),
        ("dfmodel", "prefill", 0),
        ("physical", "decode", 0),
    ):
        certificate = mapping(made(cached, "ab", mode=mode, purpose=purpose, micro_batch=2), (0, 0))
        assert certificate.terms["T2"] == 10 * (weights + 2 * 150_000), "all chips read their share"
    two = mapping(made(cached, "ab", purpose="decode", layers=2), (0, 0))
    assert two.terms["T2"] == 10 * (145_000 + 150_000), "weights of two layers don't stay"


def test_without_overlap_all_adds_up() -> None:
    overlapping = made(CHAIN, "ab bc")
    apart = overlapping.replace(task=overlapping.task.replace(overlap=False))
    terms, sums = mapping(overlapping, (0, 1, 1)).terms, mapping(apart, (0, 1, 1)).terms
    assert {t: terms[t] for t in ("T1", "T2", "T3")} == {t: sums[t] for t in ("T1", "T2", "T3")}
    assert sums["T4"] == sums["T1"] + sums["T2"] + sums["T3"] > terms["T4"]


@pytest.mark.parametrize(
    ("kind", "topology", "tensor", "data"),
    [
        ("all_to_all", "ring", 4 / 8, 8 / 8),  # chips per dimension / 8, of what a chip sends
        ("all_to_all", "switch", 1 / 4, 1 / 4),
        ("all_to_all", "full", 1 / 4, 1 / 8),
        ("broadcast", "ring", 1.0, 1.0),
    ],
)
def test_exchanges_by_hand(kind: str, topology: str, tensor: float, data: float) -> None:
    """Four chips a group, eight replicas, 25 bytes/ns: a sample's 400,000 bytes are 100,000 on each chip."""
    kernels = {"a": {**LIGHT, "exchange": kind, "exchange_bytes": 400_000}}
    degrees = {"tensor": 4, "data": 8, "dimensions": ["tensor", "data"]}
    instance = made(kernels, "", sizes=[4, 8], topology=topology, degrees=degrees, batch=8)
    certificate = mapping(instance, (0,), degrees=instance.task.degrees)
    assert certificate.terms["T3"] == 100_000 * max(tensor, data) * 1000 / 25
    slow = instance.system.network[0].replace(latency_ns=10.0)
    slowed = instance.replace(system=instance.system.replace(network=(slow, slow.replace(size=8))))
    steps = 1 if topology == "full" else (3 if tensor > data else 7)
    extra = mapping(slowed, (0,), degrees=instance.task.degrees).terms["T3"] - certificate.terms["T3"]
    assert extra == 10_000 * steps


@pytest.mark.parametrize(
    ("topology", "messages", "links"),
    # half of 32 · 32 messages over two links for each of the four rings of eight; else 16 · 16 from one half to the
    # other over a switch's eight uplinks, or 8²/4 links
    [("ring", 32 * 32 // 2, 2 * 4), ("switch", 16 * 16, 8), ("full", 16 * 16, 16)],
)
def test_published_all_to_all_by_hand(topology: str, messages: int, links: int) -> None:
    kernels = {"a": {**LIGHT, "exchange": "all_to_all", "exchange_bytes": 400_000}}
    degrees = {"tensor": 4, "data": 8, "dimensions": ["tensor", "data"]}
    instance = made(kernels, "", sizes=[4, 8], topology=topology, degrees=degrees, batch=8, mode="dfmodel")
    certificate = mapping(instance, (0,), degrees=instance.task.degrees)
    assert certificate.terms["T3"] == messages * (100_000 // 32) * 1000 // (links * 25)
    assert instance.task.degrees is not None
    assert dataflow_problem(instance, instance.task.degrees).options[0][0].collective == certificate.terms["T3"]


def test_sums_and_layout_changes() -> None:
    gemm = {"kind": "gemm", "M": 512, "K": 256, "N": 64, "weights": True}
    layer = made({"a": gemm, "b": gemm}, "ab", mode="dfmodel", all_reduce_factor=2)
    size = 512 * 64 * 2
    once = size * 1000 // (2 * 25)
    terms = {schemes: mapping(layer, (0, 0), schemes=schemes).terms["T3"] for schemes in (("M", "K"), ("M", "M"))}
    assert terms == {("M", "K"): 2 * once, ("M", "M"): once}
    scattered = layer.replace(mode="physical")
    assert mapping(scattered, (0, 0), schemes=("K_RS", "K_RS")).terms["T3"] == 2 * once
    assert mapping(scattered, (0, 0), schemes=("K", "M")).terms["T3"] == 2 * once


@pytest.mark.parametrize(
    ("label", "said", "instance", "partitions", "fields"),
    [
        ("C0", "2 partitions for 1 x 3 kernels", made(CHAIN, "ab bc"), (0, 0), {"schemes": ("M",) * 3}),
        ("C0", "numbered from 0", made(CHAIN, "ab bc"), (0, 0, -1), {}),
        ("C0", "'a' may not be sharded by K", made(CHAIN, "ab bc"), (0, 0, 0), {"schemes": ("K", "M", "M")}),
        ("C0", "'b' may not be sharded by M", made(CHAIN, "", schemes={"b": "NONE"}), (0, 0, 0), {}),
        ("C0", "2 schemes for 1 x 3 kernels", made(CHAIN, "ab bc"), (0, 0, 0), {"schemes": ("M", "M")}),
        (
            "C0",
            "tensor parallelism is 1, its network dimensions hold 2 chips",
            made(CHAIN, ""),
            (0, 0, 0),
            {"degrees": Degrees(dimensions=("tensor",))},
        ),
        ("C0", "must have a parallelism", made(CHAIN, ""), (0, 0, 0), {"degrees": Degrees(tensor=2)}),
        (
            "C0",
            "may have 1 network dimension",
            made(CHAIN, "", sizes=[2, 2]),
            (0, 0, 0),
            {"degrees": Degrees(tensor=4, dimensions=("tensor", "tensor"))},
        ),
        (
            "C0",
            "2 stages don't divide 1 layer",
            made(CHAIN, ""),
            (0, 0, 0),
            {"degrees": Degrees(pipeline=2, dimensions=("pipeline",))},
        ),
        (
            "C0",
            "2 replicas don't divide the batch",
            made(CHAIN, "", batch=3),
            (0, 0, 0),
            {"degrees": Degrees(data=2, dimensions=("data",))},
        ),
        (
            "C0",
            "partitions reach across",
            made({"a": LIGHT}, "", layers=2, across_layers=True),
            (0, 0),
            {"degrees": Degrees(pipeline=2, dimensions=("pipeline",))},
        ),
        (
            "C0",
            "not those that the task asks for",
            made(CHAIN, "", degrees={"data": 2, "dimensions": ["data"]}),
            (0, 0, 0),
            {},
        ),
        ("C1", "'a' -> 'b' goes from partition 1 back to 0", made(CHAIN, "ab bc"), (1, 0, 1), {}),
        (
            "C1",
            "'a' -> 'a' goes from partition 1 back to 0",
            made({"a": LIGHT}, "", layers=2, carries="aa", across_layers=True),
            (1, 0),
            {},
        ),
        ("C2", "partition 1 holds", made(CHAIN, "ab bc", sram_bytes=100_000), (0, 1, 2), {}),
        ("C3", "partition 0 mixes forward and backward", made({"a": LIGHT, "x": BACK}, "ax"), (0, 0), {}),
        ("C4", "forward has 3 partitions, at most 2", made(CHAIN, "ab bc", partitions=2), (0, 1, 2), {}),
        ("C4", "exactly 2 are asked for", made(CHAIN, "", partitions=2, exactly=True), (0, 0, 0), {}),
        ("C4", "1 kernels share a partition", made(CHAIN, "ab bc", fused=False), (0, 1, 1), {}),
        ("C5", "a, b lie in partitions 0, 1", made(CHAIN, "ab bc", together=["ab"]), (0, 1, 1), {}),
        ("C5", "partition 0 holds kernels of 2 groups", made(CHAIN, "ab bc", together=["a", "b"]), (0, 0, 1), {}),
    ],
)
def test_what_is_wrong_is_named(
    label: str, said: str, instance: DataflowInstance, partitions: tuple[int, ...], fields: dict[str, Any]
) -> None:
    certificate = mapping(instance, partitions, **fields)
    assert not certificate.feasible
    assert {violation.label for violation in certificate.violations} == {label}
    assert any(said in violation.message and violation.amount > 0 for violation in certificate.violations)
    assert (certificate.objective is None) == (label == "C0")


def test_sram_to_the_byte() -> None:
    """Inside, a buffer waits (levels + 1) times; across a border it is held twice on each side, per edge or tensor."""
    chain = made({"a": LIGHT, "b": HEAVY, "c": HEAVY}, "ab bc ac", tile_tokens=64)
    for mode, partitions, held in (
        ("physical", (0, 0, 0), 245_000 + 30_000 * (2 + 3) + 15_000 * 2),
        ("physical", (0, 1, 1), 200_000 + 2 * 30_000 + 2 * 15_000),
        ("dfmodel", (0, 1, 1), 200_000 + 4 * 30_000 + 2 * 15_000),
    ):
        instance = chain.replace(mode=mode)
        chip = instance.system.chip
        for spare, feasible in ((0, True), (-1, False)):
            system = instance.system.replace(chip=chip.replace(sram_bytes=held + spare))
            assert mapping(instance.replace(system=system), partitions).feasible == feasible, (mode, partitions, spare)


def test_the_batch() -> None:
    torus = made(CHAIN, "ab bc", sizes=[2, 2], layers=6, batch=8, micro_batch=2)
    staged = Degrees(tensor=2, pipeline=2, dimensions=("tensor", "pipeline"))
    copied = Degrees(tensor=2, data=2, dimensions=("tensor", "data"))
    for mode, bubble in (("physical", (5, 4)), ("dfmodel", (9, 8))):
        instance = torus.replace(mode=mode)
        certificate = mapping(instance, (0, 0, 0), degrees=staged)
        layer = certificate.terms["T4"]
        assert certificate.objective == -(-layer * 3 * 4 * bubble[0] // bubble[1])
        certificate = mapping(instance, (0, 0, 0), degrees=copied)
        assert certificate.objective == certificate.terms["T4"] * 6 * 2


def test_only_replicas_take_several_dimensions() -> None:
    """2 x 2 x 2 chips: all ways to give dimensions away, and what the checker says of a wrong one."""
    instance = made(CHAIN, "ab bc", sizes=[2, 2, 2], layers=2, batch=8, sram_bytes=10**6)
    found = allowed_degrees(instance)
    # none, one or both of tensor and pipeline take a dimension
    assert len(found) == 1 + 3 + 3 + 6 and len(set(found)) == len(found)
    assert Degrees(data=8, dimensions=("data",) * 3) in found
    alone = mapping(instance, (0, 0, 0), degrees=Degrees(data=8, dimensions=("data",) * 3))
    assert alone.feasible and alone.objective == alone.terms["T4"] * 2
    wrong = mapping(instance, (0, 0, 0), degrees=Degrees(tensor=4, data=2, dimensions=("tensor", "tensor", "data")))
    assert "tensor parallelism may have 1 network dimension" in wrong.violations[0].message
    with pytest.raises(InputError, match="Only tensor, data and expert may have more than one"):
        check_degrees(instance, Degrees(pipeline=4, data=2, dimensions=("pipeline", "pipeline", "data")))


def test_what_is_kept_of_an_instance_is_no_other_instances() -> None:
    """The same kernels and degrees, another batch, format or machine: as an instance that nobody has asked says."""
    partitions, base = (0, 1, 1), made(CHAIN, "ab bc")
    mapping(base, partitions)
    memory = base.system.memory.replace(bytes_per_ns=50.0)
    others = (
        base.replace(task=base.task.replace(batch=2 * base.task.batch)),
        base.replace(workload=base.workload.replace(word_bytes=4)),
        base.replace(system=base.system.replace(memory=memory)),
    )
    for other in others:
        fresh = DataflowInstance.from_json(other.to_json())
        assert mapping(other, partitions) == mapping(fresh, partitions) != mapping(base, partitions)


def test_a_mapping_that_runs_the_batch_in_its_own_way_changes_nothing_for_the_next() -> None:
    free = made(CHAIN, "ab bc", micro_batch=None, batch=4)
    asked = [mapping(free, (0, 1, 1), micro_batch=each) for each in (1, 2, 4, 2, 1)]
    assert asked[:2] == [asked[4], asked[3]] and asked[0].terms != asked[1].terms != asked[2].terms
