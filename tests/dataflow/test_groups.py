"""Groups for prefill and decode: plans against all of them, a case by hand, and the shipped sweep's traffic."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from random import Random

import pytest

from chipmap.bench.dataflow.groups import (
    Kind,
    Traffic,
    best_plan,
    decode_rate,
    front,
    prefill_rate,
    traffic_of,
    ttft_ps,
)
from chipmap.bench.sweep import read_sweep
from chipmap.records import InputError


def by_brute_force(
    prefill: list[Kind], decode: list[Kind], traffic: Traffic, chips: int, ttft: float, tpot: float
) -> Fraction:
    """Requests per second of the best of all numbers of groups."""
    best = Fraction(0)
    counts = [range(chips // kind.chips + 1) for kind in (*prefill, *decode)]
    for numbers in product(*counts):
        first = [(kind, n) for kind, n in zip(prefill, numbers, strict=False) if n]
        second = [(kind, n) for kind, n in zip(decode, numbers[len(prefill) :], strict=True) if n]
        if not first or not second or sum(kind.chips * n for kind, n in first + second) > chips:
            continue
        pairs = product((kind for kind, _ in first), (kind for kind, _ in second))
        late = any(ttft_ps(a, min(b.chips for b, _ in second), traffic) > ttft * 1e6 for a, _ in pairs)
        if late or any(kind.step_ps > tpot * 1e6 for kind, _ in second):
            continue
        rates = (
            sum(n * prefill_rate(kind, traffic) for kind, n in first),
            sum(n * decode_rate(kind, traffic) for kind, n in second),
        )
        best = max(best, min(Fraction(rates[0]), Fraction(rates[1])))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_plans_are_those_of_brute_force(seed: int) -> None:
    random = Random(seed)

    def kinds() -> list[Kind]:
        return [
            Kind(random.choice((1, 2, 3)), random.choice((1, 2, 5)), random.randint(10**6, 10**8)) for _ in range(2)
        ]

    prefill, decode, chips = kinds(), kinds(), random.randint(2, 7)
    traffic = Traffic(random.randint(1, 9), random.choice((0, 10**5, 10**7)), random.choice((1.0, 50.0)))
    ttft, tpot = random.choice((30.0, 100.0, float("inf"))), random.choice((20.0, 60.0, float("inf")))
    plan = best_plan(prefill, decode, traffic, chips, ttft, tpot)
    least = by_brute_force(prefill, decode, traffic, chips, ttft, tpot)
    assert (plan.requests_per_s if plan else 0.0) == pytest.approx(float(least), rel=1e-12)
    if plan is not None:
        assert plan.ttft_us <= ttft and plan.tpot_us <= tpot
        assert sum(kind.chips * n for kind, n in (*plan.prefill.items(), *plan.decode.items())) <= chips


def test_the_case_of_the_page() -> None:
    """Prompts take 100 ms on two chips, 16 users a step of 20 ms on two chips; 11 tokens, a cache of 10⁹ bytes."""
    prefill, decode = Kind(2, 1, 100 * 10**9), Kind(2, 16, 20 * 10**9)
    traffic = Traffic(11, 10**9, 50.0)
    assert prefill_rate(prefill, traffic) == 10 and decode_rate(decode, traffic) == 80
    plan = best_plan([prefill], [decode], traffic, 8)
    assert plan is not None and plan.prefill == {prefill: 3} and plan.decode == {decode: 1}
    assert plan.requests_per_s == 30 and plan.ttft_us == 110_000 and plan.tpot_us == 20_000
    assert best_plan([prefill], [decode], traffic, 8, ttft_us=109_999) is None
    assert best_plan([prefill], [decode], traffic, 8, tpot_us=19_999) is None
    slow = best_plan([prefill], [decode], traffic._replace(bytes_per_ns=2.5), 8)
    assert slow is not None and slow.requests_per_s == 10, "each group receives five caches a second"


def test_the_front_has_no_plan_that_another_beats() -> None:
    decode = [Kind(1, 1, 10**9), Kind(1, 4, 2 * 10**9), Kind(1, 5, 3 * 10**9)]
    points = front([Kind(1, 1, 10**9)], decode, Traffic(5, 0, 1.0), 4)
    pairs = [(one.per_user, one.per_chip) for one in points]
    assert pairs == sorted(pairs, reverse=True, key=lambda one: one[0]) and [y for _, y in pairs] == sorted(
        {y for _, y in pairs}
    )


def test_traffic_of_the_shipped_sweep() -> None:
    """80 layers · 2 · 8 heads · 128 numbers · 2 bytes · 2,048 tokens, over rails of 50 bytes/ns."""
    traffic = traffic_of(read_sweep("dataflow/serving-groups", ()))
    assert traffic == Traffic(512, 80 * 2 * 8 * 128 * 2 * 2048, 50.0)


def test_one_chip_is_refused() -> None:
    with pytest.raises(InputError, match="one group for prefill"):
        best_plan([], [], Traffic(1, 1, 1.0), 1)
