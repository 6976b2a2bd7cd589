"""What measured costs say about the speeds of operations: Bayesian least squares on the analytic cost's parts.

The model of a measured cost z of a mapping is a maximum over chips c and links l, with the analytic times t and θ = 0
at the analytic cost itself:

    z / scale ~ max( max over c of  sum over v on c of (t_v (1 + θ_all + θ_kind(v) + θ_v) + θ_weights w_v + θ_launch m)
                                    + (a + θ_transfer) x_c + θ_spill max(0, W_c - τ) / r,
                     max over l of  (1 + θ_link) load_l )

w_v is the time in which SRAM (at r bytes per tick) delivers v's weights, m the mean of t_v, and x_c are the ticks of
what chip c receives and sends; a = 1 where the cost mode charges them to the chip, else 0: then there are links, whose
loads count only in mode ``period``. W_c are the bytes of weights on chip c, of which those beyond the threshold τ come
from a slower memory. ``scale`` is the unit of the measured cost per tick, by the first measurement. All θ are
independent and normal around 0 (:data:`SPREAD`): a regression on the largest of several linear forms
(:mod:`chipmap.heuristics.ring.measured.regression`), in which an operation that was never on a slowest chip keeps the
speed of its kind. One regression stands for each of some thresholds; the evidence says how likely each is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from chipmap.heuristics.ring.measured.regression import Floats, Forms, Reading
from chipmap.instances.ring.loads import Loads, loads
from chipmap.instances.ring.problem import TICKS_PER_NS, IntArray, RingProblem


class Spread(NamedTuple):
    """Standard deviations of θ, as shares of the analytic time. ``noise``: what the model leaves out, a share of z."""

    all: float = 0.5
    kind: float = 0.4
    weights: float = 0.5
    launch: float = 0.1
    operation: float = 0.2
    transfer: float = 0.3
    link: float = 0.3
    spill: float = 3.0
    noise: float = 0.01


SPREAD = Spread()
#: No operation is faster than this share of its analytic time.
FASTEST = 0.05
#: Thresholds of weights on a chip, as shares of all weights per chip: geometric, from the first to the last.
THRESHOLDS = (0.5, 8.0, 25)


#: Readings of the measurements, how many of them are read anew with each, and by how much the score of a reading may be
#: lower than the best one's before it begins anew.
READINGS, SWEEPS, HOPELESS = 4, 24, 20.0


class Speeds(NamedTuple):
    """``ticks`` [n] of the operations, ``transfer``: the share of its transfers' ticks that a chip pays, ``link``: the
    factor of a link's ticks, and ``spill``: ticks per byte of a chip's weights beyond ``threshold`` bytes."""

    ticks: Floats
    transfer: float
    link: float
    spill: float = 0.0
    threshold: float = 0.0


class Fit:
    """The estimate for one problem (with computing operations alone), given the measurements so far."""

    def __init__(self, problem: RingProblem, kinds: list[str], seed: int = 0, spread: Spread = SPREAD) -> None:
        self.problem = problem
        names = sorted(set(kinds))
        self._kind = np.array([names.index(kind) for kind in kinds], dtype=np.int64)
        self._ticks = problem.ticks.astype(np.float64)
        self._charged = 0.0 if problem.cost_mode == "period" else 1.0
        self._links = problem.cost_mode == "period"
        n, kinds_ = problem.n, len(names)
        mean = float(self._ticks.mean()) if n else 0.0
        self._streaming = TICKS_PER_NS / problem.instance.package.sram_bytes_per_ns
        of_kind = np.where(self._kind[:, None] == np.arange(kinds_), self._ticks[:, None], 0.0)
        #: [n, parts]: what one unit of each part of θ adds to the ticks of an operation.
        streamed = problem.weight_bytes * self._streaming
        self._parts = np.column_stack((self._ticks, of_kind, streamed, np.full(n, mean)))
        parts = ([spread.transfer, spread.link, spread.all], [spread.kind] * kinds_, [spread.weights, spread.launch])
        own = [spread.operation] * n
        deviation = np.concatenate([np.array(part, dtype=np.float64) for part in (*parts, own)])
        least, most, count = THRESHOLDS
        share = float(problem.floor_bytes.sum()) / problem.chips
        thresholds = share * np.geomspace(least, most, count)
        self._spread, self._random = deviation, np.random.default_rng(seed)
        self._forms = Forms(deviation, spread.spill * self._streaming, thresholds, spread.noise)
        self._readings = [Reading(self._forms, self._random) for _ in range(READINGS)]
        self._scale = 0.0

    def observe(self, chips: IntArray, cost: float) -> None:
        """A mapping [n] and its measured cost > 0."""
        rows, constants, held = self._terms(np.asarray(chips, dtype=np.int64))
        if self._scale <= 0.0:
            self._scale = cost / max(1.0, float(constants.max()))
        self._forms.observe(rows, constants, held, cost / self._scale)
        for reading in self._readings:
            reading.improve(SWEEPS)
        scores = [reading.score for reading in self._readings]
        for i, score in enumerate(scores):
            if score < max(scores) - HOPELESS:
                self._readings[i] = Reading(self._forms, self._random)
                self._readings[i].improve(SWEEPS)

    def estimate(self) -> Speeds:
        """The speeds that agree best with what was measured."""
        if self._scale <= 0.0:
            return self.speeds()
        reading = max(self._readings, key=lambda reading: reading.score)
        return self.speeds(*reading.estimate(), reading.which)

    def draw(self, wider: float = 0.0) -> Speeds:
        """Speeds drawn from what is still possible: from the distribution of τ and θ given the measurements.

        ``wider`` > 0: whatever was measured, with standard deviations that are larger by this factor.
        """
        if wider or self._scale <= 0.0:
            theta = self._random.standard_normal(len(self._spread)) * self._spread * (wider or 1.0)
            beyond = self._random.standard_normal() * np.sqrt(self._forms.beyond) * (wider or 1.0)
            return self.speeds(theta, float(beyond), int(self._random.integers(len(self._forms.thresholds))))
        scores = np.array([reading.score for reading in self._readings])
        likely = np.exp(scores - scores.max())
        reading = self._readings[int(self._random.choice(len(likely), p=likely / likely.sum()))]
        return self.speeds(*reading.draw(), reading.which)

    def speeds(self, theta: Floats | None = None, beyond: float = 0.0, which: int = 0) -> Speeds:
        """The speeds that θ, θ_spill per byte and the threshold of that number stand for (None: the analytic cost)."""
        if theta is None:
            return Speeds(self._ticks, self._charged, 1.0)
        parts, own = theta[2 : 2 + self._parts.shape[1]], theta[2 + self._parts.shape[1] :]
        ticks = np.maximum(FASTEST * self._ticks, self._ticks * (1.0 + own) + self._parts @ parts)
        transfer, link = self._charged + theta[0], 1.0 + theta[1]
        return Speeds(
            ticks,
            max(0.0, float(transfer)),
            max(FASTEST, float(link)),
            max(0.0, beyond),
            float(self._forms.thresholds[which]),
        )

    def cost(self, speeds: Speeds, chips: IntArray) -> float:
        """The cost of a mapping [n] under these speeds; 0 while nothing is measured."""
        on, problem = loads(self.problem, chips), self.problem
        busy = np.bincount(chips, speeds.ticks, problem.chips) + speeds.transfer * self._paid(on)
        busy += speeds.spill * np.maximum(0.0, on.weight_bytes - speeds.threshold)
        link = speeds.link * on.load.max() if self._links else 0.0
        return self._scale * max(float(busy.max()), float(link))

    def _paid(self, on: Loads) -> IntArray:
        """[C]: the ticks of transfers that chips may pay for."""
        if self.problem.cost_mode == "sum_forward":
            return np.concatenate(([0], on.load[:-1])) + on.load
        return on.received + on.sent

    def _terms(self, chips: IntArray) -> tuple[Floats, Floats, Floats]:
        """(rows [k, θ - 1], constants [k], weights [k]): of each chip in use and the fullest link.

        Its ticks are row · θ + constant + θ_spill · max(0, weights - τ).
        """
        on, problem = loads(self.problem, chips), self.problem
        count, parts = int(chips.max(initial=0)) + 1, self._parts.shape[1]
        paid = self._paid(on)
        rows = np.zeros((count + self._links, 2 + parts + problem.n))
        rows[:count, 0] = paid[:count]
        for k in range(parts):
            rows[:count, 2 + k] = np.bincount(chips, self._parts[:, k], count)
        rows[chips, 2 + parts + np.arange(problem.n)] = self._ticks
        held: Floats = np.concatenate((on.weight_bytes[:count], np.zeros(int(self._links)))).astype(np.float64)
        busy = (on.work[:count] + self._charged * paid[:count]).astype(np.float64)
        constants: Floats = np.concatenate((busy, np.zeros(int(self._links))))
        if self._links:
            rows[count, 1] = constants[count] = on.load.max()
        return rows, constants, held
