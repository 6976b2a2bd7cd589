"""Published training runs: what the model is changed in for them, and that their own settings are proved."""

from __future__ import annotations

import pytest

from benchmarks.dataflow_megatron import solved
from benchmarks.dataflow_reports import REPORTS, Report, as_published, dense_flop, hidden, in_pairs, rate_of
from chipmap.instances.dataflow.sizes import flop


def test_flash_attention_has_half_of_the_scores_and_five_products_back() -> None:
    """Of 64 heads of 128 and 8,192 tokens, at half the peak: 2 · 2 · 64 · 128 · 8192² / 2 twice; 5/2 of it back."""
    kernels = {one.name: one for one in as_published(REPORTS[0]).workload.kernels}
    forward = 2 * 2 * 64 * 128 * 8192**2 // 2
    assert flop(kernels["Attention"]) == pytest.approx(2 * forward, rel=1e-4)
    assert flop(kernels["Attention_b"]) == pytest.approx(5 * forward, rel=1e-4)
    assert kernels["Attention_b"].output_bytes == (64 + 8 + 8) * 128 * 8192 * 2
    assert not {"MHA1", "Softmax", "MHA2", "MHA1_b1", "Softmax_b"} & set(kernels)


def test_model_flop_are_those_of_the_publication() -> None:
    """NVIDIA states 1,619 tokens/s and 727 TFLOP/s per chip, and 1,602 and 719."""
    each = dense_flop(8192, 1024, 28_672, 80, 128_256, 8192)
    assert each * 1619e-12 == pytest.approx(727, abs=0.5)
    assert each * 1602e-12 == pytest.approx(719, abs=1)


def test_tokens_go_to_their_experts_once_in_each_direction_and_phase() -> None:
    instance = as_published(REPORTS[1])
    divided = {one.name for one in instance.workload.kernels if "E" in one.schemes}
    crossing = {(a, b) for a, b in instance.workload.edges if (a in divided) != (b in divided)}
    assert {one for one in crossing if one[1] in divided} == {
        ("Dispatch", "Experts_In"),
        ("Combine_b1", "Experts_Out_b"),
    }
    assert {a for a, b in crossing if a in divided} <= {"Experts_Down", "Experts_In_b"}


@pytest.mark.parametrize("report", REPORTS, ids=[one.model for one in REPORTS])
def test_published_settings_fit_and_their_range_holds_what_was_measured(report: Report) -> None:
    """Nothing overlapping and all of the network hidden: a tenth around these holds the published rate."""
    one = as_published(report)
    found = solved(one, 120.0)
    assert found.seconds == found.bound
    assert found.certificate.figures["dram_bytes"] <= 80e9
    slow, fast = rate_of(report, found.seconds), rate_of(report, hidden(one, found))
    assert 0.9 * slow <= report.low <= report.high <= 1.1 * fast


def test_two_passes_at_once_fit_what_ran() -> None:
    """DeepSeek-V3 ran on chips of 80 GiB less what is reserved: with DualPipe it has a mapping there, which is proved
    and lies between nothing overlapping and all of the network hidden."""
    report = REPORTS[1]
    plain = as_published(report)
    found = solved(plain, 120.0)
    paired = in_pairs(report)
    both = solved(paired, 120.0)
    assert both.seconds == both.bound and hidden(plain, found) < both.seconds < found.seconds
    assert both.certificate.figures["dram_bytes"] <= (paired.system.memory.capacity_bytes or 0)
