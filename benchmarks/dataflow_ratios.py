"""The ratios of DFModel's section VI-C: what its text says, and how they come out of the rows of sweeps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import geometric_mean
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from chipmap.bench.point import Row

FIGURES = {"utilisation": "utilisation", "cost": "gflops_per_usd", "power": "gflops_per_watt"}
#: A ratio of ours may be so far from the paper's.
TOLERANCE = 0.15

Where = dict[str, tuple[str, ...]]
Mean = Callable[[list[float]], float]
GPU, OTHERS = ("H100", "TPU v4"), ("H100", "TPU v4", "SN30")
DDR, HBM = ("DDR & PCIe", "DDR & NVLink"), ("HBM & PCIe", "HBM & NVLink")
PCIE, NVLINK = ("DDR & PCIe", "HBM & PCIe"), ("DDR & NVLink", "HBM & NVLink")
SIMPLE = ("2D torus", "3D torus", "DGX-1", "DGX-2")


class Ratio(NamedTuple):
    """A ratio of the paper's text: points over points of a workload, and what the paper says per figure."""

    workload: str
    words: str
    over: Where
    under: Where
    paper: dict[str, float]


def _three(utilisation: float, cost: float, power: float) -> dict[str, float]:
    return {"utilisation": utilisation, "cost": cost, "power": power}


def _network_bound(
    workload: str, nvlink: Sequence[float], dragonfly: Sequence[float], tpu: Sequence[float], wse: Sequence[float]
) -> list[Ratio]:
    """What the paper says of DLRM and FFT alike."""
    others: Where = {"chip": ("H100", "SN30", "WSE-2")}
    return [
        Ratio(workload, "NVLink / PCIe", {"technology": NVLINK}, {"technology": PCIE}, _three(*nvlink)),
        Ratio(workload, "dragonfly / simple networks", {"network": ("dragonfly",)}, {"network": SIMPLE},
              _three(*dragonfly)),
        Ratio(workload, "TPU v4 / other chips", {"chip": ("TPU v4",)}, others, _three(*tpu)),
        Ratio(workload, "WSE-2 / other chips", {"chip": ("WSE-2",)}, {"chip": OTHERS}, _three(*wse)),
    ]  # fmt: skip


def _dragonfly(words: str, paper: dict[str, float], technology: tuple[str, ...]) -> Ratio:
    """GPT3's dragonflies, without WSE-2, which the paper's text doesn't say: with it they come out otherwise."""
    common: Where = {"chip": OTHERS, "technology": technology}
    over, under = {"network": ("dragonfly",), **common}, {"network": SIMPLE, **common}
    return Ratio(_GPT, f"{words}dragonfly / simple networks", over, under, paper)


_GPT = "GPT3 1T"
RATIOS = [
    Ratio(_GPT, "SN30 / H100 and TPU v4", {"chip": ("SN30",)}, {"chip": GPU}, _three(1.52, 1.59, 1.6)),
    Ratio(_GPT, "SN30: HBM / DDR", {"chip": ("SN30",), "technology": HBM}, {"chip": ("SN30",), "technology": DDR},
          {"utilisation": 1.0}),
    Ratio(_GPT, "H100 and TPU v4: HBM / DDR", {"chip": GPU, "technology": HBM}, {"chip": GPU, "technology": DDR},
          {"utilisation": 1.66}),
    _dragonfly("NVLink: ", {"utilisation": 1.0}, NVLINK),
    _dragonfly("PCIe: ", {"utilisation": 1.21}, PCIE),
    _dragonfly("", {"cost": 0.51, "power": 0.91}, (*PCIE, *NVLINK)),
    Ratio(_GPT, "WSE-2: HBM / DDR", {"chip": ("WSE-2",), "technology": HBM}, {"chip": ("WSE-2",), "technology": DDR},
          {"utilisation": 1.0}),
    Ratio(_GPT, "WSE-2: NVLink / PCIe", {"chip": ("WSE-2",), "technology": NVLINK},
          {"chip": ("WSE-2",), "technology": PCIE}, {"utilisation": 5.15}),
    Ratio(_GPT, "WSE-2 / other chips", {"chip": ("WSE-2",)}, {"chip": OTHERS}, {"cost": 0.06, "power": 0.2}),
    *_network_bound("DLRM 793B", (6.3, 4.31, 6.04), (2.51, 1.66, 2.13), (4.43, 9.45, 5.24), (0.1, 0.01, 0.04)),
    Ratio("HPL 5M", "WSE-2 / other chips", {"chip": ("WSE-2",)}, {"chip": OTHERS}, {"cost": 0.09, "power": 0.33}),
    *_network_bound("FFT 2^40", (7.02, 4.81, 6.73), (3.22, 2.13, 2.74), (5.11, 10.92, 6.06), (0.09, 0.01, 0.03)),
]  # fmt: skip


def with_all_chips(ratio: Ratio) -> Ratio:
    """``ratio`` over all chips."""
    over, under = ({axis: labels for axis, labels in where.items() if axis != "chip"} for where in ratio[2:4])
    return ratio._replace(over=over, under=under)


def average(rows: Sequence[Row], workload: str, where: Where, figure: str, of: Mean = geometric_mean) -> float:
    """The mean of a figure over the rows of ``where``; 0 where a point has no mapping."""
    found = [
        row.figures.get(figure, 0.0)
        for row in rows
        if row.labels["workload"] == workload and all(row.labels[axis] in labels for axis, labels in where.items())
    ]
    return of(found) if all(found) else 0.0


def value(rows: Sequence[Row], ratio: Ratio, figure: str, of: Mean = geometric_mean) -> float | None:
    """Our ratio; None where the rows have no such workload."""
    if ratio.workload not in {row.labels["workload"] for row in rows}:
        return None
    over = average(rows, ratio.workload, ratio.over, FIGURES[figure], of)
    under = average(rows, ratio.workload, ratio.under, FIGURES[figure], of)
    return over / under if under else float("nan")


def near(ours: float, paper: float) -> bool:
    """Whether ``ours`` is within the tolerance, or rounds to what the paper gives where that has one digit."""
    digits = len(f"{paper:g}".partition(".")[2])
    return abs(ours / paper - 1) <= TOLERANCE or (paper < 0.1 and round(ours, digits) == paper)


def widest(names: Sequence[str], values: Sequence[float | None]) -> str:
    """The step of a chain that changes a ratio most, in words; nothing where all steps change it by less than 15%."""
    known = [(name, one) for name, one in zip(names, values, strict=True) if one is not None]
    steps = [(abs(math.log(b / a)), name, a, b) for (_, a), (name, b) in pairwise(known)]
    if not steps or max(steps)[0] <= math.log(1 + TOLERANCE):
        return ""
    _, name, a, b = max(steps)
    return f"{name}: {shown(a)} to {shown(b)}"


def shown(one: float | None) -> str:
    """A ratio in a cell: two digits, three where it is small."""
    return "" if one is None else f"{one:.2f}" if one > 0.2 else f"{one:.3f}"
