"""What a cluster adds to each state of its root, against all choices of its members' states."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from chipmap.heuristics.wafer.bounds.kernel import INFINITE, message, picks
from chipmap.heuristics.wafer.bounds.states import Lattice, lattice_of
from tests.lanes import of_all

#: (x, y, (h, w, c), value) of each state of a member.
State = tuple[int, int, tuple[int, int, int], float]
#: Coefficients (x, y) of each member and the root, and a constant.
Case = tuple[tuple[tuple[int, int], ...], float]


def adapters(triples: list[tuple[int, int, int]], prices: tuple[float, float, float]) -> float:
    """The price of each argument on which not all agree."""
    return sum(price for values, price in zip(zip(*triples, strict=True), prices, strict=True) if len(set(values)) > 1)


def cost(states: tuple[State, ...], case: Case, prices: tuple[float, float, float]) -> float:
    """Ticks of one choice of states, the root's last."""
    coefficients, constant = case
    parts = sum(a * x + b * y + value for (x, y, _, value), (a, b) in zip(states, coefficients, strict=True))
    return constant + parts + adapters([triple for _, _, triple, _ in states], prices)


def arrays(states: list[State], triples: list[tuple[int, int, int]]) -> list[NDArray[np.int64]]:
    return [np.array([one[k] for one in states]) for k in (0, 1)] + [np.array([triples.index(s[2]) for s in states])]


@pytest.mark.parametrize("seed", range(of_all(1000, 40)))
def test_message_and_picks_against_all_choices(seed: int) -> None:
    random = Random(seed)
    triples = sorted({(random.randint(1, 3), random.randint(1, 3), random.randint(1, 3)) for _ in range(6)})
    lattice: Lattice = lattice_of(np.array(triples))
    count, prices = random.choice((1, 2, 3)), (random.randint(0, 9), random.randint(0, 9), random.choice((0, 4)))
    members: list[list[State]] = [
        [
            (random.randint(1, 9), random.randint(1, 9), random.choice(triples), float(random.randint(0, 20)))
            for _ in range(random.randint(1, 5))
        ]
        for _ in range(count + 1)
    ]
    members[-1] = [(x, y, triple, 0.0) for x, y, triple, _ in members[-1]]
    chosen = [[random.randrange(3) for _ in range(count)] for _ in range(3)]
    coefficients = [(random.randint(0, 4), random.randint(-1, 4)) for _ in range(3)]
    own = [(random.randint(0, 4), random.randint(0, 4)) for _ in range(3)]
    constants = [float(random.randint(0, 5)) for _ in range(3)]
    cases = [((*(coefficients[e] for e in chosen[c]), own[c]), constants[c]) for c in range(3)]

    flat = [arrays(some, triples) for some in members]
    start = np.cumsum([0] + [len(some) for some in members[:-1]])
    values = np.array([state[3] for some in members[:-1] for state in some])
    boxes = values, *(np.concatenate([some[k] for some in flat[:-1]]) for k in range(3)), start
    masks = np.array([sum(p for p, same in zip(prices, agree, strict=True) if not same) for agree in AGREEING], float)
    shape = np.array(coefficients, float), np.array(chosen), np.array(own, float), np.array(constants)
    added, which = message(boxes, tuple(flat[-1]), shape, (lattice.merges, np.repeat(masks, lattice.counts)))

    for s, root in enumerate(members[-1]):
        least = min(cost((*some, root), case, prices) for case in cases for some in product(*members[:-1]))
        assert added[s] == pytest.approx(least) and added[s] < INFINITE
        case = cases[which[s]]
        group, parts = int(flat[-1][2][s]), np.array(case[0][:-1], float)
        found = picks(boxes, group, parts, (lattice.numbers, masks))
        some = tuple(member[at] for member, at in zip(members[:-1], found.tolist(), strict=True))
        assert cost((*some, root), case, prices) == pytest.approx(least)


#: Which of (h, w, c) each mask asks to agree.
AGREEING = list(product((True, False), repeat=3))
