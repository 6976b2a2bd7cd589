"""Published results of the ISPD 2020 suite, restated: CU.POKer's column and the best of the five placers in its slides.

Source: CU.POKer: Placing DNNs on Wafer-Scale AI Accelerator with Optimal Kernel Sizing (slides), "Experimental Results
on ISPD-20 Suite". Every score is recomputed from its parts (the slides print 3174500 for S; its parts give 3174360).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple


class Published(NamedTuple):
    """CU.POKer's parts and score, and the best score of the five placers."""

    time: float
    wire: float
    adapters: int
    score: float
    best: float


SUITE: dict[str, Published] = {
    "A": Published(34496, 1314, 15, 35810, 35810),
    "B": Published(63504, 2639.5, 18, 66143.5, 66143.5),
    "C": Published(64512, 2408, 185, 66920, 66920),
    "D": Published(33712, 2722, 123, 36434, 35790.5),
    "E": Published(39312, 562, 11, 46032, 46032),
    "F": Published(65170, 1489.5, 12, 81265, 81265),
    "G": Published(64512, 2508.5, 98, 99397, 99397),
    "H": Published(39520, 1104.5, 49, 55465, 55465),
    "I": Published(52136, 617.5, 13, 54606, 54544),
    "J": Published(50274, 2472.5, 69, 60164, 57348),
    "K": Published(432, 240, 3, 1392, 1392),
    "L": Published(864, 279, 18, 1980, 1980),
    "M": Published(2211840, 3610.5, 41, 2226282, 2226282),
    "N": Published(1482, 480.5, 10, 3404, 3393),
    "O": Published(52136, 617.5, 13, 82036, 82036),
    "P": Published(57792, 1101, 85, 135832, 135330),
    "Q": Published(882, 166, 6, 9922, 8672),
    "R": Published(8064, 259, 20, 26424, 26424),
    "S": Published(2396160, 1897.5, 48, 3174360, 2954560),
    "T": Published(4102, 208.5, 4, 14042, 14042),
}


def geometric_mean(values: Iterable[float]) -> float:
    """(Π values)^(1/n)."""
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))
