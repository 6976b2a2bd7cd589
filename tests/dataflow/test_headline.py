"""MFU, HFU and the line that certificates say first (page "Training", "Shares of the peak")."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.inputs.reading import generate
from chipmap.instances.dataflow import DataflowInstance, DataflowSolution, Degrees
from chipmap.instances.dataflow.instance import Recompute
from chipmap.instances.dataflow.workload import Scheme
from chipmap.validation.dataflow.checker import check


def layer(recompute: Recompute, **asked: Any) -> DataflowInstance:
    """The page's layer: a product, its gradient and its update on one chip of 1 TFLOP/s."""
    size = {"kind": "gemm", "M": 100, "K": 100, "N": 100}
    made = generate(
        "dataflow-explicit",
        kernels={
            "a": {**size, "weights": True},
            "x": {**size, "weights": True, "phase": "backward"},
            "u": {**size, "phase": "backward", "update": True},
        },
        edges=[["a", "x"], ["x", "u"]],
        layers=2,
        batch=4,
        micro_batch=1,
        utilisation=0.5,
        sizes=[1],
        memory_gbps=1e9,
        recompute=recompute,
        **asked,
    )
    assert isinstance(made, DataflowInstance)
    chip = made.system.chip.replace(tflops=1.0, tiles=0, lanes=0, stages=0, ghz=0.0, fused=False)
    return made.replace(system=made.system.replace(chip=chip))


def mapped(instance: DataflowInstance) -> DataflowSolution:
    count = len(instance.workload.kernels)
    scheme: Scheme = "M"
    schemes: tuple[Scheme, ...] = tuple(scheme for _ in range(count))
    return DataflowSolution(degrees=Degrees(dimensions=("tensor",)), schemes=schemes, partitions=tuple(range(count)))


@pytest.mark.parametrize(
    ("recompute", "us", "mfu", "hfu"),
    [("none", 96, 0.5, 0.5), ("full", 128, 0.375, 0.5), ("selective", 128, 0.375, 0.5)],
)
def test_shares_of_the_peak(recompute: Recompute, us: int, mfu: float, hfu: float) -> None:
    instance = layer(recompute, selective=["a"] if recompute == "selective" else [])
    certificate = check(instance, mapped(instance))
    assert certificate.feasible and certificate.objective == us * 10**6
    assert (certificate.figures["mfu"], certificate.figures["hfu"]) == pytest.approx((mfu, hfu))
    assert certificate.headline == f"MFU {100 * mfu:.1f}%, HFU {100 * hfu:.1f}%"


def test_model_flop_of_gpt_are_those_of_the_formula() -> None:
    """72·B·L·s·h²·(1 + s/6h): the products of all kernels, without words."""
    from chipmap.instances.dataflow.sizes import flop

    hidden, tokens, layers = 12_288, 2048, 96
    made = generate("dataflow-llama", model="", hidden=hidden, heads=96, kv_heads=96, ffn=4 * hidden, layers=layers,
                    words=51_200, tokens=tokens, gated=False, step="forward", backward=True, ends=True)  # fmt: skip
    assert isinstance(made, DataflowInstance)
    products = sum(flop(one) for one in made.workload.kernels if one.kind == "gemm") * layers
    formula = 72 * layers * tokens * hidden**2 * (1 + tokens / (6 * hidden) + 51_200 / (12 * hidden * layers))
    assert products == pytest.approx(formula, rel=1e-3)


def test_images_are_not_tokens() -> None:
    from chipmap.solve import solve

    result = solve("dataflow/resnet50-8", None, isolate=False)
    assert result.certificate is not None
    assert result.certificate.headline.endswith(" images/s by the data sheet, an upper limit of speed")
    assert not {"tokens_per_s", "ttft_us"} & set(result.certificate.figures)
    assert "latency_us" in result.certificate.figures


@pytest.mark.parametrize(("step", "name"), [("prefill", "TTFT"), ("decode", "TPOT")])
def test_steps_of_gpt(step: str, name: str) -> None:
    from chipmap.solve import solve

    instance = generate("dataflow-gpt", hidden=256, heads=4, layers=2, step=step, sizes=[2], batch=4, micro_batch=4)
    assert isinstance(instance, DataflowInstance)
    fetched = [kernel.fetch_bytes for kernel in instance.workload.kernels if kernel.fetch_bytes]
    assert fetched == ([2 * 2048 * 256] * 2 if step == "decode" else [])
    result = solve(instance, None, isolate=False)
    assert result.certificate is not None and result.certificate.headline.startswith(name)
    assert result.certificate.headline.endswith(" tokens/s by the data sheet, an upper limit of speed")
