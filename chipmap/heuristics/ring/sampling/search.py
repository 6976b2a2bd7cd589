"""Search by samples: a policy proposes, SAMPLE or FIX makes a valid mapping of it, the policy hears what it is worth.

The paper's two search strategies (section 5.1): *random search* proposes the uniform distribution for ever; *simulated
annealing* starts from it, gives a random set of operations a new random distribution in each iteration, and keeps the
change or not by what the mapping is worth. A learned policy joins by the same two functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from chipmap.heuristics.ring.sampling.evaluate import INVALID, Evaluator
from chipmap.heuristics.ring.sampling.sample_fix import Sampler
from chipmap.instances.ring.problem import IntArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Proposal:
    """What the solver shall make a mapping of: ``probabilities`` [n, C] for SAMPLE (None: uniform), or the
    ``candidate`` [n] for FIX; and how many mappings (``count``), as a policy with rollouts asks for. ``heard`` is told
    what SAMPLE drew the one mapping from (:meth:`~chipmap.heuristics.ring.sampling.sample_fix.Sampler.left`).
    """

    mode: Literal["sample", "fix"] = "sample"
    probabilities: Floats | None = None
    candidate: IntArray | None = None
    count: int = 1
    heard: Callable[[NDArray[np.bool_]], None] | None = None


class Policy(Protocol):
    """A search strategy over one instance."""

    def propose(self) -> Proposal:
        """The next proposal."""
        ...

    def observe(self, chips: IntArray | None, value: float) -> None:
        """A mapping [n] made of the last proposal and its objective in ticks, or its measured cost (None and INVALID if
        there is none)."""
        ...


class Uniform:
    """Random search: p(y_i = j) = 1/C for every operation i and chip j."""

    def propose(self) -> Proposal:
        """The uniform distribution."""
        return Proposal(count=64)

    def observe(self, chips: IntArray | None, value: float) -> None:
        """Nothing is learnt."""


class Annealing:
    """Simulated annealing on the distributions P [n, C].

    Each iteration redraws the rows of a random set of operations (each is in it with probability ``share``, at least
    one is) from exponentials raised to the power ``sharpness`` (1: flat Dirichlet). A mapping that is worse by the
    share d is accepted with probability exp(-d / T); T falls from ``hot`` to ``cold`` geometrically in ``iterations``.
    """

    def __init__(
        self,
        n: int,
        chips: int,
        seed: int,
        iterations: int,
        share: float = 0.01,
        sharpness: float = 4.0,
        hot: float = 0.01,
        cold: float = 0.0001,
    ) -> None:
        self._random = np.random.default_rng(seed)
        self._kept = np.full((n, chips), 1.0 / chips)
        self._next = self._kept
        self._value: float | None = None
        self._iterations, self._share, self._sharpness = iterations, share, sharpness
        self._hot, self._cold, self._step = hot, cold, 0

    def propose(self) -> Proposal:
        """The kept distributions with some rows redrawn; the first proposal is uniform."""
        n, chips = self._kept.shape
        self._next = self._kept
        if self._value is not None and n:
            rows = self._random.random(n) < self._share
            rows[self._random.integers(n)] = True
            fresh = self._random.exponential(size=(int(rows.sum()), chips)) ** self._sharpness
            self._next = self._kept.copy()
            self._next[rows] = fresh / fresh.sum(axis=1, keepdims=True)
        return Proposal(probabilities=self._next)

    def observe(self, chips: IntArray | None, value: float) -> None:
        """Metropolis' rule on the relative change; a mapping that breaks C4 is never accepted over a valid one."""
        self._step += 1
        chance = self._random.random()
        if value >= INVALID and self._value is not None:
            return
        if self._value is not None and value > self._value:
            cooled = min(1.0, self._step / max(1, self._iterations))
            temperature = self._hot * (self._cold / self._hot) ** cooled
            if chance >= math.exp(-min(700.0, (value / (self._value or 1) - 1.0) / temperature)):
                return
        self._kept, self._value = self._next, value


def search(
    sampler: Sampler,
    policy: Policy,
    seed: int,
    samples: int,
    evaluate: Callable[[IntArray], NDArray[Any]] | None = None,
    at_once: int = 2**31,
    first: int = 0,
) -> Iterator[tuple[IntArray | None, Any]]:
    """(mapping [n], its objective in ticks) of ``samples`` mappings, one by one; (None, INVALID) where none is found.

    ``evaluate`` maps [k, n] to [k] values, by default objectives in ticks, for ``at_once`` mappings at most. ``first``
    of all samples have been taken before, in a search that goes on here. A mapping
    may break C4: its value is :data:`~chipmap.heuristics.ring.sampling.evaluate.INVALID` then.
    """
    worth = evaluate or Evaluator(sampler.problem)
    done = 0
    while done < samples:
        proposal = policy.propose()
        count = min(proposal.count, samples - done, at_once)
        if proposal.mode == "fix":
            assert proposal.candidate is not None
            made = sampler.fix(proposal.candidate, seed, count=count, first=first + done)
        else:
            made = sampler.sample(count, seed, proposal.probabilities, first=first + done)
            if proposal.heard is not None:
                proposal.heard(sampler.left())
        done += count
        found = worth(made.chips[made.valid])
        values = np.full(count, INVALID, dtype=found.dtype)
        values[made.valid] = found
        for chips, valid, value in zip(made.chips, made.valid.tolist(), values.tolist(), strict=True):
            mapping = chips if valid else None
            policy.observe(mapping, value)
            yield mapping, value
