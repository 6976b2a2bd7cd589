"""Order ideals against all subsets of small random graphs, and the clock."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from chipmap.deadline import Deadline, Stop
from chipmap.heuristics.engines.ideals import TooManyIdealsError, all_ideals, bits, prefixes, to_words, without_steps


def drawn(random: Random, n: int) -> list[int]:
    """The direct producers of n members, in topological order."""
    return [sum(1 << u for u in range(v) if random.random() < 0.3) for v in range(n)]


def closed(mask: int, producers: list[int]) -> bool:
    return all(not producers[v] & ~mask for v in bits(mask))


@pytest.mark.parametrize("seed", range(30))
def test_all_ideals_are_the_closed_subsets(seed: int) -> None:
    random = Random(seed)
    n = random.randint(0, 9)
    producers = drawn(random, n)
    found = all_ideals(producers)
    assert found.complete and len(found) == len(found.words)
    assert sorted(found.masks) == [mask for mask in range(1 << n) if closed(mask, producers)]
    assert [mask.bit_count() for mask in found.masks] == sorted(mask.bit_count() for mask in found.masks)
    for i, mask in enumerate(found.masks):
        own = slice(int(found.first[i]), int(found.first[i + 1]))
        steps = [v for v in range(n) if not mask >> v & 1 and closed(mask | 1 << v, producers)]
        assert found.added[own].tolist() == steps
        assert [found.masks[j] for j in found.target[own]] == [mask | 1 << v for v in steps]

    def larger(mask: int) -> list[int]:
        return [mask | 1 << v for v in range(n) if not mask >> v & 1 and closed(mask | 1 << v, producers)]

    listed = without_steps(larger, n, 10**6)
    assert listed.masks == found.masks and not listed.complete and not len(listed.added)


@pytest.mark.parametrize("seed", range(10))
def test_prefixes_are_some_of_the_ideals_with_their_steps(seed: int) -> None:
    random = Random(seed)
    producers, orders = drawn(random, 8), []
    for _ in range(3):
        mask, order = 0, list[int]()
        while len(order) < 8:
            order.append(random.choice([v for v in range(8) if not mask >> v & 1 and not producers[v] & ~mask]))
            mask |= 1 << order[-1]
        orders.append(order)
    found = prefixes(orders, 8)
    wanted = {sum(1 << v for v in order[:k]) for order in orders for k in range(9)}
    assert set(found.masks) == wanted and len(found) == len(wanted) and not found.complete
    steps = {(sum(1 << v for v in order[:k]), order[k]) for order in orders for k in range(8)}
    pairs = [(found.masks[i], s) for i in range(len(found)) for s in range(found.first[i], found.first[i + 1])]
    assert {(mask, int(found.added[s])) for mask, s in pairs} == steps and len(pairs) == len(steps)
    assert all(found.masks[found.target[s]] == mask | 1 << int(found.added[s]) for mask, s in pairs)


def test_members_left_out_are_in_no_ideal() -> None:
    found = all_ideals([0, 0b1, 0, 0b10], without=0b100)
    assert found.masks == (0, 0b1, 0b11, 0b1011)


def test_words_are_the_bit_sets() -> None:
    masks = [0, 1 << 63, 1 << 64 | 1, 1 << 129]
    assert to_words(masks, 130).tolist() == [[0, 0, 0], [1 << 63, 0, 0], [1, 1, 0], [0, 0, 2]]
    assert to_words([0], 0).shape == (1, 1) and to_words(masks, 130).dtype == np.uint64


def test_the_limit_and_the_clock() -> None:
    assert len(all_ideals([0] * 12, 4096)) == 4096
    with pytest.raises(TooManyIdealsError, match="more than 4095 ideals"):
        all_ideals([0] * 12, 4095)
    with pytest.raises(TooManyIdealsError):
        without_steps(lambda mask: [mask + 1], 20, 100)
    over = Deadline(until=0.0)
    with pytest.raises(Stop):
        all_ideals([0] * 30, 10**9, over)
    with over.heeded(), pytest.raises(Stop):
        all_ideals([0] * 30, 10**9)
