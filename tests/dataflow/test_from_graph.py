"""Operation graphs as workloads: kernels with sizes and schemes from the loop nests of their operations."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chipmap.instances.dataflow.from_graph import from_graph
from chipmap.instances.dataflow.generators import explicit
from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.workload import Kernel
from chipmap.networks import generators as networks
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.program import imported
from chipmap.networks.importers.reading import import_graph
from chipmap.run import SolveOptions
from chipmap.solve import solve
from chipmap.validation.dataflow import facts, training
from tests.instances.executed import Net
from tests.instances.test_loops import joint, llama, residual


def converted(net: Net, chips: int = 8, link: float = 25.0, fuse: bool = True) -> DataflowInstance:
    """The net's instance on so many chips in a ring, all of one tensor-parallel group."""
    net.program.outputs = [net.program.steps[-1].makes[0]]
    return on_ring(from_graph(imported(net.program, "net", "test"), "net", fuse), chips, link)


def on_ring(instance: DataflowInstance, chips: int, link: float) -> DataflowInstance:
    """The instance on so many chips in a ring, all of one tensor-parallel group."""
    network = tuple(one.replace(size=chips, bytes_per_ns=link) for one in instance.system.network)
    degrees = Degrees(tensor=chips, dimensions=("tensor",))
    return instance.replace(
        system=instance.system.replace(network=network), task=instance.task.replace(degrees=degrees, batch=8)
    )


def optimum(instance: DataflowInstance) -> tuple[dict[str, str], dict[str, int]]:
    """The scheme of each kernel and the terms of an optimal mapping."""
    result = solve(instance, None, SolveOptions.make(warm_start="none", time_limit=60.0))
    assert result.status == "optimal" and result.solution is not None and result.certificate is not None
    solution = DataflowSolution.make(**result.solution)
    names = [kernel.name for kernel in instance.workload.kernels]
    return dict(zip(names, solution.schemes, strict=True)), result.certificate.terms


def without_whole(instance: DataflowInstance) -> DataflowInstance:
    """The instance in which every kernel that can be split has to be."""
    kernels = [
        kernel.replace(schemes=[scheme for scheme in kernel.schemes if scheme != "NONE"] or ["NONE"])
        for kernel in instance.workload.kernels
    ]
    return instance.replace(workload=instance.workload.replace(kernels=kernels))


@pytest.mark.parametrize("fused", [False, True])
def test_a_converted_llama_does_not_shard_for_free(fused: bool) -> None:
    """On 1,024 chips whose links hardly move a byte nothing is split, and splitting it costs; before, T3 was 0."""
    net = Net()
    net.layer_norm(llama(net, fused))  # which needs whole what was made before
    instance = converted(net, chips=1024, link=1e-6)
    schemes, terms = optimum(instance)
    assert set(schemes.values()) == {"NONE"} and terms["T3"] == 0
    _, split = optimum(without_whole(instance))
    assert split["T3"] > 10**9 > terms["T4"]


def test_a_converted_llama_is_split_as_megatron_does() -> None:
    """Queries, values, gate and up by columns, heads in attention, sums after the two products that follow. Four chips
    can't share the two heads of the keys, which are made whole for their rotation."""
    net = Net()
    net.layer_norm(llama(net, True))
    instance = converted(net, chips=4, link=1.0)
    heavy = [k.replace(flop=(k.flop or 0) * 10**7) if k.kind == "gemm" else k for k in instance.workload.kernels]
    task = instance.task.replace(overlap=False)  # what isn't the longest counts as well
    instance = instance.replace(workload=instance.workload.replace(kernels=heavy), task=task)
    schemes, terms = optimum(instance)
    linear = [scheme for name, scheme in schemes.items() if name.startswith("linear")]
    assert linear[0] == "OUTER" and [linear[2], *linear[4:6]] == ["M"] * 3
    assert linear[3][0] == linear[6][0] == "K"
    assert [scheme for name, scheme in schemes.items() if name.startswith("scaled")] == ["OUTER"]
    assert terms["T3"] > 0


