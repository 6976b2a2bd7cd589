"""Experts divided over chips, by hand and at random: every method = brute force."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance, Degrees
from chipmap.instances.dataflow.generators import moe
from chipmap.instances.dataflow.instance import DataflowSolution, check_degrees
from chipmap.instances.dataflow.partition_loads import loads
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.workload import Scheme
from chipmap.methods.dataflow.chain import auto
from chipmap.records import InputError
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed
from tests.dataflow.parallel_instances import parallel_instance
from tests.dataflow.random_instances import made
from tests.lanes import of_all

SHARED = Degrees(data=4, expert=4, dimensions=("expert",))
APART = Degrees(data=4, dimensions=("data",))
GROUP = Degrees(tensor=4, dimensions=("tensor",))
#: Nanoseconds in which a tensor of 1024 · 128 two-byte words is written or read.
TENSOR = 262_144 / 200
#: Those in which a chip reads a quarter of the weights.
QUARTER = 4_194_304 / 200


def stack(experts: int = 8, **parameters: Any) -> DataflowInstance:
    """64 tokens go to 2 of so many experts and come back: dispatch, a product of 1024 x 1024, combine."""
    element = {"kind": "elementwise", "M": 1024, "N": 128, "flop_per_element": 0, "schemes": ["N", "NONE"]}
    routed = {"experts": experts, "active": 2, "weight_bytes": experts * 1024 * 1024 * 2, "schemes": ["M", "E"]}
    product = {"kind": "gemm", "M": 1024, "K": 1024, "N": 128, "weights": True, **routed}
    given = {"sizes": [4], "topology": "switch", "link_gbps": 50.0, "memory_gbps": 200.0, "sram_bytes": 2**30}
    given |= {"fused": False, "purpose": "prefill", "batch": 4, "tokens": 64}
    return made({"d": element, "x": product, "c": element}, "dx xc", **{**given, **parameters})


def terms(instance: DataflowInstance, degrees: Degrees, schemes: tuple[Scheme, ...]) -> tuple[int, int]:
    """The checker's T2 and T3, which are those of the fast evaluation."""
    solution = DataflowSolution(degrees=degrees, schemes=schemes, partitions=(0, 1, 2))
    certificate = check(instance, solution)
    assert not certificate.violations
    assert sum(one.memory for one in loads(instance, solution)) == certificate.terms["T2"]
    assert sum(one.network for one in loads(instance, solution)) == certificate.terms["T3"]
    return certificate.terms["T2"], certificate.terms["T3"]


def solved(instance: DataflowInstance) -> DataflowSolution:
    """The mapping of the exact program, proved best."""
    run = Run(instance, SolveOptions(time_limit=60.0, threads=1), check)
    assert auto(instance, run).reason == "optimal" and not run.rejected and run.best is not None
    assert run.best.claimed == run.upper and isinstance(run.best.solution, DataflowSolution)
    return run.best.solution


def ps(nanoseconds: float) -> int:
    """Picoseconds."""
    return round(nanoseconds * 1000)


def test_replicas_share_experts() -> None:
    """Each of four replicas has two of eight experts, reads a quarter of the weights and swaps 262,144 bytes twice."""
    swap = 262_144 * 3 / 4 / 50
    assert terms(stack(), SHARED, ("N", "E", "N")) == (ps(QUARTER + 4 * TENSOR), ps(2 * swap))
    whole = 83_886_080 - 0.8388608  # but for 10⁻⁸: (3/4)⁶⁴ of the experts
    assert terms(stack(), APART, ("N", "M", "N")) == (-int(-whole) + 4 * 1_310_720 + 1, 0)
    loaded = stack(expert_load=1.25)
    assert terms(loaded, SHARED, ("N", "E", "N")) == (ps(QUARTER + 4.5 * TENSOR), ps(2.5 * swap))


def test_a_group_shares_experts() -> None:
    """Four chips of one replica: a quarter of the tensor is swapped, or every chip has it and it is gathered again."""
    quarter = 20_971_520 - 0.2097152
    read = -int(-quarter) + 1
    assert terms(stack(), GROUP, ("N", "E", "N")) == (read + ps(TENSOR), ps(2 * 65_536 * 3 / 4 / 50))
    assert terms(stack(), GROUP, ("NONE", "E", "NONE")) == (read + ps(2.5 * TENSOR), ps(262_144 * 3 / 4 / 50))


@pytest.mark.parametrize(
    ("topology", "nanoseconds"), [("ring", 262_144 * 4 / (4 * 50)), ("full", 262_144 / (4 * 50)), ("switch", 3932.16)]
)
def test_a_swap_on_each_network(topology: str, nanoseconds: float) -> None:
    """Among four replicas: in a ring a message passes a link on average, and each pair may have one of its own. Steps'
    latencies are added."""
    steps = 1 if topology == "full" else 3
    slow = stack(topology=topology, latency_ns=50.0)
    assert terms(slow, SHARED, ("N", "E", "N"))[1] == ps(2 * (nanoseconds + steps * 50))


