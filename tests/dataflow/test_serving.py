"""Serving: latencies through all stages, throughput, and the arithmetic of speculative decoding."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from benchmarks import dataflow_speculation as speculation
from chipmap.bench.dataflow import serving
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance
from chipmap.records import InputError


def published(step: str, **schemes: Any) -> DataflowInstance:
    instance = read(f"dataflow/llama3-8b-{step}-sn40l-16")
    assert isinstance(instance, DataflowInstance)
    return instance.replace(task=instance.task.replace(schemes={**instance.task.schemes, **schemes}))


@pytest.mark.parametrize(
    ("step", "tensor", "pipeline", "latency"),
    [
        ("decode", 16, 1, 841.894),
        ("decode", 4, 4, 2_210.829),
        ("decode", 2, 8, 4_305.163),
        ("prefill", 16, 1, 87_042.894),
        ("prefill", 4, 4, 89_863.300),
    ],
)
def test_latencies_of_the_published_runs(step: str, tensor: int, pipeline: int, latency: float) -> None:
    made = serving.serve(serving.staged(published(step, Add2="M"), tensor, pipeline, batch=16_384))
    assert made.optimal and made.latency_us == pytest.approx(latency, rel=2e-5)


def test_more_stages_give_throughput_and_take_time() -> None:
    """Figure 20: more tensor parallelism, less latency; more stages, more throughput."""
    for step in ("prefill", "decode"):
        instance = published(step, Add2="M")
        passes = [serving.serve(serving.staged(instance, 16 // p, p, batch=16_384)) for p in (1, 2, 4, 8, 16)]
        assert passes == sorted(passes, key=lambda one: one.latency_us)
        assert passes == sorted(passes, key=lambda one: one.tokens_per_s)


def test_one_sample_takes_its_latency() -> None:
    """A batch of one in a pipeline: tokens per second are those of the latency, with hand-overs or without."""
    instance = read("dataflow/llama3-8b-decode-sn40l-16-physical")
    assert isinstance(instance, DataflowInstance)
    one = serving.serve(serving.staged(instance, 4, 4, batch=1))
    many = serving.serve(serving.staged(instance, 4, 4, batch=64))
    assert one.latency_us == many.latency_us
    assert one.tokens_per_s == pytest.approx(1e6 / one.latency_us, rel=1e-3)
    assert many.tokens_per_s == pytest.approx(4 * one.tokens_per_s * 64 / 67, rel=1e-3)
    hop = 8192 / 50 + 150  # a tensor of 4,096 words, all of it on every chip
    single = serving.serve(serving.staged(instance, 16, 1, batch=1)).latency_us
    double = serving.serve(serving.staged(instance, 8, 2, batch=1)).latency_us
    assert single == 593.92, "weights and cache of 32 layers, 18.56 us each: two chips have the same head of keys"
    assert double == pytest.approx(2 * 32 * 17.28 + hop / 1000, rel=1e-9), "eight chips, eight heads of keys"


def test_a_rate_by_hand() -> None:
    """K = 4, a = 0.5, 1 us a draft, 6 us a target: 3 tokens in 10 us published; 31/16 of them expected."""
    assert speculation.published_rate(4, 0.5, 1.0, 6.0) == pytest.approx(3 / 10 * 1e6)
    assert speculation.expected_tokens(4, 0.5) == pytest.approx(31 / 16)
    assert speculation.sequence_rate(4, 0.5, 1.0, 6.0) == pytest.approx(31 / 160 * 1e6)
    assert speculation.published_rate(4, 0.5, 1.0, 6.0, tree=True) == pytest.approx(3 / 22 * 1e6)
    assert speculation.tree_acceptance(0.5) == 0.75
    assert speculation.tree_rate(0.5, [1.0, 2.0], 6.0) == pytest.approx((1 + 0.75 + 0.75**2) / 9 * 1e6)


def test_the_published_count_is_an_upper_bound() -> None:
    for window in (1, 2, 5):
        for a in (0.0, 0.3, 0.8, 1.0):
            assert speculation.expected_tokens(window, a) <= window * a + 1 + 1e-12
        assert speculation.expected_tokens(window, 1.0) == window + 1
        assert speculation.expected_tokens(window, 0.0) == 1


def test_expected_tokens_by_trial() -> None:
    random, rounds, window, a = Random(1), 20_000, 3, 0.7
    total = 0
    for _ in range(rounds):
        accepted = 0
        while accepted < window and random.random() < a:
            accepted += 1
        total += accepted + 1
    assert total / rounds == pytest.approx(speculation.expected_tokens(window, a), rel=0.02)


def test_a_target_checks_several_tokens_at_little_cost() -> None:
    settings: dict[str, Any] = {"sizes": [16], "memory_gbps": 1638.4, "link_gbps": 50.0, "overlap": False}
    one, nine = (serving.serve(speculation.verification("llama3-405b", tokens, **settings)) for tokens in (1, 9))
    assert one.latency_us < nine.latency_us < 1.12 * one.latency_us
    assert nine.tokens_per_s > 8 * one.tokens_per_s


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match=r"task\.purpose"):
        serving.serve(published("decode").replace(task={"purpose": "training"}))
    with pytest.raises(InputError, match="window: is 0"):
        speculation.published_rate(0, 0.5, 1.0, 6.0)
    with pytest.raises(InputError, match=r"acceptance: is 1\.5"):
        speculation.expected_tokens(3, 1.5)
    with pytest.raises(InputError, match="times"):
        speculation.sequence_rate(3, 0.5, 1.0, 0.0)
    with pytest.raises(InputError, match="32 layers"):
        serving.staged(published("decode"), 5, 3, batch=1)
    small = published("decode")
    short = small.replace(system=small.system.replace(chip=small.system.chip.replace(sram_bytes=10**6)))
    with pytest.raises(InputError, match="has no mapping"):
        serving.serve(short)
