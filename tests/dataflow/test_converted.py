"""Converted networks have the kernels of the generators of the same networks: small exports, kernel by kernel."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.dataflow_converted import Figures, llama_reference, ratios, resnet_reference, unrolled, vit_reference
from chipmap.instances.dataflow.from_graph import from_graph
from chipmap.instances.dataflow.generators import llama
from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.sizes import flop, output_bytes, weight_bytes
from chipmap.networks.importers.reading import import_graph

ZOO = Path(__file__).parents[1] / "instances" / "zoo"
#: Two layers, and the sizes of the small exports.
SMALL = {"hidden": 32, "heads": 4, "kv_heads": 2, "ffn": 48, "layers": 2, "tokens": 8, "word_bytes": 4}


def gemms(instance: DataflowInstance) -> Counter[tuple[int, int, int]]:
    """FLOP, bytes of the output and of the weights of each gemm."""
    one = instance.replace(task=instance.task.replace(micro_batch=1))
    return Counter(
        (flop(k), int(output_bytes(k, one)), int(weight_bytes(k, one)))
        for k in one.workload.kernels
        if k.kind == "gemm"
    )


@pytest.mark.parametrize(("name", "fused"), [("llama-plain.pt2", True), ("llama-onnx.onnx", False)])
def test_a_llama_has_the_generated_kernels(name: str, fused: bool) -> None:
    """Beside the head and the table: as many products, of the same sizes, and as many other kernels."""
    if name.endswith(".onnx"):
        pytest.importorskip("onnx")
    converted, generated = from_graph(import_graph(str(ZOO / name)), name), llama_reference(fused, **SMALL)
    more = gemms(converted)
    more.subtract(gemms(generated))
    assert {sizes: count for sizes, count in more.items() if count} == {(49_152, 3072, 12_288): 1}  # the head
    kinds = [Counter(k.kind == "gemm" for k in one.workload.kernels)[False] for one in (converted, generated)]
    assert kinds[0] == kinds[1] + 1  # the table
    if fused:
        names = {kernel.name: kernel.outer for kernel in converted.workload.kernels}
        assert [names[f"linear{i}"] for i in ("", "_1", "_2", "_3")] == [
            4,
            2,
            2,
            1,
        ]  # queries, keys, values, after them


def test_layers_are_written_out() -> None:
    """All kernels of a layer but Add_Prev, whose readers read the sum of the layer before; the last sum is a norm's."""
    workload = llama(model="", **SMALL, step="prefill").workload
    made = unrolled(workload)
    assert len(made.kernels) == 2 * (len(workload.kernels) - 1) and made.layers == 1 and not made.carries
    assert {("0.Add2", "1.Norm1"), ("0.Add2", "1.Add1"), ("1.FFN1", "Norm"), ("1.Add1", "Norm")} <= set(made.edges)
    made.check()
    vit_reference(True, layers=1).workload.check()


def test_ratios_of_nothing() -> None:
    plain = Figures({}, 2, 3, 4.0, (0.0, 5.0), (6, 7))
    assert ratios(plain, plain) == [1.0] * 7
    assert ratios(plain._replace(moved=(1.0, 5.0)), plain)[3] == float("inf")


def test_the_generated_resnet_is_split_by_channels() -> None:
    kernels = resnet_reference(2, True).workload.kernels
    assert {kernel.kind for kernel in kernels} <= {"gemm", "elementwise"}
    assert sum(kernel.kind == "gemm" for kernel in kernels) == 54
