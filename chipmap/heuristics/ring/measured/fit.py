"""What measured costs say about the speeds of operations: Bayesian least squares on the analytic cost's parts.

The model of a measured cost z of a mapping is a maximum over chips c and links l, with the analytic times t and θ = 0
at the analytic cost itself:

    z / scale ~ max( max over c of  sum over v on c of (t_v (1 + θ_all + θ_kind(v) + θ_v) + θ_weights w_v + θ_launch m)
                                    + (a + θ_transfer) x_c,
                     max over l of  (1 + θ_link) load_l )

w_v is the time in which SRAM delivers v's weights, m the mean of t_v, and x_c are the ticks of what chip c receives and
sends; a = 1 where the cost mode charges them to the chip, else 0: then there are links, whose loads count only in mode
``period``. ``scale`` is the unit of the measured cost per tick, by the
first measurement. All θ are independent and normal around 0 (:data:`SPREAD`), so the estimate is ridge regression, in
which an operation that was never on a slowest chip keeps the speed of its kind. A measurement says something of its
slowest chip (or link) alone. Which one that is, is not told: a new cost is put down to the chip whose time is the
fewest standard deviations away from it, and to another one later where the estimate contradicts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chipmap.instances.ring.loads import loads
from chipmap.instances.ring.problem import TICKS_PER_NS, IntArray, RingProblem

Floats = NDArray[np.float64]


class Spread(NamedTuple):
    """Standard deviations of θ, as shares of the analytic time. ``noise``: what the model leaves out, a share of z."""

    all: float = 0.5
    kind: float = 0.4
    weights: float = 0.5
    launch: float = 0.1
    operation: float = 0.2
    transfer: float = 0.3
    link: float = 0.3
    noise: float = 0.01


SPREAD = Spread()
#: Rounds in which the slowest chip of each measurement is named and the speeds are estimated.
ROUNDS = 5
#: No operation is faster than this share of its analytic time.
FASTEST = 0.05


class Speeds(NamedTuple):
    """``ticks`` [n] of the operations, ``transfer``: the share of its transfers' ticks that a chip pays, and ``link``:
    the factor of a link's ticks."""

    ticks: Floats
    transfer: float
    link: float


