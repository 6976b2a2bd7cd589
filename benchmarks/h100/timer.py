"""How kernels are timed: groups between two events, behind a kernel that waits until the host has asked for all of it.

On a device without CUDA the same calls run once by the host's clock, so that shapes can be tried before.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

#: Bytes that other calls touch before an operand is used again: three times the L2 cache.
ROTATED = 150 * 10**6
#: Groups that are timed; microseconds that a group should take; the most calls of one.
GROUPS, GROUP_US, MOST_CALLS = 7, 300.0, 512
#: Cycles of the kernel that waits, about 0.25 ms; calls behind which it waits longer.
WAIT = 400_000
#: Guesses of FLOP and bytes per microsecond, for the number of calls of a group alone.
FLOP_US, BYTES_US, LEAST_US = 700e6, 2.8e6, 2.0

Call = Callable[[int], Any]


class Spread(NamedTuple):
    """Microseconds of a call: the median of the groups, and in percent of it the most less the least; MHz of the
    multiprocessors in the last group."""

    us: float
    spread: float
    mhz: int = 0

    def over(self, calls: int) -> Spread:
        """Of each of so many equal parts."""
        return self._replace(us=self.us / calls)


class Timer:
    """Times calls on a device, ``cuda`` or (once, to try shapes) ``cpu``."""

    def __init__(self, device: str) -> None:
        import torch

        self.torch, self.device, self.cuda, self.card = torch, device, device == "cuda", None
        if self.cuda:
            import pynvml

            pynvml.nvmlInit()
            self.card = pynvml.nvmlDeviceGetHandleByIndex(0)

    def copies(self, touched: int, room: int = MOST_CALLS) -> int:
        """How many sets of operands of so many bytes outlast the cache."""
        return max(1, min(MOST_CALLS, room, math.ceil(ROTATED / touched))) if self.cuda else 1

    def calls(self, flop: float, touched: float, copies: int) -> int:
        """How many calls a group has."""
        guess = max(flop / FLOP_US, touched / BYTES_US, LEAST_US)
        return min(MOST_CALLS, max(copies, math.ceil(GROUP_US / guess))) if self.cuda else 1

    def graph(self, call: Call, calls: int, busy_s: float = 0.0) -> Spread:
        """``calls`` calls captured as one CUDA graph, which keeps all they return until it is captured. The device is
        busy with them for ``busy_s`` seconds before."""
        torch = self.torch
        if not self.cuda:
            return self._once(call)
        side, graph, held = torch.cuda.Stream(), torch.cuda.CUDAGraph(), []
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            for i in range(min(2, calls)):
                call(i)
            side.synchronize()
            graph.capture_begin()
            try:
                for i in range(calls):
                    held.append(call(i))
            finally:
                graph.capture_end()
        del held
        self._busy(graph.replay, busy_s)
        found = self._groups(graph.replay, calls, 1)
        graph.reset()
        if torch.cuda.memory_reserved() > 60 * 10**9:
            torch.cuda.empty_cache()
        return found

    def queued(self, call: Call, calls: int, busy_s: float = 0.0) -> Spread:
        """Calls one by one, all asked for before the first begins."""
        if not self.cuda:
            return self._once(call)

        def group() -> None:
            for i in range(calls):
                call(i)

        self._busy(group, busy_s)
        return self._groups(group, calls, calls)

    def eager(self, call: Call, calls: int) -> Spread:
        """Calls one by one as the host asks for them, by the host's clock until all have ended."""
        if not self.cuda:
            return self._once(call)
        found = []
        for turn in range(GROUPS + 2):
            self.torch.cuda.synchronize()
            began = time.perf_counter()
            for i in range(calls):
                call(i)
            self.torch.cuda.synchronize()
            if turn > 1:
                found.append((time.perf_counter() - began) * 1e6 / calls)
        return _spread(found)

    def _busy(self, group: Callable[[], Any], seconds: float) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            group()
            self.torch.cuda.synchronize()

    def _clock(self) -> int:
        """MHz of the multiprocessors now (0: not told)."""
        if self.card is None:
            return 0
        import pynvml

        return int(pynvml.nvmlDeviceGetClockInfo(self.card, pynvml.NVML_CLOCK_SM))

    def _once(self, call: Call) -> Spread:
        began = time.perf_counter()
        call(0)
        return _spread([(time.perf_counter() - began) * 1e6])

    def _groups(self, group: Callable[[], Any], calls: int, waits: int) -> Spread:
        """Groups behind a kernel of so many waits."""
        torch, pairs, mhz = self.torch, list[float](), 0
        for _ in range(2):
            group()
        torch.cuda.synchronize()
        for _ in range(GROUPS):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(WAIT * waits)
            first.record()
            group()
            last.record()
            mhz = self._clock()
            torch.cuda.synchronize()
            pairs.append(first.elapsed_time(last) * 1e3 / calls)
        return _spread(pairs, mhz)


def _spread(found: list[float], mhz: int = 0) -> Spread:
    middle = statistics.median(found)
    return Spread(middle, 100 * (max(found) - min(found)) / middle, mhz)


class Pool:
    """Random numbers on the device, of which operands are pieces: nothing is allocated while something is timed."""

    def __init__(self, timer: Timer, numbers: int, dtype: Any, scale: float = 1.0) -> None:
        torch = timer.torch
        self.numbers, piece = numbers, 2**28
        self.all = torch.empty(numbers, dtype=dtype, device=timer.device)
        for start in range(0, numbers, piece):
            some = torch.randn(min(piece, numbers - start), dtype=torch.bfloat16, device=timer.device)
            self.all[start : start + piece].copy_(some * scale)

    def room(self, numbers: int) -> int:
        """How many pieces of so many numbers there are."""
        return self.numbers // _aligned(numbers)

    def piece(self, i: int, *shape: int) -> Any:
        """The i-th piece of this shape, modulo how many there are."""
        numbers = math.prod(shape)
        start = i % self.room(numbers) * _aligned(numbers)
        return self.all[start : start + numbers].view(shape)


def _aligned(numbers: int) -> int:
    return -(-numbers // 256) * 256
