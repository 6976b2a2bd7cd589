"""Element-wise operations that only each other read are one kernel: what joins, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from chipmap.instances.dataflow.from_graph import from_graph
from chipmap.instances.dataflow.fusing import cones
from chipmap.instances.dataflow.workload import Kernel
from chipmap.networks import generators as networks
from chipmap.networks.graph import Loops, Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.loops import element_wise
from chipmap.networks.importers.program import imported
from chipmap.networks.importers.reading import import_graph
from chipmap.validation.dataflow import facts
from tests.instances.executed import Net

ZOO = Path(__file__).parents[1] / "instances" / "zoo"


def fused(net: Net, *outputs: str) -> dict[str, Kernel]:
    """The kernels of a net, by name."""
    net.program.outputs = list(outputs) or [net.program.steps[-1].makes[0]]
    workload = from_graph(imported(net.program, "net", "test"), "net").workload
    return {kernel.name: kernel for kernel in workload.kernels}


def rms_norm(net: Net, x: str) -> str:
    """As sources write it."""
    mean = net.mean(net.point("pow", np.square, x), [-1])
    return net.mul(net.mul(x, net.point("rsqrt", lambda x: 1 / np.sqrt(x), mean)), net.parameter(8))


def test_a_normalisation_is_one_kernel() -> None:
    """Five operators, of which the last names the kernel; the sum before it has another reader and stays apart."""
    net = Net()
    x = net.linear(net.input(4, 6), 8)
    total = net.point("relu", np.abs, x)
    net.add(net.linear(rms_norm(net, total), 8), total)
    kernels = fused(net)
    assert list(kernels) == ["linear0", "relu1", "mul6", "linear7", "add8"]
    norm = kernels["mul6"]
    assert norm.flop == 32 + 4 + 4 + 32 + 32  # pow, mean, rsqrt, mul, mul
    assert (norm.weight_bytes, norm.output_bytes, norm.schemes) == (32, 128, ("NONE",))


def test_a_rotation_is_one_kernel_that_is_split_by_heads() -> None:
    net = Net()
    heads = net.transpose(net.view(net.linear(net.input(1, 6, 8), 16), 1, 6, 4, 4), 1, 2)
    cosine, sine = net.parameter(6, 4), net.parameter(6, 4)
    turned = net.cat(3, net.point("neg", np.negative, net.slice(heads, 3, 2, 4)), net.slice(heads, 3, 0, 2))
    net.add(net.mul(heads, cosine), net.mul(turned, sine))
    kernels = fused(net)
    assert len(kernels) == 2
    last = list(kernels.values())[-1]
    assert (last.kind, last.schemes, last.outer * last.M) == ("elementwise", ("M", "NONE"), 4)
    assert (last.weight_bytes, last.whole_bytes) == (0, 2 * 6 * 4 * 4)


def test_outputs_and_what_products_read_stay_kernels() -> None:
    net = Net()
    x = net.point("relu", np.abs, net.linear(net.input(4, 8), 8))
    y = net.point("tanh", np.tanh, x)
    z = net.point("sigmoid", np.tanh, y)
    assert list(fused(net, y, z)) == ["linear0", "tanh2", "sigmoid3"]
    net = Net()
    x = net.point("relu", np.abs, net.linear(net.input(4, 8), 8))
    net.add(net.linear(x, 8), x)
    assert len(fused(net)) == 4


def test_a_constant_that_two_operations_of_a_kernel_read_is_read_once() -> None:
    net = Net()
    x, shared = net.point("relu", np.abs, net.linear(net.input(4, 8), 8, bias=False)), net.parameter(8)
    net.add(net.mul(x, shared), shared)
    assert fused(net)["add3"].weight_bytes == 32


def test_a_bias_and_a_scaling_behind_a_product_are_part_of_it() -> None:
    """The product has their constants and FLOP, and is split by the heads that read it, as it is without them."""
    found: list[list[Kernel]] = []
    for alone in (True, False):
        net = Net()
        x = net.input(1, 6, 8)
        query = net.add(net.linear(x, 16, bias=False), net.parameter(16)) if alone else net.linear(x, 16)
        query = net.transpose(net.view(query, 1, 6, 4, 4), 1, 2)
        query = net.mul(query, net.parameter(1)) if alone else query
        key = net.transpose(net.view(net.linear(x, 16), 1, 6, 4, 4), 1, 2)
        net.matmul(query, net.transpose(key, 2, 3))
        found.append(list(fused(net).values()))
    apart, joined = found
    assert [one.kind for one in apart] == [one.kind for one in joined] == ["gemm"] * 3
    assert apart[0].schemes == joined[0].schemes and apart[0].schemes[0] == "OUTER"
    assert (apart[0].flop, joined[0].flop) == (2 * 6 * 8 * 16 + 2 * 6 * 16, 2 * 6 * 8 * 16)
    assert [(one.weight_bytes or 0) + one.whole_bytes for one in (apart[0], joined[0])] == [
        4 * (8 * 16 + 16 + 1),
        4 * 9 * 16,
    ]


def test_what_else_stays_behind_a_product() -> None:
    """A residual, an activation, a product that is an output or has another reader: kernels of their own."""
    net = Net()
    x = net.input(4, 8)
    net.add(net.linear(x, 8), x)
    assert len(fused(net)) == 2
    net = Net()
    net.add(net.linear(net.input(4, 8), 8), net.linear(net.input(4, 8), 8))
    assert len(fused(net)) == 3
    net = Net()
    y = net.linear(net.input(4, 8), 8)
    assert len(fused(net, y, net.add(y, net.parameter(8)))) == 2
    net = Net()
    y = net.linear(net.input(4, 8), 8)
    net.matmul(net.add(y, net.parameter(8)), net.transpose(y, 0, 1))
    assert len(fused(net)) == 3
    net = Net()
    net.point("relu", np.abs, net.add(net.linear(net.input(4, 8), 8, bias=False), net.parameter(8)))
    assert [one.kind for one in fused(net).values()] == ["gemm", "elementwise"]


def test_other_formats_names_say_nothing() -> None:
    """A profile's `add` may be anything."""
    graph = networks.chain()
    assert cones(graph.without_loops()) == list(range(len(graph.operations)))
    assert element_wise("add_") and element_wise("ReduceMean") and element_wise("Mul")
    assert not any(map(element_wise, ("linear", "topk", "cumsum", "max_pool2d", "embedding", "mine.op")))


