"""Tensor parallelism over several network dimensions: by hand, against the page's own brute force, and at random."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from random import Random

import pytest

from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.generators import llama
from chipmap.instances.dataflow.joint import joint_ns, joint_swap_ns, neighbours
from chipmap.instances.dataflow.partition_loads import loads
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.instances.dataflow.sharding import schemes
from chipmap.instances.dataflow.system import Dimension
from chipmap.records import InputError
from chipmap.validation.dataflow import joint
from chipmap.validation.dataflow.candidates import count
from chipmap.validation.dataflow.checker import check
from tests.dataflow.agreement import agreed, run_of
from tests.dataflow.page_comparison import none_differ
from tests.dataflow.parallel_instances import parallel_instance, tokens_instance
from tests.dataflow.present_instances import present_instance
from tests.dataflow.random_instances import made, split_instance, with_little_dram
from tests.lanes import LONG, of_all

TORUS = [Dimension(size=4, bytes_per_ns=100.0), Dimension(size=4, bytes_per_ns=100.0)]


def test_the_examples_of_the_page() -> None:
    """Nested and in slices, on equal and on unequal rings, and among eight neighbours of sixteen."""
    for scatter in (lambda s, d: joint_ns("reduce_scatter", s, d, 1), joint.reduce_scatter):
        assert scatter(Fraction(1_600_000), TORUS) == 7_500
        slow = [TORUS[0], TORUS[1].replace(bytes_per_ns=25.0)]
        assert scatter(Fraction(1_600_000), slow) == 24_000
        assert scatter(Fraction(640_000), neighbours(TORUS, 8)) == 3_600
    assert [one.size for one in neighbours(TORUS, 8)] == [one.size for one in joint.few(TORUS, 8)] == [4, 2]
    assert joint_ns("none", Fraction(1), TORUS, 1) == 0
    assert joint_ns("all_reduce", Fraction(1_600_000), TORUS, 2) == joint.all_reduce(Fraction(1_600_000), TORUS, 2)
    assert joint_swap_ns(Fraction(4_000), TORUS) == joint.to_each(Fraction(4_000), TORUS) == 4_000 * 4 / 4 / 100


@pytest.mark.parametrize("k", [1, 2, 3])
def test_equal_rings_reach_what_no_collective_exceeds(k: int) -> None:
    """S(n-1)/(nkB) on a torus of k equal rings."""
    rings = [Dimension(size=3, bytes_per_ns=10.0)] * k
    assert joint_ns("all_gather", Fraction(2_700), rings, 1) == Fraction(2_700 * (3**k - 1), 3**k * k * 10)


def test_groups_of_neighbours_nest() -> None:
    """A smaller group of divisors lies within a larger one, whatever the sizes of dimensions."""
    dimensions = [Dimension(size=size, bytes_per_ns=1.0) for size in (4, 6, 3)]
    groups = [g for g in range(1, 73) if 72 % g == 0]
    for few in groups:
        for many in (one for one in groups if one % few == 0):
            small, large = ([Fraction(len_of(dimensions, g, i)) for i in range(3)] for g in (few, many))
            assert all((b / a).denominator == 1 for a, b in zip(small, large, strict=True))


def len_of(dimensions: list[Dimension], chips: int, place: int) -> int:
    """How many of the ``chips`` neighbours lie along one dimension."""
    named = [one.replace(latency_ns=float(i)) for i, one in enumerate(dimensions)]
    return next((one.size for one in neighbours(named, chips) if one.latency_ns == place), 1)


def test_what_is_refused() -> None:
    """Several dimensions unless the task has them, too many, and the published model."""
    with pytest.raises(InputError, match="tensor_dimensions"):
        llama(sizes=[2, 2], degrees=Degrees(tensor=4, dimensions=("tensor", "tensor")))
    with pytest.raises(InputError, match="is 0"):
        llama(tensor_dimensions=0)
    with pytest.raises(InputError, match="mode dfmodel"):
        llama(tensor_dimensions=2, mode="dfmodel")
    with pytest.raises(InputError, match="names B"):
        llama(split_samples=True, mode="dfmodel")
    with pytest.raises(InputError, match="samples may be split"):
        made({"a": {"kind": "gemm", "K": 4, "weights": True, "schemes": ["B"]}}, "")


def test_samples_by_hand() -> None:
    """Six samples on four chips: two on the fullest one, a third of FLOP and bytes; the swap and the gather around."""
    row = {"kind": "elementwise", "M": 8, "N": 6, "flop_per_element": 0}
    kernels = {"a": {**row, "schemes": ["M"]}, "b": {**row, "schemes": ["B"]}, "c": {**row, "schemes": ["NONE"]}}
    given = {"sizes": [2, 2], "topology": "switch", "link_gbps": 1.0, "memory_gbps": 1.0, "fused": False, "tokens": 6}
    wide = Degrees(tensor=4, dimensions=("tensor", "tensor"))
    instance = made(kernels, "ab bc", **given, degrees=wide, tensor_dimensions=2, batch=6, micro_batch=6)
    solution = DataflowSolution(degrees=wide, schemes=("M", "B", "NONE"), partitions=(0, 1, 2))
    terms = check(instance, solution).terms
    size = 6 * 8 * 6 * 2  # bytes of each tensor; parts of a third are three
    swap = 2 * Fraction(size, 3 * 2) / 2  # slices of half a third over two switches of two chips, two turns
    gather = Fraction(size, 2) / 2 + Fraction(size, 4) / 2
    assert terms["T3"] == 1000 * (max(swap, gather) + gather)
    assert terms["T2"] == 1000 * (2 * Fraction(size, 4) + 2 * Fraction(size, 3))


def test_the_checker_refuses_what_the_task_does_not_allow() -> None:
    """C0: two dimensions where one is allowed."""
    plain = made({"a": {"kind": "elementwise", "M": 8, "N": 8}}, "", sizes=[2, 2])
    wide = Degrees(tensor=4, dimensions=("tensor", "tensor"))
    solution = DataflowSolution(degrees=wide, schemes=("M",), partitions=(0,))
    assert [one.label for one in check(plain, solution).violations] == ["C0"]
    assert not check(plain.replace(task=plain.task.replace(tensor_dimensions=2)), solution).violations


def group_instance(random: Random) -> DataflowInstance:
    """A random instance on two or three dimensions, of which tensor parallelism may have several, and mostly has."""
    bases = (parallel_instance, tokens_instance, present_instance, split_instance)
    instance = _by_samples(random.choice(bases)(random), random)
    sizes = random.choice(((2, 2), (2, 3), (4, 2), (2, 2, 2), (2, 2, 2), (3, 2, 2)))
    network = [
        Dimension(
            size=size,
            topology=random.choice(("ring", "switch", "full")),
            bytes_per_ns=random.choice((4.0, 8.0, 25.0)),
            latency_ns=random.choice((0.0, 0.0, 50.0)),
        )
        for size in sizes
    ]
    network = [one.replace(reduces=one.topology == "switch" and random.random() < 0.4) for one in network]
    memory = instance.system.memory.replace(capacity_bytes=None)
    task = instance.task.replace(degrees=None, tensor_dimensions=random.choice((2, len(sizes), len(sizes))), batch=12)
    found = instance.replace(
        system=instance.system.replace(network=network, memory=memory),
        task=task.replace(micro_batch=random.choice((1, 1, 2))),
        mode="physical",
    )
    wide = [one for one in allowed_degrees(found) if one.dimensions.count("tensor") > 1]
    if wide and random.random() < 0.8:
        most = max(one.dimensions.count("tensor") for one in wide)
        widest = [one for one in wide if one.dimensions.count("tensor") == most]
        degrees = random.choice(random.choice((wide, widest)))
        found = found.replace(task=found.task.replace(degrees=degrees))
    if random.random() < 0.2:
        found = found.replace(task=found.task.replace(micro_batch=None))
    return with_little_dram(found, random) if random.random() < 0.2 else found


def _by_samples(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """``instance`` in mode ``physical``, of whose kernels without parameters some may have whole samples on a chip."""
    kernels = []
    for kernel in instance.workload.kernels:
        if kernel.phase == "forward" and not (kernel.has_parameters or kernel.experts) and random.random() < 0.5:
            own = random.sample(schemes(kernel, "physical"), 1) if random.random() < 0.7 else ()
            kernel = kernel.replace(schemes=(*own, "B"))
        kernels.append(kernel)
    task = instance.task.replace(schemes={}, utilisation=instance.task.utilisation or 0.9)  # not all is proved on tiles
    return instance.replace(workload=instance.workload.replace(kernels=kernels), task=task, mode="physical")


def test_the_checker_says_what_the_page_says() -> None:
    none_differ(group_instance, of_all(150, few=12))


def test_every_method_equals_brute_force() -> None:
    """Program, MIP and CP-SAT on instances with few mappings; loads of the fast evaluation equal the checker's."""
    seen = Counter[str]()
    for seed in range(of_all(320, few=22)):
        instance = group_instance(Random(seed))
        if count(instance) > (1_500 if LONG else 150):
            seen["too many"] += 1
            continue
        optimum, mapping = agreed(instance, seed)
        if optimum is not None:
            terms = check(instance, mapping).terms
            assert sum(one.network * one.runs for one in loads(instance, mapping)) == terms["T3"], seed
            seen[f"{mapping.degrees.dimensions.count('tensor')} dimensions"] += 1
            seen["B"] += "B" in mapping.schemes
    assert seen["2 dimensions"] and seen["3 dimensions"] and seen["B"], seen
    assert not LONG or seen["2 dimensions"] + seen["3 dimensions"] >= 150, seen


def test_llama_on_a_torus() -> None:
    """The page: 33.742 ms on one dimension of 64 TPU v4, 9.694 on as many as are best, 3.869 with whole samples of the
    attention, all proved."""
    for most, samples, ms in ((1, False, 33.742), (3, False, 9.694), (3, True, 3.869)):
        step = llama(model="llama3-70b", machine="tpu-v4", batch=64, tensor_dimensions=most, split_samples=samples)
        run = run_of(step)
        assert run.lower is not None and run.lower.value == run.upper
        assert round(run.upper / 1e9, 3) == ms