def test_a_projection_is_split_by_the_heads_that_read_it() -> None:
    """Three heads on two chips: the chip with two of them makes the features of two. Half of all features would have
    to be gathered. Both ways to solve it agree."""
    net = Net()
    x = net.layer_norm(net.input(1, 5, 12))
    parts = [net.transpose(net.view(net.linear(x, 12, bias=False), 1, 5, 3, 4), 1, 2) for _ in range(3)]
    net.linear(net.view(net.transpose(net.attention(*parts), 1, 2), 1, 5, 12), 4)
    instance = converted(net, chips=2, link=1e-3)
    projections = [kernel for kernel in instance.workload.kernels if kernel.name.startswith("linear")][:3]
    assert {(one.outer, one.M, one.schemes) for one in projections} == {(3, 4, ("OUTER", "M", "K", "K_RS", "NONE"))}
    attention = next(kernel.name for kernel in instance.workload.kernels if kernel.name.startswith("scaled"))
    moved = {}
    for scheme in ("OUTER", "M"):
        pins = {one.name: scheme for one in projections} | {attention: "OUTER"}
        pinned = instance.replace(task=instance.task.replace(schemes=pins))
        results = [
            solve(pinned, method, SolveOptions.make(warm_start="none", time_limit=60.0))
            for method in ("dataflow/auto", "dataflow/cpsat")
        ]
        assert [result.status for result in results] == ["optimal", "optimal"]
        assert results[0].objective == results[1].objective and results[0].certificate is not None
        moved[scheme] = results[0].certificate.terms["T3"]
    whole = 5 * 12 * 4 * 1e6  # picoseconds for each of three tensors over a link of 10⁻³ bytes/ns; a chip sends half
    assert moved["M"] - moved["OUTER"] == pytest.approx(8 * 3 * whole / 2, rel=1e-3)


def test_a_matrix_that_is_applied_several_times_is_held_by_each_kernel_and_said_so() -> None:
    """Its numbers have 4 bytes, whether one product reads it or several; without any matrix the results tell."""
    net = Net()
    x, w = net.input(5, 12), net.parameter(12, 12)
    for _ in range(3):
        x = str(net.call("linear", lambda x, w: x @ w.T, x, w, inner=12))
    instance = converted(net)
    assert [kernel.weight_bytes for kernel in instance.workload.kernels] == [4 * 144] * 3
    assert instance.workload.word_bytes == 4
    assert "hold a copy each, 1,152 bytes in all" in instance.notes
    without = Net()
    a, b = without.input(5, 12), without.input(12, 5)
    without.matmul(a, b)
    assert converted(without).workload.word_bytes == 4
    assert "copy" not in converted(without).notes
    unknown = Net()
    unknown.call("lstm", lambda x, w: x @ w.T, unknown.input(5, 12), unknown.parameter(48, 12))
    assert converted(unknown).workload.word_bytes == 4


@pytest.mark.parametrize("build", [lambda net: llama(net, False), lambda net: joint(net, "split"), residual])
def test_kernels_have_the_operations_flop_and_bytes(build: Any) -> None:
    net = Net()
    build(net)
    net.program.outputs = [net.program.steps[-1].makes[0]]
    graph = imported(net.program, "net", "test").graph
    instance = converted(net, fuse=False)
    word, kernels = instance.workload.word_bytes, {kernel.name: kernel for kernel in instance.workload.kernels}
    assert word == 4
    reads = {step.name: step.reads for step in net.program.steps}
    for v, operation in enumerate(graph.operations):
        if operation.role == "compute":
            stored = 4 * sum(net.arrays[name].size for name in reads[operation.name] if name in net.program.parameters)
            one = kernels[operation.name]
            assert facts.whole_flop(one) == operation.flop
            assert facts.whole_output(one, instance) == sum(t.bytes for t in graph.tensors if t.producer == v)
            assert facts.whole_weights(one, instance) + one.whole_bytes == stored
            if one.kind == "gemm":  # sizes that are stated are those that the loop nest gives
                assert facts.whole_flop(one.replace(flop=None)) == operation.flop


def test_schemes_of_convolutions() -> None:
    net = Net()
    residual(net)
    kernels = converted(net).workload.kernels
    assert [(k.kind, k.schemes) for k in kernels if k.name.startswith("convolution")] == [
        ("gemm", ("M", "K", "K_RS", "NONE")),
        ("opaque", ("M", "NONE")),  # depthwise: each channel from its own
        ("gemm", ("M", "K", "K_RS", "NONE")),
    ]


def test_a_table_rests_in_memory_and_its_rows_are_fetched() -> None:
    """A look-up's table takes no SRAM; it counts in DRAM, and a shared one at each reader."""
    net = Net()
    tokens, table = net.input(6), net.parameter(50, 8)
    rows = net.call("embedding", lambda w, i: w[np.abs(i).astype(int) % 50], table, tokens)
    step = net.program.steps[-1]
    net.program.steps[-1] = step.__class__(**{**step.__dict__, "moved": 2 * 6 * 8 * 4 + 24})
    net.call("linear", lambda x, w: x @ w.T, net.layer_norm(rows), table, inner=8)
    instance = converted(net)
    kernels = instance.workload.kernels
    look_up, head = kernels[0], kernels[-1]
    assert (look_up.weight_bytes, look_up.table_bytes, look_up.fetch_bytes) == (0, 50 * 8 * 4, 6 * 8 * 4)
    assert look_up.schemes == ("M", "NONE") and (head.weight_bytes, head.kind) == (50 * 8 * 4, "gemm")
    assert "tables of 1,600 bytes rest in DRAM" in instance.notes
    degrees = Degrees(tensor=8, dimensions=("tensor",))
    served = instance.replace(task=instance.task.replace(purpose="prefill"))
    assert training.resting(look_up, "NONE", served, degrees) == 1600
    assert training.resting(look_up, "M", served, degrees) == 200


