"""Compiled random numbers: SplitMix64 (Steele, Lea, Flood 2014) on a state [1] that is passed in (numba)."""

from __future__ import annotations

from typing import Any

import numpy as np

from chipmap.kernels import njit


@njit(cache=True)
def next_bits(random: Any) -> Any:
    """The next 64 random bits."""
    random[0] += np.uint64(0x9E3779B97F4A7C15)
    z = random[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(cache=True)
def unit(random: Any) -> float:
    """A number in [0, 1)."""
    return float(next_bits(random) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