class Fit:
    """The estimate for one problem (with computing operations alone), given the measurements so far."""

    def __init__(self, problem: RingProblem, kinds: list[str], spread: Spread = SPREAD) -> None:
        self.problem = problem
        names = sorted(set(kinds))
        self._kind = np.array([names.index(kind) for kind in kinds], dtype=np.int64)
        self._ticks = problem.ticks.astype(np.float64)
        self._charged = 0.0 if problem.cost_mode == "period" else 1.0
        self._links = problem.cost_mode == "period"
        n, kinds_ = problem.n, len(names)
        mean = float(self._ticks.mean()) if n else 0.0
        streamed = problem.weight_bytes * (TICKS_PER_NS / problem.instance.package.sram_bytes_per_ns)
        of_kind = np.where(self._kind[:, None] == np.arange(kinds_), self._ticks[:, None], 0.0)
        #: [n, parts]: what one unit of each part of θ adds to the ticks of an operation.
        self._parts = np.column_stack((self._ticks, of_kind, streamed, np.full(n, mean)))
        parts = ([spread.transfer, spread.link, spread.all], [spread.kind] * kinds_, [spread.weights, spread.launch])
        own = [spread.operation] * n
        self._deviation = np.concatenate([np.array(part, dtype=np.float64) for part in (*parts, own)])
        self._noise = spread.noise
        #: Per measurement: rows and constants of its chips, its cost / scale, and which of the rows is the slowest.
        self._rows: list[Floats] = []
        self._constants: list[Floats] = []
        self._costs: list[float] = []
        self._slowest: list[int] = []
        self._scale = 0.0
        self._theta = np.zeros(len(self._deviation))

    def observe(self, chips: IntArray, cost: float) -> None:
        """A mapping [n] and its measured cost > 0."""
        rows, constants = self._terms(np.asarray(chips, dtype=np.int64))
        if not self._rows:
            self._scale = cost / max(1.0, float(constants.max()))
        wanted = cost / self._scale
        self._rows.append(rows)
        self._constants.append(constants)
        self._costs.append(wanted)
        self._slowest.append(self._likeliest(rows, constants, wanted))

    def speeds(self, theta: Floats | None = None) -> Speeds:
        """The speeds that θ stands for (None: the estimate)."""
        theta = self._theta if theta is None else theta
        own = theta[2 + self._parts.shape[1] :]
        ticks = self._ticks * (1.0 + own) + self._parts @ theta[2 : 2 + self._parts.shape[1]]
        transfer, link = self._charged + theta[0], 1.0 + theta[1]
        ticks = np.maximum(FASTEST * self._ticks, ticks)
        return Speeds(ticks, max(0.0, float(transfer)), max(FASTEST, float(link)))

    def estimate(self) -> Speeds:
        """The speeds that agree best with what was measured."""
        for _ in range(ROUNDS if self._costs else 0):
            self._theta = self._conditioned(np.zeros_like(self._theta), np.zeros(len(self._costs)))
            if not self._corrected():
                break
        return self.speeds()

    def draw(self, random: np.random.Generator, wider: float = 0.0) -> Speeds:
        """Speeds drawn from what is still possible: from the distribution of θ given the measurements.

        ``wider`` > 0: whatever was measured, with standard deviations that are larger by this factor.
        """
        theta = random.standard_normal(len(self._theta)) * self._deviation * (wider or 1.0)
        if self._costs and not wider:
            theta = self._conditioned(theta, random.standard_normal(len(self._costs)) * self._noise)
        return self.speeds(theta)

    def _terms(self, chips: IntArray) -> tuple[Floats, Floats]:
        """(rows [k, θ], constants [k]): of each chip in use and the fullest link, ticks are row · θ + constant."""
        on, problem = loads(self.problem, chips), self.problem
        count, parts = int(chips.max(initial=0)) + 1, self._parts.shape[1]
        forward = problem.cost_mode == "sum_forward"
        paid = np.concatenate(([0], on.load[:-1])) + on.load if forward else on.received + on.sent
        rows = np.zeros((count + self._links, len(self._theta)))
        rows[:count, 0] = paid[:count]
        for k in range(parts):
            rows[:count, 2 + k] = np.bincount(chips, self._parts[:, k], count)
        rows[chips, 2 + parts + np.arange(problem.n)] = self._ticks
        constants = np.concatenate((on.work[:count] + self._charged * paid[:count], np.zeros(int(self._links))))
        if self._links:
            rows[count, 1] = constants[count] = on.load.max()
        return rows, constants

    def _likeliest(self, rows: Floats, constants: Floats, wanted: float) -> int:
        """The chip or link that a new cost is due to.

        One that is predicted to be above it; else the one whose prediction is the fewest standard deviations below.
        """
        predicted = rows @ self._theta + constants
        most = int(np.argmax(predicted))
        if predicted[most] >= wanted:
            return most
        spread = rows * self._deviation**2
        variance = np.einsum("kt,kt->k", spread, rows)
        if len(self._costs) > 1:
            phi, known = self._phi(len(self._costs) - 1)
            cross = spread @ phi.T
            variance -= np.einsum("km,mk->k", cross, np.linalg.solve(known, cross.T))
        variance = np.maximum(variance, 0.0) + (self._noise * wanted) ** 2
        return int(np.argmin((wanted - predicted) ** 2 / variance))

    def _corrected(self) -> bool:
        """Name another slowest chip where one is predicted clearly above the measured cost; whether there was any."""
        changed = False
        for i, (rows, constants, wanted) in enumerate(zip(self._rows, self._constants, self._costs, strict=True)):
            predicted = rows @ self._theta + constants
            most = int(np.argmax(predicted))
            if most != self._slowest[i] and predicted[most] > max(predicted[self._slowest[i]], wanted) * (
                1 + self._noise
            ):
                self._slowest[i] = most
                changed = True
        return changed

    def _phi(self, count: int) -> tuple[Floats, Floats]:
        """(rows [m, θ] of the slowest chips of the first measurements as shares of their costs, covariance [m, m])."""
        rows = [self._rows[i][self._slowest[i]] / self._costs[i] for i in range(count)]
        phi = np.array(rows)
        return phi, (phi * self._deviation**2) @ phi.T + self._noise**2 * np.eye(count)

    def _conditioned(self, prior: Floats, errors: Floats) -> Floats:
        """θ as drawn (``prior``), moved to agree with the measurements up to ``errors`` (shares): Matheron's rule.

        With zeros for both it is the mean of θ given the measurements.
        """
        phi, known = self._phi(len(self._costs))
        constants = [self._constants[i][k] / self._costs[i] for i, k in enumerate(self._slowest)]
        missing = 1.0 - np.array(constants) - phi @ prior - errors
        moved: Floats = prior + (phi * self._deviation**2).T @ np.linalg.solve(known, missing)
        return moved
