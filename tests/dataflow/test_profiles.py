"""Typical profiles, and the data sheet's limit beside what is predicted (page "Machines")."""

from __future__ import annotations

from fractions import Fraction
from statistics import median

import pytest

from benchmarks import dataflow_palm as palm
from benchmarks.dataflow_static_batches import MACHINES, faster, halves, step
from benchmarks.dataflow_static_fit import fitted, passes, ratio
from chipmap.instances.dataflow.machines import machine
from chipmap.instances.dataflow.predicting import JUDGED
from chipmap.instances.dataflow.profiles import PROFILES
from chipmap.instances.dataflow.sharding import collective_ns
from chipmap.instances.dataflow.system import Dimension
from chipmap.validation.dataflow import facts
from chipmap.validation.dataflow.checker import check
from tests.lanes import LONG


def test_a_start_and_a_share_of_the_rate_are_the_pages_example() -> None:
    link = Dimension(size=4, topology="switch", bytes_per_ns=100.0, latency_ns=50.0)
    for one, took in ((link, 15_300), (link.replace(start_ns=2000.0, efficiency=0.5), 32_300)):
        assert collective_ns("all_reduce", Fraction(10**6), one, 2) == facts.all_reduce(Fraction(10**6), one, 2) == took


@pytest.mark.parametrize("name", MACHINES)
def test_the_limit_is_never_slower_than_what_was_measured(name: str) -> None:
    fit, judge = halves(name)
    errors = []
    for row in (*fit, *judge):
        assert faster(row, machine(MACHINES[name], (row.tensor,))) >= 1, row
    for row in judge:
        errors.append(abs(faster(row, machine(f"{MACHINES[name]}-typical", (row.tensor,))) - 1))
    assert sorted(errors)[len(errors) // 2] <= 0.15 and max(errors) <= 0.35, errors
    judged = JUDGED[f"{MACHINES[name]}-typical"]
    assert (judged.rows, judged.median, judged.worst) == (len(errors), *(round(f(errors), 3) for f in (median, max)))


@pytest.mark.skipif(not LONG, reason="a fit of all rows: three seconds")
def test_the_shipped_profiles_are_those_of_the_fit() -> None:
    for name, found in fitted().items():
        assert found == pytest.approx(PROFILES[MACHINES[name]], rel=0.03)


def test_palm_as_published() -> None:
    """Shares of the peak are those of the times; no limit is slower; decode steps of 540B within 20% by 62B."""
    errors = []
    for row in palm.ROWS:
        assert row.share == 0 or abs(palm.share_of_peak(row) - row.share) < 1
        assert palm.milliseconds(row, machine(palm.MACHINE, row.torus)) <= row.measured
        said = palm.milliseconds(row, machine(f"{palm.MACHINE}-typical", row.torus))
        assert abs(said / row.measured - 1) <= (0.2 if row.decodes else 0.4), row
        errors += [abs(said / row.measured - 1)] if row.model == "PaLM 540B" else []
    judged = JUDGED[f"{palm.MACHINE}-typical"]
    assert (judged.rows, judged.median, judged.worst) == (len(errors), *(round(f(errors), 3) for f in (median, max)))
    assert not LONG or palm.fitted() == pytest.approx(PROFILES[palm.MACHINE], rel=0.03)


def test_a_sum_over_chips_is_a_kernel_of_its_own() -> None:
    """LLaMA 70B on four A100, 128 tokens: two sums of 128 · 8,192 · 2 bytes, each 2 · 3 / 4 of them at 300 bytes/ns."""
    row = next(row for row in halves("A100")[1] if (row.model, row.batch, row.prompt) == ("LLaMA 70B", 1, 128))
    first = passes(row)[0]
    network = first.network[first.network > 0]
    assert network == pytest.approx(2 * [128 * 8192 * 2 * 2 * 3 / 4 / 300], rel=1e-6)
    assert first.compute[first.network > 0] == pytest.approx(0) and first.steps.max() == pytest.approx(6)
    typical = faster(row, machine("a100-80gb-typical", (row.tensor,)))
    assert ratio(row, passes(row), PROFILES["a100-80gb"]) == pytest.approx(typical, rel=1e-5)


def test_both_figures_are_told() -> None:
    typical = machine("h100-sxm-typical", (2,))
    instance, mapping = step("H100", "LLaMA 70B", 2, 64, 1, 2048)
    plain = check(instance, mapping)
    found = check(instance.replace(system=typical), mapping)
    assert plain.objective is not None and found.objective is not None and found.objective > plain.objective
    assert found.figures["limit_us"] == plain.objective / 1e6 and "limit_us" not in plain.figures
    assert "limit by the data sheet" in found.headline and plain.headline.endswith(
        "by the data sheet, an upper limit of speed"
    )


def test_a_data_sheet_is_not_profiled() -> None:
    plain = machine("h100-sxm")
    assert plain.data_sheet() == plain and not plain.profiled and machine("h100-sxm-typical").profiled
