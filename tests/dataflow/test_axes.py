"""What kernels range over has names: generators and converted graphs know them, ``info`` and JAX programs say them."""

from __future__ import annotations

import re

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.dataflow.axes import sizes, with_axes
from chipmap.instances.dataflow.describe import describe
from chipmap.instances.dataflow.from_graph import from_graph
from chipmap.instances.dataflow.generators import gpt, llama
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.workload import Axes, Workload
from chipmap.instances.dataflow.workloads.gpt import gpt_network
from chipmap.instances.dataflow.workloads.llama import llama_network
from chipmap.instances.dataflow.workloads.moe import moe_network
from chipmap.instances.dataflow.workloads.vision import dit_network, vit_network
from chipmap.networks.graph import Loops, Operation, OperationGraph, Tensor
from chipmap.networks.importers.common import ImportedGraph

GENERATED = {
    "llama": llama_network("llama3-8b", step="forward", backward=True, ends=True, rotary=True, dropout=True),
    "decode": llama_network("llama3-8b", cache_kernels=True, context=100),
    "gpt": gpt_network(hidden=96, heads=4, tokens=16, layers=2, backward=True, residuals=True),
    "mixtral": moe_network("mixtral-8x7b", step="forward", backward=True),
    "latent": moe_network("deepseek-v3", step="forward", ends=True),
    "latent decode": moe_network("deepseek-v3", step="decode"),
    "turns": moe_network("llama4-maverick", step="forward", backward=True),
    "separate": moe_network(stacked=False, experts=2, hidden=64, heads=4, tokens=16, layers=2),
    "vit": vit_network(step="forward", backward=True, ends=True),
    "dit": dit_network(step="forward", backward=True, ends=True),
}


@pytest.mark.parametrize("name", GENERATED)
def test_a_name_is_of_one_size_in_a_generated_layer(name: str) -> None:
    """Kernel by kernel, forward and backward, products with all four; a vector per sample has no backward name."""
    workload = with_axes(GENERATED[name])
    workload.check()
    said = sizes(workload)
    assert all(isinstance(size, int) for size in said.values()), said
    assert said["tokens"] == workload.tokens
    for kernel in workload.kernels:
        axes = workload.axes.get(kernel.name, Axes())
        if kernel.kind == "gemm":
            assert axes.M and (axes.K or kernel.K == 1) and bool(axes.outer) == (kernel.outer > 1), kernel.name


def test_sizes_of_llama() -> None:
    """Names and sizes as its configuration has them."""
    said = sizes(with_axes(GENERATED["llama"]))
    assert {name: said[name] for name in ("hidden", "heads", "kv heads", "head", "ffn")} == {
        "hidden": 4096,
        "heads": 32,
        "kv heads": 8,
        "head": 128,
        "ffn": 14_336,
    }


def test_names_decide_nothing() -> None:
    """An instance keeps its hash with and without them, and a file without them loads."""
    instance = llama(step="forward", tokens=64)
    assert instance.workload.axes
    bare = instance.replace(workload=instance.workload.replace(axes={}))
    assert bare.content_hash == instance.content_hash
    plain = re.sub(rb',"axes":\{.*?\}\}', b"", instance.to_json())
    assert DataflowInstance.from_json(plain) == bare
    assert "axes" not in describe(bare) and describe(instance)["axes"]["hidden"] == 4096
    fewer = instance.workload.replace(axes={"FFN": Axes(M="ffn")})  # of a kernel that isn't there
    fewer.check()
    assert sizes(fewer) == {}


def test_a_layer_of_another_kind_has_no_names() -> None:
    """Kernels of one's own are as their file says."""
    own = Workload.make(name="own", kernels=[{"name": "Q", "kind": "gemm", "M": 4, "K": 4}], edges=[])
    assert with_axes(own) == own
    named = own.replace(axes={"Q": Axes(M="rows")})
    assert sizes(named) == {"rows": 4}


def test_converted_products_have_names() -> None:
    """Products with weights and convolutions; of two activations only what doesn't mix is known."""
    kinds = {
        "bmm": Loops(outer=2, rows=4, inner=8, columns=4, splits=("outer",)),
        "linear": Loops(rows=8, inner=4, columns=16, weights=True, splits=("rows", "columns")),
        "conv": Loops(rows=8, inner=36, columns=9, weights=True, splits=("rows",), window=(3, 3), places=(3, 3)),
        "relu": Loops(rows=8, columns=9, splits=("rows", "columns")),
    }
    operations = [Operation(name="x", kind="input", role="input")]
    operations += [
        Operation(name=name, kind=name, flop=2 * one.outer * one.rows * max(1, one.inner) * one.columns, loops=one)
        for name, one in kinds.items()
    ]
    tensors = [Tensor(producer=i, readers=(i + 1,), bytes=64) for i in range(len(kinds))]
    tensors.append(Tensor(producer=len(kinds), bytes=64, output=True))
    graph = OperationGraph.checked("small", operations, tensors)
    axes = from_graph(ImportedGraph(graph, None, "own"), "small").workload.axes
    assert {name: one.listed for name, one in axes.items()} == {
        "linear": ("", "features", "features read", "samples x tokens"),
        "conv": ("", "channels", "channels read x window", "samples x places"),
        "bmm": ("groups", "", "", ""),
    }


def test_an_instance_that_is_shipped_has_them() -> None:
    """Shipped instances are generated."""
    shipped = read("dataflow/llama3-8b-decode-sn40l-16")
    assert isinstance(shipped, DataflowInstance) and "tokens" in sizes(shipped.workload)
    assert gpt(hidden=64, heads=4, tokens=8, layers=1).workload.axes["FFN0"].M == "ffn"
