"""The formats of plans, each of which the families' records name where they have it."""

from __future__ import annotations

from chipmap.family import PlanFormat

TABLE = PlanFormat(
    "csv",
    "a table: a line per operation with its chip or device",
    "plan.csv",
    emit="chipmap.plans.table:emit",
    suits="chipmap.plans.table:suits",
    adopt="chipmap.plans.table:adopt",
    recognise="chipmap.plans.table:recognise",
)
DEVICE_MAP = PlanFormat(
    "device-map",
    "accelerate's and transformers' device_map: module -> device",
    "device_map.json",
    emit="chipmap.plans.device_map.format:emit",
    suits="chipmap.plans.device_map.format:suits",
    adopt="chipmap.plans.device_map.format:adopt",
    recognise="chipmap.plans.device_map.format:recognise",
)
CHROME_TRACE = PlanFormat(
    "chrome-trace",
    "the mapping in time, for Perfetto and chrome://tracing: tracks, transfers, memory",
    "trace.json",
    emit="chipmap.plans.chrome_trace.format:emit",
    suits="chipmap.plans.chrome_trace.format:suits",
    inside=True,
)
