"""Random numbers and temperatures of compiled searches.

The generator is SplitMix64 (Steele, Lea, Flood 2014). Its state, an array of one word, is passed in, so that a search
depends on its seed alone, whatever else draws in the process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chipmap.kernels import njit


def seeded(seed: int) -> NDArray[np.uint64]:
    """The state of a generator for this seed; the streams of neighbouring seeds have nothing in common."""
    return np.random.default_rng(seed).integers(1, 2**63, 1, dtype=np.uint64)


@njit(part=True)
def next_bits(random: Any) -> Any:
    """The next 64 random bits."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(part=True)
def uniform(random: Any) -> float:
    """A random number from 0 to below 1."""
    return float(next_bits(random) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(part=True)
def temperature(hot: float, cold: float, part: float) -> float:
    """The temperature after ``part`` (0 to 1) of a geometric fall from ``hot`` to ``cold``."""
    return hot * (cold / hot) ** part
