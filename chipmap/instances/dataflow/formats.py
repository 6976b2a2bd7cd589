"""Number formats: those that a workload may name for its weights, activations and KV caches, and a chip its peaks."""

from __future__ import annotations

from typing import Literal

#: "": none is named; bytes are counted as the workload states them, at the chip's one peak.
Format = Literal["", "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4", "int4"]
#: Bits of a number in memory.
BITS: dict[Format, int] = {
    **{"fp64": 64, "fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16},
    **{"fp8": 8, "int8": 8, "fp6": 6, "fp4": 4, "int4": 4},
}