def test_what_each_part_needs_whole_is_not_divided() -> None:
    """A mask that all heads share."""
    net = Net()
    llama(net, False)
    instance = converted(net, fuse=False)
    kernels = instance.workload.kernels
    mask = next(kernel for kernel in kernels if kernel.whole_bytes == 4 * 3 * 3)
    assert (mask.weight_bytes, mask.schemes) == (0, ("M", "NONE"))
    assert facts.local_weights(mask, "M", instance, Degrees(tensor=8)) == 36
    shared = Kernel(name="k", kind="opaque", flop=1, output_bytes=1, weight_bytes=10, whole_bytes=5, schemes=("M",))
    assert facts.local_weights(shared, "M", instance, Degrees(tensor=4)) == Fraction(10, 4) + 5


def test_a_graph_without_loop_nests_runs_whole() -> None:
    graph = networks.chain()
    instance = from_graph(ImportedGraph(graph, None, "traced"), "mine")
    assert {facts.allowed(kernel, "physical") == {"NONE"} for kernel in instance.workload.kernels} == {True}
    assert "kernels run whole on every chip of a group" in instance.notes


ZOO = Path(__file__).parents[1] / "instances" / "zoo"
#: One part of this export looks up each token's experts, which depend on the tokens.
BY_TOKEN = "mixtral-onnx.onnx"


@pytest.mark.parametrize("name", sorted(path.name for path in ZOO.iterdir() if path.suffix in (".pt2", ".onnx")))
def test_most_work_of_current_networks_can_be_split(name: str) -> None:
    """At least 95 % of the FLOP, whoever exported it; FLOP and bytes are the operations'."""
    if name.endswith(".onnx"):
        pytest.importorskip("onnx")
    graph = import_graph(str(ZOO / name))
    kernels = from_graph(graph, name).workload.kernels
    work = [facts.whole_flop(kernel) for kernel in kernels]
    assert sum(work) == sum(operation.flop for operation in graph.graph.operations)
    split = sum(flop for flop, kernel in zip(work, kernels, strict=True) if kernel.schemes != ("NONE",))
    assert split >= (0.4 if name == BY_TOKEN else 0.95) * sum(work)
    for kernel in kernels:
        if kernel.kind == "gemm":
            behind = (kernel.flop or 0) - facts.whole_flop(kernel.replace(flop=None))  # a bias, a scaling
            assert 0 <= behind <= 3 * kernel.outer * kernel.M * kernel.N, kernel.name


def test_an_exported_llama_on_1024_chips_with_slow_links() -> None:
    """It was "optimal" without a byte on links of 10⁻⁶ bytes/ns, at a 1,024th of the work."""
    instance = on_ring(from_graph(import_graph(str(ZOO / "llama-plain.pt2")), "llama"), 1024, 1e-6)
    schemes, terms = optimum(instance)
    rate = instance.system.chip.flop_per_ns * (instance.task.utilisation or 1.0)
    whole = 1000 * sum(facts.whole_flop(kernel) for kernel in instance.workload.kernels) / rate  # on one chip
    tail = [kernel.name for kernel in instance.workload.kernels][-3:]  # the head, whose result nobody gathers
    assert {name for name, scheme in schemes.items() if scheme != "NONE"} <= set(tail)
    assert terms["T3"] == 0 and terms["T1"] > whole / 2


def test_more_chips_are_no_remedy_for_what_runs_whole() -> None:
    """A kernel that no scheme divides, too large for a chip."""
    heavy = {"flop": 10**6, "output_bytes": 10, "weight_bytes": 10**6}
    instance = explicit(kernels={"a": heavy}, sizes=[8], sram_bytes=10**5)
    assert isinstance(instance, DataflowInstance)
    result = solve(instance, None, SolveOptions.make(warm_start="none"))
    assert result.status == "infeasible" and "it runs whole on every chip" in str(result.infeasibility)
    split = explicit(kernels={"a": {**heavy, "schemes": ["M"]}}, sizes=[4], sram_bytes=10**5)
    told = solve(split, None, SolveOptions.make(warm_start="none"))
    assert "tensor parallelism of 10 at least" in str(told.infeasibility)
