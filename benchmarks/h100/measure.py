"""Measures all parts on the machine at hand and writes each row as soon as it is known."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.h100.attention import Attention
from benchmarks.h100.elements import Elements, adam_rows
from benchmarks.h100.fixed import fixed_rows
from benchmarks.h100.layer import Layers
from benchmarks.h100.products import Products, fp8_rows, grouped_rows
from benchmarks.h100.rows import Row, text_of
from benchmarks.h100.timer import Timer

#: Seconds between two samples of clock and watts.
SAMPLED_S = 0.1
#: Rows after which the file is written anew.
WRITTEN = 100


def parts(timer: Timer, tiny: bool) -> dict[str, Callable[[], Iterator[Row]]]:
    """What is measured, in this order."""
    return {
        "fixed": lambda: fixed_rows(timer, tiny),
        "copies": lambda: Elements(timer, tiny).copies(),
        "layers_decode": lambda: Layers(timer, tiny).decode(),
        "layers_prefill": lambda: Layers(timer, tiny).prefill(),
        "layers_training": lambda: Layers(timer, tiny).training(),
        "attention": lambda: Attention(timer, tiny).inference(),
        "attention_training": lambda: Attention(timer, tiny).training(),
        "products": lambda: Products(timer, tiny).forward(),
        "products_back": lambda: Products(timer, tiny).backward(),
        "products_fp8": lambda: fp8_rows(timer, tiny),
        "products_grouped": lambda: grouped_rows(timer, tiny),
        "elements_back": lambda: Elements(timer, tiny).backward(),
        "adam": lambda: adam_rows(timer, tiny),
        "elements": lambda: Elements(timer, tiny).rows(),
    }


def about(torch: Any, cuda: bool) -> dict[str, str]:
    """Card and versions."""
    found = {"python": sys.version.split()[0], "torch": torch.__version__, "cuda": str(torch.version.cuda)}
    if cuda:
        card = torch.cuda.get_device_properties(0)
        found |= {
            "card": card.name,
            "multiprocessors": str(card.multi_processor_count),
            "l2": str(card.L2_cache_size),
            "cudnn": str(torch.backends.cudnn.version()),
            "driver": _smi("driver_version"),
            "power_limit_w": _smi("power.limit"),
            "most_mhz": _smi("clocks.max.sm"),
            "memory_mhz": _smi("clocks.max.mem"),
        }
    return found


def _smi(what: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


class Clocks(threading.Thread):
    """Samples the SM clock in MHz and watts beside what is measured."""

    def __init__(self, cuda: bool) -> None:
        super().__init__(daemon=True)
        self.cuda, self.ended, self.samples = cuda, threading.Event(), list[tuple[int, float]]()

    def run(self) -> None:
        """Until ``ended``."""
        if not self.cuda:
            return
        import pynvml

        pynvml.nvmlInit()
        card = pynvml.nvmlDeviceGetHandleByIndex(0)
        while not self.ended.wait(SAMPLED_S):
            clock = pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_SM)
            self.samples.append((clock, pynvml.nvmlDeviceGetPowerUsage(card) / 1000))

    def since(self, position: int) -> str:
        """What was sampled since the sample of this number."""
        found = self.samples[position:]
        if not found:
            return "nothing sampled"
        clocks, watts = (sorted(one) for one in zip(*found, strict=True))
        low, middle = clocks[len(clocks) // 10], clocks[len(clocks) // 2]
        power = f"{watts[len(watts) // 2]:.0f} W (median), {watts[-1]:.0f} W (most)"
        return f"SM {low} / {middle} MHz (10th percentile / median), {power}"


def measure(folder: Path, device: str, tiny: bool, wanted: list[str]) -> None:
    """Write ``rows.csv`` in ``folder``. A part that fails is told, and the next one begins."""
    try:
        import torch
    except ModuleNotFoundError:
        raise SystemExit("measured_h100: --measure needs PyTorch with CUDA, which isn't installed.") from None
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            "measured_h100: --measure needs PyTorch with CUDA and a GPU; torch.cuda.is_available() is False."
        )
    timer, rows = Timer(device), list[Row]()
    folder.mkdir(parents=True, exist_ok=True)
    told, clocks = about(torch, timer.cuda), Clocks(timer.cuda)
    clocks.start()
    gc.freeze()
    for name, part in parts(timer, tiny).items():
        if wanted and name not in wanted:
            continue
        began, before, position = time.time(), len(rows), len(clocks.samples)
        try:
            for row in part():
                rows.append(row)
                if len(rows) % WRITTEN == 0:
                    (folder / "rows.csv").write_text(text_of(rows, told))
        except Exception as error:
            print(f"{name} failed after {len(rows) - before} rows: {type(error).__name__}: {error}", flush=True)
        if timer.cuda:
            torch.cuda.empty_cache()
        told[f"part {name}"] = f"{len(rows) - before} rows in {time.time() - began:.0f} s; {clocks.since(position)}"
        print(name, told[f"part {name}"], flush=True)
        (folder / "rows.csv").write_text(text_of(rows, told))
    clocks.ended.set()