def random_graph(seed: int) -> OperationGraph:
    """Operations of a few kinds that each read one or two before them."""
    random = Random(seed)
    kinds = ["add", "mul", "view", "linear"]
    operations = [Operation(name="x", kind="input", role="input")]
    readers: list[set[int]] = [set()]
    for v in range(1, 25):
        kind = random.choice(kinds)
        role = "view" if kind == "view" else "compute"
        operations.append(Operation(name=f"{kind}{v}", kind=kind, role=role, flop=v))  # type: ignore[arg-type]
        for u in random.sample(range(v), 1 if kind in ("view", "linear") or v == 1 else 2):
            readers[u].add(v)
        readers.append(set())
    tensors = [
        Tensor(producer=v, readers=tuple(sorted(read)), bytes=4, output=not read or random.random() < 0.1)
        for v, read in enumerate(readers)
    ]
    operations[-1] = operations[-1].replace(loops=Loops())
    return OperationGraph.checked("random", operations, tensors)


@pytest.mark.parametrize("seed", range(40))
def test_kernels_have_one_way_out(seed: int) -> None:
    """Members are element-wise, what leaves a kernel is made by its last operation, and nothing more could join."""
    graph = random_graph(seed)
    last = cones(graph)
    reached: dict[int, set[int]] = {}
    outputs = {t.producer for t in graph.tensors if t.output}
    shown: dict[int, bool] = {}
    for v in reversed(range(len(graph.operations))):
        ends, out = set(), v in outputs
        for tensor in graph.tensors:
            for reader in tensor.readers if tensor.producer == v else ():
                view = graph.operations[reader].role == "view"
                ends |= reached[reader] if view else {reader}
                out |= shown[reader] if view else False
        reached[v], shown[v] = ends, out
    for v, operation in enumerate(graph.operations):
        plain = operation.role == "compute" and element_wise(operation.kind) and not shown[v]
        kinds = {graph.operations[reader].kind for reader in reached[v]}
        joins = plain and len({last[reader] for reader in reached[v]}) == 1 and "linear" not in kinds
        assert (last[v] != v) == joins
        if joins:
            assert {last[reader] for reader in reached[v]} == {last[v]}
    instance = from_graph(ImportedGraph(graph, None, "test"), "random")
    work = sum(one.flop for one in graph.operations if one.role == "compute")
    assert sum(kernel.flop or 0 for kernel in instance.workload.kernels) == work


@pytest.mark.parametrize("name", ["llama-plain.pt2", "vit-decomposed.pt2", "mamba-plain.pt2", "unet-plain.pt2"])
def test_fusing_loses_no_work_and_no_weights(name: str) -> None:
    graph = import_graph(str(ZOO / name))
    one, many = (from_graph(graph, "x", fuse).workload for fuse in (True, False))
    assert len(one.kernels) < len(many.kernels)
    assert sum(map(facts.whole_flop, one.kernels)) == sum(map(facts.whole_flop, many.kernels))
    stored = [sum((k.weight_bytes or 0) + k.whole_bytes + k.table_bytes for k in w.kernels) for w in (one, many)]
    assert stored[0] <= stored[1]
    products = [sorted((k.outer * k.M, k.K, k.N) for k in w.kernels if k.kind == "gemm") for w in (one, many)]
    assert products[0] == products[1]
