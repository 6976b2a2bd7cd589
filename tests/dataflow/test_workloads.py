"""The shipped workloads: FLOP, parameters and bytes by closed formulas, and what the generators refuse."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.generators import DataflowGenerator, dlrm, fft, gpt, hpl, llama, moe, resnets
from chipmap.instances.dataflow.presets import WORKLOADS, preset
from chipmap.instances.dataflow.sizes import flop, output_bytes, weight_bytes
from chipmap.instances.dataflow.workloads.llama import LLAMA
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve


def totals(instance: DataflowInstance) -> tuple[int, int]:
    """FLOP of a sample's gemms in one layer, and parameters of all layers."""
    workload = instance.workload
    work = sum(flop(kernel) for kernel in workload.kernels if kernel.kind == "gemm")
    words = sum(weight_bytes(kernel, instance) for kernel in workload.kernels) / workload.word_bytes
    return work, int(words) * workload.layers


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("llama-68m", 18.9e6), ("llama3-8b", 6.98e9), ("llama3-70b", 68.5e9), ("llama3-405b", 401.6e9)],
)
def test_llama_parameters(name: str, parameters: float) -> None:
    """The published sizes without the embeddings (8.0, 70.6 and 405.9 · 10⁹ with those of 128,256 words)."""
    size = LLAMA[name]
    assert totals(preset(name))[1] == pytest.approx(parameters, rel=2e-3)
    if name != "llama-68m":
        whole = {"llama3-8b": 8.03e9, "llama3-70b": 70.55e9, "llama3-405b": 405.85e9}[name]
        assert totals(preset(name))[1] + 2 * 128_256 * size.hidden == pytest.approx(whole, rel=1e-3)


def test_a_decode_step_of_llama() -> None:
    instance = preset("llama3-8b", context=4095, sizes=[16])
    kernels = {kernel.name: kernel for kernel in instance.workload.kernels}
    weights, attention = 218_103_808, 2 * 32 * 128 * 4096
    assert totals(instance)[0] == 2 * (weights + attention)
    assert kernels["MHA1"].fetch_bytes == kernels["MHA2"].fetch_bytes == 8 * 128 * 4095 * 2
    assert sum(kernel.fetch_bytes for kernel in kernels.values()) == 2 * kernels["MHA1"].fetch_bytes
    assert instance.task.purpose == "decode" and instance.workload.tokens == 1
    checked = preset("llama3-8b", context=4095, tokens=5, micro_batch=1)
    assert output_bytes({k.name: k for k in checked.workload.kernels}["MHA1"], checked) == 32 * (4095 + 5) * 5 * 2


def test_prefill_and_forward_fetch_nothing() -> None:
    for step in ("prefill", "forward"):
        instance = preset("llama3-8b", step=step, tokens=128, purpose="prefill")
        assert not any(kernel.fetch_bytes for kernel in instance.workload.kernels)
        assert totals(instance)[0] == 128 * 2 * (218_103_808 + 2 * 32 * 128 * 128)


def test_the_published_decode_input() -> None:
    """No grouped queries and no gate, so that weights and cache are 16 · 1,638.4 · 16,640 bytes."""
    instance = llama(kv_heads=32, gated=False, dropout=True, cache_kernels=True)
    workload = instance.workload
    assert (len(workload.kernels), len(workload.edges)) == (20, 23)
    moved = sum(weight_bytes(kernel, instance) + kernel.fetch_bytes for kernel in workload.kernels)
    assert moved == 16 * 27_262_976


def test_dlrm() -> None:
    instance = dlrm()
    workload = instance.workload
    assert len(workload.kernels) == 40 and sum(kernel.fetch_bytes for kernel in workload.kernels) == 2 * 837_000 * 2
    assert {kernel.name for kernel in workload.kernels if kernel.exchange == "all_to_all"} == {"MLP_5", "MLP_5_b"}
    assert totals(instance)[0] == 6 * 20 * 6750**2
    apart = dlrm(separate_updates=True).workload
    assert len(apart.kernels) == 60 and len(apart.edges) == 76
    assert sum(map(flop, apart.kernels)) == sum(map(flop, workload.kernels))
    forward = dlrm(backward=False).workload
    assert forward.edges == tuple(pairwise(f"MLP_{i}" for i in range(1, 21)))


def test_hpl_and_fft() -> None:
    n, block = 16_384, 2048
    workload = hpl(n=n, block=block, kernels=4, samples=8, grid=2, batch=8).workload
    steps = [2 * (n - k * block) ** 2 * block for k in range(8)]
    assert [flop(kernel) * 8 for kernel in workload.kernels] == [
        a + b for a, b in zip(steps[::2], steps[1::2], strict=True)
    ]
    assert workload.kernels[0].exchange_bytes == 2 * (n + n - block) * block * 2 // 8
    whole = hpl().workload
    assert sum(map(flop, whole.kernels)) * 1024 == pytest.approx(2 / 3 * 5_242_880**3, rel=1e-3)
    points = fft().workload
    assert sum(map(flop, points.kernels)) * 1024 == 2 * 2 * 2**40 * 512
    assert [kernel.exchange_bytes * 1024 for kernel in points.kernels] == [0, 2**41]


