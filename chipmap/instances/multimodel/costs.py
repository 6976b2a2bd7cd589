"""What a layer costs on a chiplet: two dataflows in closed form, and a roofline.

A layer is a convolution of K filters over C channels, R × S each, at OY × OX places with stride s (a matrix product has
R = S = 1 and X = 1). A chiplet has P processing elements, one multiply-add each and cycle; nb and ob elements per cycle
come from its shared memory and from outside. Elements are bytes, a cycle takes 2 ns (500 MHz).

========================  =============================================================================================
class                     cycles
========================  =============================================================================================
``nvdla``                 weight stationary: P / 64 filters and 64 channels at a time, one place per iteration
``shidiannao``            output stationary: 16 filters and P / 16 rows of places at a time, one channel per iteration
both, depthwise layers    P channels at a time, one place per iteration
========================  =============================================================================================

A roofline (:func:`roofline`) asks for FLOP and bytes only, and knows no dataflow.

An iteration takes the longest of computing, loading from outside and distributing. Energies are 0.23 pJ times accesses:
1.68 per access to a register, 18.61 per access to the shared memory. Source: the published dataflow descriptions of
Kwon et al., MAESTRO (2019), as SCAR uses them (section V); the closed forms are ours.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from chipmap.records import InputError, Record, choices
from chipmap.records.decimals import exact

NS_PER_CYCLE = 2
#: Energy in 10⁻⁴ pJ of an access to a register (0.23 · 1.68) and to the shared memory (0.23 · 18.61).
REGISTER, SHARED = 3_864, 42_803


class Shape(Record, frozen=True, kw_only=True):
    """A layer's loops: ``K`` filters, ``C`` channels, ``Y`` × ``X`` places of the operand, an ``R`` × ``S`` window.

    ``depthwise``: each channel has a filter of its own (K is not used). An operand smaller than the window counts as
    padded up to it.
    """

    K: int
    C: int
    Y: int
    X: int
    R: int = 1
    S: int = 1
    stride: int = 1
    depthwise: bool = False

    @property
    def places(self) -> tuple[int, int]:
        """OY, OX of the result."""
        return (max(self.Y, self.R) - self.R) // self.stride + 1, (max(self.X, self.S) - self.S) // self.stride + 1

    @property
    def operand(self) -> int:
        """Elements read."""
        return self.C * max(self.Y, self.R) * max(self.X, self.S)

    @property
    def weights(self) -> int:
        """Elements of the filters."""
        return (1 if self.depthwise else self.K) * self.C * self.R * self.S

    @property
    def result(self) -> int:
        """Elements made."""
        rows, columns = self.places
        return (self.C if self.depthwise else self.K) * rows * columns

    @property
    def products(self) -> int:
        """Multiply-adds."""
        rows, columns = self.places
        return self.weights * rows * columns


class Hardware(Record, frozen=True, kw_only=True):
    """A chiplet: ``elements`` P, and elements per cycle from its shared memory (``nb``) and from outside (``ob``)."""

    elements: int
    nb: int
    ob: int


#: Presets; ``table2``: the paper's table II; ``ideal``: rates that never bind.
PRESETS = {
    "scar-datacenter": Hardware(elements=4096, nb=1000, ob=50),
    "scar-arvr": Hardware(elements=256, nb=1000, ob=256),
    "table2": Hardware(elements=4096, nb=1000, ob=128),
    "ideal": Hardware(elements=4096, nb=10**9, ob=10**9),
}
CLASSES = ("nvdla", "shidiannao")


def cost(shape: Shape, kind: str, hardware: Hardware) -> tuple[int, int]:
    """(ns, pJ) of one sample of a layer on a chiplet of class ``nvdla`` or ``shidiannao``."""
    if min(getattr(shape, name) for name in ("K", "C", "Y", "X", "R", "S", "stride")) < 1:
        raise InputError(f"a dimension is below 1: {shape}", "shape", "Give whole numbers from 1.")
    if shape.depthwise:
        return _priced(shape, *_depthwise(shape, hardware))
    if kind not in _DATAFLOWS:
        raise InputError(f"no cost model for class {kind!r}", "class", choices(kind, CLASSES))
    return _priced(shape, *_DATAFLOWS[kind](shape, hardware))


def costs(shape: Shape, hardware: Hardware) -> dict[str, tuple[int, int]]:
    """:func:`cost` by class."""
    return {kind: cost(shape, kind, hardware) for kind in CLASSES}


def _priced(shape: Shape, cycles: int, read: int, weights: int, made: int) -> tuple[int, int]:
    """Time, and energy of the accesses: ``read``, ``weights`` and ``made`` elements from and to the shared memory."""
    registers = 4 * shape.products + read + weights
    shared = read + shape.operand + weights + shape.weights + made
    return NS_PER_CYCLE * cycles, -(-(REGISTER * registers + SHARED * shared) // 10_000)


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _weight_stationary(shape: Shape, hardware: Hardware) -> tuple[int, int, int, int]:
    """Cycles, and accesses to the shared memory for operand, weights and result."""
    K, C, R, S, s = shape.K, shape.C, shape.R, shape.S, shape.stride
    (rows, columns), nb, ob = shape.places, hardware.nb, hardware.ob
    filters, channels = hardware.elements // 64, min(C, 64)
    kept, rounds, passes = min(K, filters), _up(K, filters), _up(C, 64)
    compute = R * S + max(0, _up(2 * channels * R * S, nb) - 1)
    outside = max(((2 * kept * channels * R * S + 2 * channels * R * S) // ob) // 2, (2 * kept // ob) // 2)
    distribute = _up(channels * R * min(S, s), nb) - 1
    cycles = rounds * passes * rows * columns * max(compute, outside, distribute)
    padded = C if C <= 64 else 64 * passes
    read = rounds * padded * rows * R * (S + (columns - 1) * min(S, s))
    return cycles, read, K * padded * R * S, K * rows * columns * passes


def _output_stationary(shape: Shape, hardware: Hardware) -> tuple[int, int, int, int]:
    """Cycles, and accesses to the shared memory for operand, weights and result."""
    K, C, R, S, s = shape.K, shape.C, shape.R, shape.S, shape.stride
    (rows, columns), nb, ob = shape.places, hardware.nb, hardware.ob
    at_once = hardware.elements // 16
    kept, rounds, passes = min(K, 16), _up(K, 16), _up(rows, at_once)
    height = min(rows, at_once)
    span = height if R == 1 else (height - 1) * s + 1
    compute = R * S + max(0, _up((kept + 1) * R * S, nb) - 1)
    outside = max(((2 * R * S * height + 2 * kept * R * S) // ob) // 2, (2 * kept * span // ob) // 2)
    distribute = max(_up(R * S * height + kept * R * S, nb), _up(kept * height, nb)) - 1
    cycles = rounds * passes * columns * C * max(compute, outside, distribute)
    weights = K * R * S * columns * passes * (C - 1) + K * R * S if C > 1 else K * R * S * passes
    made = K * C * columns * (rows if R == 1 else (rows - 1) * s + 1)
    return cycles, rounds * C * columns * rows * R * S, weights, made


def _depthwise(shape: Shape, hardware: Hardware) -> tuple[int, int, int, int]:
    """Cycles and accesses of a depthwise layer: each window is read once, each filter once."""
    C, window = shape.C, shape.R * shape.S
    rows, columns = shape.places
    outside = (4 * min(C, hardware.elements) * window // hardware.ob) // 2
    cycles = _up(C, hardware.elements) * rows * columns * max(window, outside)
    return cycles, C * rows * columns * window, C * window, C * rows * columns


_DATAFLOWS = {"nvdla": _weight_stationary, "shidiannao": _output_stationary}


class Rates(Record, frozen=True, kw_only=True):
    """What a chiplet of a class computes and moves at best, and what that takes: the costs of a roofline."""

    flop_per_ns: float
    bytes_per_ns: float
    pj_per_flop: float
    pj_per_byte: float

    def check(self, where: str) -> None:
        """Raise :class:`InputError` for rates that aren't positive, or energies below 0."""
        for name, low in (("flop_per_ns", 1e-6), ("bytes_per_ns", 1e-6), ("pj_per_flop", 0.0), ("pj_per_byte", 0.0)):
            if not low <= (value := getattr(self, name)) <= 1e9:
                raise InputError(f"is {value}", f"{where}.{name}", f"Give {low} to 1e9.")


#: The chiplet of preset ``scar-datacenter`` at its best: two FLOP per element and cycle, ``nb`` bytes per cycle, four
#: accesses to registers per multiply-add, and one access to the shared memory per byte.
ROOFLINE = Rates(
    flop_per_ns=PRESETS["scar-datacenter"].elements * 2 / NS_PER_CYCLE,
    bytes_per_ns=PRESETS["scar-datacenter"].nb / NS_PER_CYCLE,
    pj_per_flop=4 * REGISTER / 10_000 / 2,
    pj_per_byte=SHARED / 10_000,
)


def roofline(flop: int | Fraction, moved: int, rates: Rates) -> tuple[int, int]:
    """(ns, pJ) of a layer that computes ``flop`` and moves ``moved`` bytes once.

    ns = ⌈max(flop / ``flop_per_ns``, moved / ``bytes_per_ns``)⌉, pJ = ⌈flop · ``pj_per_flop`` + moved ·
    ``pj_per_byte``⌉.
    """
    time = max(flop / exact(rates.flop_per_ns), moved / exact(rates.bytes_per_ns))
    return ceil(time), ceil(flop * exact(rates.pj_per_flop) + moved * exact(rates.pj_per_byte))
