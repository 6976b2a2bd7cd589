"""A constant with several readers rests once on each chip that has one: a table that both ends of a network read."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import chipmap
from chipmap.heuristics.ring.greedy import greedy
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.instances.ring import Package, RingInstance, RingSolution
from chipmap.instances.ring.contraction import contract
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation, OperationGraph, Tensor
from chipmap.run import SolveOptions
from chipmap.validation.ring.checker import check
from chipmap.validation.ring.oracles import liveness

#: Bytes of a "megabyte": few, so that one byte too many is beyond the tolerance of a solver in floating point.
MB = 10**3
TABLE, LAYER, LAYERS = 260 * MB, 28 * MB, 5
#: Chips -> the least SRAM: the table and all layers; the table twice and half of the layers; the layers by themselves.
LEAST = {1: TABLE + LAYERS * LAYER, 2: TABLE + 3 * LAYER, 3: TABLE}
METHODS = ("ring/auto", "ring/exact", "ring/cpsat", "ring/mip")


def tied(chips: int, sram: int, grade: Literal["boundary", "full"] = "boundary", **fields: Any) -> RingInstance:
    """Like GPT-2: the embedding reads the table as it is, the head by way of a view; layers with weights between."""
    names = ["table", "turned", "embedding", *(f"layer{i}" for i in range(LAYERS)), "head"]
    roles: dict[str, Any] = {"table": "constant", "turned": "view"}
    operations = tuple(
        Operation(
            name=name,
            kind="k",
            role=roles.get(name, "compute"),
            flop=1000,
            weight_bytes=LAYER if name.startswith("layer") else 0,
        )
        for name in names
    )
    last = len(names) - 1
    tensors = [Tensor(producer=0, readers=(1, 2), bytes=TABLE), Tensor(producer=1, readers=(last,), bytes=TABLE)]
    tensors += [Tensor(producer=v, readers=(v + 1,)) for v in range(2, last)]
    graph = OperationGraph(name="tied", operations=operations, tensors=tuple(tensors))
    package = Package(chips=chips, sram_bytes=sram, flop_per_ns=1.0)
    return RingInstance(name="tied", graph=graph, package=package, memory_grade=grade, **fields)


def mapped(instance: RingInstance, *chips: int) -> RingSolution:
    """A mapping by the chips of embedding, layers and head; table and view sit with the embedding."""
    return RingSolution(instance=instance.name, chips=(chips[0], chips[0], *chips))


@pytest.mark.parametrize("grade", ["boundary", "full"])
def test_each_chip_with_a_reader_holds_the_table_once(grade: Literal["boundary", "full"]) -> None:
    for chips, used in (((0,) * 7, 1), ((0, 0, 0, 0, 1, 1, 1), 2), ((0, 1, 1, 1, 1, 1, 2), 3)):
        least = LEAST[used]
        enough, short = tied(3, least, grade), tied(3, least - 1, grade)
        assert check(enough, mapped(enough, *chips)).feasible
        first, *others = check(short, mapped(short, *chips)).violations
        assert (first.label, first.amount) == ("C4", 1)
        assert len(others) == (used == 3), "the two ends hold the table alone, each"
        assert liveness.on_chip(short, tuple(v + 2 for v, c in enumerate(chips) if c == used - 1)) == (used == 2)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("grade", ["boundary", "full"])
@pytest.mark.parametrize("chips", [1, 2, 3])
def test_methods_know_the_least_memory_to_the_byte(chips: int, grade: Literal["boundary", "full"], method: str) -> None:
    options = SolveOptions(time_limit=60.0, warm_start="none")
    enough = chipmap.solve(tied(chips, LEAST[chips], grade), method, options)
    assert enough.status == "optimal"
    assert enough.certificate is not None
    assert enough.certificate.figures["max_memory_bytes"] == LEAST[chips]
    assert chipmap.solve(tied(chips, LEAST[chips] - 1, grade), method, options).status == "infeasible"


@pytest.mark.parametrize("chips", [1, 2, 3])
def test_samples_and_greedy_fill_chips_to_the_byte(chips: int) -> None:
    for sram, fits in ((LEAST[chips], True), (LEAST[chips] - 1, False)):
        instance = tied(chips, sram)
        contraction = contract(instance)
        problem = ring_problem(contraction.instance)
        found = Sampler(problem).sample(3, 0)
        assert found.valid.all() == fits == found.valid.any()
        for row in found.chips[found.valid].tolist():
            assert check(instance, contraction.lift_computing(row)).feasible
        if not fits:
            assert greedy(problem) is None
    assert greedy(problem_of(1, LEAST[1])) is not None, "a copy for each of the two readers wouldn't fit"


def problem_of(chips: int, sram: int) -> Any:
    """The contracted problem."""
    return ring_problem(contract(tied(chips, sram)).instance)


def test_the_contraction_keeps_what_is_shared_and_folds_what_is_not() -> None:
    """Kept together, both readers are one operation, and the table is part of its weights."""
    apart, together = contract(tied(2, TABLE)), contract(tied(2, TABLE, together=(("embedding", "head"),)))
    assert [operation.role for operation in apart.instance.graph.operations] == ["constant"] + ["compute"] * 7
    assert apart.members == ((), *((v,) for v in range(2, 9)))
    (one,) = together.instance.graph.operations
    assert one.weight_bytes == TABLE + LAYERS * LAYER and together.members == (tuple(range(2, 9)),)
    assert np.array_equal(ring_problem(apart.instance).alone_bytes, [0, TABLE, *[LAYER] * LAYERS, TABLE])


def test_why_there_is_no_mapping_is_told_in_bytes() -> None:
    result = chipmap.solve(tied(2, TABLE), "ring/auto", SolveOptions(time_limit=60.0))
    (reason,) = result.infeasibility
    assert (reason.label, reason.demand, reason.limit) == ("C4", LEAST[2], TABLE)
    assert f"{LEAST[1]:,} bytes in all" in reason.message and f"{TABLE:,}" in reason.message
    explained = chipmap.explain(tied(2, TABLE), options=SolveOptions(time_limit=20.0))
    least = [said for said in explained.statements if said.topic == "least" and "least_bytes" in said.figures]
    assert [said.figures["least_bytes"] for said in least] == [LEAST[2]]
