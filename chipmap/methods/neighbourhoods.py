"""Large-neighbourhood search: part of a solution is solved again, exactly, by CP-SAT, while the rest stays.

A family says which neighbourhoods there are, in which order they are tried, and what a gain is; the loop is here. So is
what a proposal (of a learned policy, say) takes part in: it can say which neighbourhood is next. Each
solve has a limit of deterministic work, so that with one thread and ``--deterministic`` no clock decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from chipmap.deadline import Deadline
from chipmap.methods.model_solve import Limits, solve_within
from chipmap.records import Record
from chipmap.run import Run

N = TypeVar("N")


class Search(Protocol[N]):
    """A solution and its neighbourhoods."""

    def pick(self) -> N | None:
        """The neighbourhood to be tried next; None: none is left."""
        ...

    def model(self, neighbourhood: N) -> Any:
        """Its CP-SAT model, with hints at what is there now."""
        ...

    def limits(self, neighbourhood: N) -> Limits:
        """The limits of one solve."""
        ...

    def take(self, neighbourhood: N, better: Any | None) -> bool:
        """Take in what the solver found (as the model decodes it; None: nothing); whether that is a gain."""
        ...


@dataclass
class Tally:
    """How many neighbourhoods were tried, gained something, and were left undecided by their limits."""

    tried: int = 0
    gained: int = 0
    undecided: int = 0

    def __str__(self) -> str:
        return f"{self.tried} tried, {self.gained} gained, {self.undecided} undecided in time"


def improve(run: Run, search: Search[N], deadline: Deadline, tally: Tally, most: float = float("inf")) -> None:
    """Try neighbourhoods until none is left, ``most`` are tried or the deadline has come; ``tally`` counts them."""
    while tally.tried < most and deadline.keep_going():
        neighbourhood = search.pick()
        if neighbourhood is None:
            break
        tally.tried += 1
        model = search.model(neighbourhood)
        limits = replace(search.limits(neighbourhood), deadline=deadline)
        outcome = solve_within(run, model, limits=limits, solver="cpsat")
        better = None if outcome.value_of is None else model.decode(outcome.value_of)
        tally.undecided += better is None and outcome.termination.reason != "infeasible"
        tally.gained += search.take(neighbourhood, better)


def proposed(run: Run, instance: Any, method: Callable[[Any, Run], object], source: str, **options: Any) -> Any | None:
    """What ``method`` finds in a run of its own, with other ``options``: a proposal, which the run takes in as well."""
    inner = run.inner(instance, **options)
    method(instance, inner)
    if inner.best is None:
        return None
    found: Record = inner.best.solution
    run.solution(found, source)
    return found


def moved_work(
    inside: NDArray[np.int64], now: NDArray[np.int64], proposal: NDArray[np.int64], work: NDArray[np.int64]
) -> int:
    """The ``work`` [n] of the operations ``inside`` that the ``proposal`` [n] has elsewhere than ``now`` [n]."""
    return int(work[inside[proposal[inside] != now[inside]]].sum())