def test_the_fullest_chip_has_two_of_five_experts() -> None:
    """p is 2/5: two fifths of the weights and, of four replicas, 1.6 times the tokens of one."""
    memory, network = terms(stack(5), SHARED, ("N", "E", "N"))
    assert memory == ps(2 * 1024 * 1024 * 2 / 200 + (2 + 2 * 1.6) * TENSOR)
    assert network == ps(2 * 1.6 * 262_144 * 3 / 4 / 50)


def test_both_dimensions_share() -> None:
    """2 x 2 chips, two replicas of two: a quarter of the weights each, a swap in the group and one between replicas."""
    both = Degrees(tensor=2, data=2, expert=2, dimensions=("tensor", "expert"))
    memory, network = terms(stack(sizes=[2, 2]), both, ("N", "E", "N"))
    assert memory == ps(QUARTER + 2 * TENSOR)  # 128 tokens: (3/4)¹²⁸ is less than 10⁻⁹, which is rounded away
    assert network == ps(2 * 2 * 131_072 / 2 / 50)


def test_the_solver_shares_experts_where_that_is_best() -> None:
    """Of all degrees and schemes for four chips that run kernel by kernel."""
    best = solved(stack())
    assert best.degrees == SHARED and best.schemes[1] == "E"


def test_gradients_of_experts_are_summed_where_they_are_alike() -> None:
    """Eight chips: four share experts, and another four have the same. An update's 5,242,880 bytes of five experts, two
    of them on a chip, are summed by these two; those of a kernel that every replica has by all eight."""
    update = {"kind": "gemm", "M": 1024, "K": 128, "N": 512, "update": True, "phase": "backward"}
    kernels = {"u": {**update, "output_bytes": 5_242_880, "experts": 5, "active": 2, "schemes": ["M", "E"]}}
    instance = made(kernels, "", sizes=[4, 2], batch=8, topology="switch", link_gbps=50.0, sram_bytes=2**30)
    degrees = Degrees(data=8, expert=4, dimensions=("expert", "data"))

    def gradients(scheme: Scheme) -> int:
        solution = DataflowSolution(degrees=degrees, schemes=(scheme,), partitions=(0,))
        return check(instance, solution).terms["T6"]

    size = 5_242_880
    assert gradients("E") == ps(2 * size * 2 / 5 / 2 / 50)
    assert gradients("M") == ps(2 * size * 3 / 4 / 50 + 2 * size / 4 / 2 / 50)


def test_what_is_refused() -> None:
    """E without experts or in mode ``dfmodel``, a dimension for experts that nobody divides, an impossible load."""
    with pytest.raises(InputError, match="has no experts"):
        made({"a": {"flop": 1, "output_bytes": 1, "weight_bytes": 0, "schemes": ["E"]}}, "")
    with pytest.raises(InputError, match="names E"):
        stack(mode="dfmodel")
    with pytest.raises(InputError, match="no kernel names scheme E"):
        check_degrees(moe(divide=False, sizes=[4], batch=4), SHARED)
    with pytest.raises(InputError, match=r"is 0\.5"):
        stack(expert_load=0.5)
    with pytest.raises(InputError, match="need stacked experts"):
        moe(divide=True, stacked=False)


def test_degrees_and_their_words() -> None:
    """Only where kernels name E may a dimension share experts; then it counts as replicas."""
    assert {one.dimensions for one in allowed_degrees(stack(layers=4))} == {
        ("tensor",), ("pipeline",), ("data",), ("expert",)
    }  # fmt: skip
    assert SHARED.text == "tensor 1, pipeline 1, data 4 (4 share experts)"
    wrong = DataflowSolution(degrees=SHARED.replace(expert=2), schemes=("N", "E", "N"), partitions=(0, 1, 2))
    assert "hold 4 chips" in check(stack(), wrong).violations[0].message


def test_a_mixture_in_both_directions() -> None:
    """Mixtral's experts are divided forward and backward; the program has the checker's objective, and uses it."""
    given: dict[str, Any] = {"model": "mixtral-8x7b", "machine": "h100-sxm", "sizes": [8], "backward": True}
    degrees = {"data": 8, "expert": 8, "dimensions": ["expert"]}
    instance = moe(**given, batch=8, divide=True, step="forward", tokens=512, dram_bytes=10**13, degrees=degrees)
    named = zip(instance.workload.kernels, solved(instance).schemes, strict=True)
    assert all(scheme == "E" for kernel, scheme in named if kernel.name.startswith("Experts_"))


@pytest.mark.parametrize("block", range(of_all(2, few=1)))
def test_every_method_is_brute_force(block: int) -> None:
    tried = {"optimal": 0, "infeasible": 0}
    for seed in range(8 * block, 8 * block + 8):
        instance = parallel_instance(Random(seed))
        if count(instance) > 150:
            continue
        optimum, _ = agreed(instance, seed)
        tried["infeasible" if optimum is None else "optimal"] += 1
    assert min(tried.values()) >= 1
