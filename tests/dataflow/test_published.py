"""DFModel's published figures, and the better optima of its own model."""

from __future__ import annotations

import pytest

from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.sizes import flop
from chipmap.result import Result
from chipmap.run import SolveOptions
from chipmap.solve import solve


def solved(name: str) -> Result:
    result = solve(read(f"dataflow/{name}"), None, SolveOptions.make(warm_start="none", threads=1))
    assert result.status == "optimal" and result.certificate is not None and result.certificate.grade == "dfmodel"
    return result


@pytest.mark.parametrize(
    ("name", "seconds", "partitions"),
    [
        ("table6-kbk-8x1", 4909.148, 18),
        ("table6-vendor-8x1", 1212.252, 4),
        ("table6-dfmodel-8x1", 1020.525, 4),
        ("table6-dfmodel-4x2", 800.976, 4),
        ("table6-free-8x1", 884.47, 2),
        ("table6-free-4x2", 762.947, 3),
        ("gpt3-175b-96-layers-8x1", 823.513, 192),
    ],
)
def test_table_vi(name: str, seconds: float, partitions: int) -> None:
    result = solved(name)
    assert result.objective is not None and result.certificate is not None
    assert result.objective / 1e12 == pytest.approx(seconds, rel=1e-6)
    assert result.certificate.figures["partitions"] == partitions


def test_gpt3_1t() -> None:
    result = solved("gpt3-1t-sn30-1024")
    assert result.certificate is not None
    assert result.certificate.terms["T4"] / 1000 == pytest.approx(24_525_757.6, rel=1e-8)
    assert result.certificate.figures["partitions"] == 6


def test_serving_llama3_8b() -> None:
    """Published: 26,309.184 ns per layer of a decode step, 87,042.894 us for a prompt of 4,096 tokens."""
    decode, prefill = solved("llama3-8b-decode-sn40l-16"), solved("llama3-8b-prefill-sn40l-16")
    assert decode.certificate is not None and prefill.certificate is not None
    terms = decode.certificate.terms
    assert terms["T4"] / 1000 == pytest.approx(26_309.184, rel=1e-6) and terms["T4"] == sum(list(terms.values())[:3])
    assert terms["T1"] / 1000 == pytest.approx(54.784, abs=0.02)
    assert (terms["T2"], terms["T3"]) == (16_640_000, 9_614_400)
    assert decode.certificate.figures["samples_per_s"] == pytest.approx(1187.8, rel=1e-5)
    assert prefill.objective == pytest.approx(87_042_893_966, rel=1e-6)


def test_the_published_graphs() -> None:
    layer = read("dataflow/table6-free-8x1")
    both = read("dataflow/gpt3-1t-sn30-1024")
    assert isinstance(layer, DataflowInstance) and isinstance(both, DataflowInstance)
    assert (len(layer.workload.kernels), len(layer.workload.edges)) == (18, 21)
    assert (len(both.workload.kernels), len(both.workload.edges)) == (41, 53)
    assert sum(kernel.update for kernel in both.workload.kernels) == 6
    products = sum(flop(kernel) for kernel in layer.workload.kernels if kernel.kind == "gemm")
    hidden, tokens = 12_288, 2048
    assert products == tokens * (24 * hidden**2 + 4 * tokens * hidden)