#: DFModel's runs on 32 x 32 SN30 in a torus: kernel by kernel, nothing overlaps.
TORUS: dict[str, Any] = {
    **{"chip": "sn30", "sizes": [32, 32], "memory_gbps": 300.0, "mode": "dfmodel", "overlap": False, "fused": False},
    "degrees": {"tensor": 32, "data": 32, "dimensions": ["tensor", "data"]},
}


def test_the_published_fft_run() -> None:
    """361,890,763.009 ns."""
    result = solve(fft(**TORUS, link_gbps=50.0), None, SolveOptions.make(warm_start="none"))
    assert result.status == "optimal"
    assert result.objective == pytest.approx(361_890_763_009, rel=1e-8)


def test_the_published_hpl_run() -> None:
    """663,175,009.986 ns for the first 64 steps of n = 2^20, of bytes that its input rounds to eight digits."""
    first = hpl(**TORUS, link_gbps=50.0, n=2**20, kernels=64, steps=64)
    result = solve(first, None, SolveOptions.make(warm_start="none"))
    assert result.status == "optimal"
    assert result.objective == pytest.approx(663_175_009_986, rel=1e-7)


def test_every_preset_makes_an_instance() -> None:
    for name in WORKLOADS:
        instance = preset(name)
        assert instance == DataflowInstance.from_json(instance.to_json())
    with pytest.raises(InputError, match="no workload is called 'gpt5'"):
        preset("gpt5")


@pytest.mark.parametrize(
    ("generator", "parameters", "said"),
    [
        (llama, {"model": ""}, "hidden: is missing"),
        (llama, {"model": "llama4"}, "model: is 'llama4'\n  Did you mean"),
        (llama, {"heads": 30}, "hidden: is 4096, not a multiple of heads = 30"),
        (llama, {"kv_heads": 5}, "heads: is 32, not a multiple of kv_heads = 5"),
        (dlrm, {"rows": 10**9, "tables": 10**9}, "more than 10^18 parameters"),
        (hpl, {"kernels": 7}, "2560 steps (all of them) are not 7 equal parts"),
        (hpl, {"kernels": 2, "steps": 5}, "(5 of them) are not 2 equal parts"),
        (hpl, {"kernels": 2, "steps": 5000}, "(5000 of them) are not 2 equal parts"),
        (fft, {"log2_points": 5}, "2^5 points"),
    ],
)
def test_what_generators_refuse(generator: DataflowGenerator, parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as error:
        generator(**parameters)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"fetch_bytes": -1}, "fetch_bytes of 'Q' is -1"),
        ({"exchange": "broadcast"}, "exchanges 0 bytes (broadcast)"),
        ({"exchange_bytes": 5}, "exchanges 5 bytes (none)"),
    ],
)
def test_kernels_say_what_they_fetch_and_exchange(fields: dict[str, Any], said: str) -> None:
    kernel = next(kernel for kernel in llama().workload.kernels if kernel.name == "Q")
    with pytest.raises(InputError) as error:
        kernel.replace(**fields).check()
    assert said in str(error.value)


@pytest.mark.parametrize("generator", [gpt, llama, moe])
def test_a_decode_step_has_one_token_where_nothing_is_said(generator: DataflowGenerator) -> None:
    """Two thousand new tokens per sample are no decode step, and a prefill of one is no prefill."""
    tokens = {step: generator(step=step).workload.tokens for step in ("forward", "prefill", "decode")}
    assert tokens == {"forward": 2048, "prefill": 2048, "decode": 1}
    assert generator(step="decode", tokens=3).workload.tokens == 3


def test_step_and_purpose_agree() -> None:
    """A prefill isn't reported as time per output token: one of the two follows from the other, or both agree."""
    assert [llama(step=step).task.purpose for step in ("forward", "prefill", "decode")] == [
        "training",
        "prefill",
        "decode",
    ]
    for purpose in ("training", "prefill", "decode"):
        made = llama(purpose=purpose, tokens=2)
        assert any(kernel.fetch_bytes for kernel in made.workload.kernels) is (purpose == "decode")
    for step, purpose in (("prefill", "decode"), ("decode", "prefill"), ("decode", "training"), ("forward", "decode")):
        with pytest.raises(InputError, match="but the kernels are those of step"):
            llama(step=step, purpose=purpose)


@pytest.mark.parametrize("generator", [dlrm, hpl, fft, resnets])
def test_no_decode_step_of_what_has_none(generator: DataflowGenerator) -> None:
    """A time per output token would be told of a network that has no tokens."""
    with pytest.raises(InputError, match="makes no tokens one after the other"):
        generator(purpose="decode")
