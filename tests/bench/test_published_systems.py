"""Points of the 80 systems against the logs of DFModel's published runs: utilisation, price and power."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.bench.point import audited, solve_point
from chipmap.bench.sweep import points, read_sweep

#: Workload, chip, network, technology; utilisation, US dollars, watts; how far the utilisation may be off. The runs
#: have DLRM's weight updates apart, and sum GPT3's gradients once per micro-batch.
RUNS: list[tuple[str, str, str, str, float, float, float, float]] = [
    ("fft", "H100", "2D torus", "DDR & PCIe", 0.006312219505484815, 34_457_600, 823_571.455, 1e-6),
    ("fft", "H100", "3D torus", "DDR & PCIe", 0.012371950230750235, 35_174_400, 827_565.055, 1e-6),
    ("fft", "H100", "DGX-2", "DDR & PCIe", 0.023792211982211993, 35_596_800, 823_904.255, 1e-6),
    ("fft", "H100", "DGX-1", "HBM & NVLink", 0.20549146066472432, 42_121_728, 959_292.702, 1e-6),
    ("fft", "TPU v4", "dragonfly", "HBM & NVLink", 0.8673862853580165, 48_249_540.5, 528_807.839, 1e-6),
    ("fft", "WSE-2", "DGX-1", "HBM & NVLink", 0.030665909576215025, 3_106_916_864, 20_976_570.7, 1e-6),
    ("hpl", "WSE-2", "2D torus", "DDR & PCIe", 0.7325745065429148, 3_099_252_736, 20_840_849.5, 1e-4),
    ("hpl", "WSE-2", "DGX-1", "HBM & NVLink", 0.8999999761581422, 3_103_720_064, 20_969_382.2, 1e-6),
    ("dlrm", "H100", "DGX-1", "DDR & PCIe", 0.03905353337886323, 34_675_200, 821_907.455, 0.01),
    ("dlrm", "H100", "dragonfly", "DDR & PCIe", 0.07439332656180916, 38_601_600, 905_689.857, 0.01),
    ("gpt3", "H100", "dragonfly", "DDR & PCIe", 0.3303403366076285, 56_102_400, 921_414.657, 1e-3),
    ("gpt3", "SN30", "2D torus", "DDR & PCIe", 0.7748055154407583, 17_757_184, 511_325.011, 1e-4),
    ("gpt3", "SN30", "3D torus", "HBM & NVLink", 0.8580015891420223, 25_222_912, 651_148.019, 0.01),
    ("gpt3", "WSE-2", "2D torus", "DDR & PCIe", 0.10537478231466596, 3_099_425_536, 20_841_223.9, 0.02),
]


@pytest.mark.parametrize("run", RUNS, ids=[" ".join(run[:4]) for run in RUNS])
def test_published_run(run: tuple[Any, ...]) -> None:
    workload, *labels = run[:4]
    point = next(
        one
        for one in points(read_sweep(f"dataflow/dse-{workload}-published"))
        if [one.labels[axis] for axis in ("chip", "network", "technology")] == labels
    )
    row = audited(point, solve_point(point))
    assert row.status == "optimal"
    figures = row.figures
    utilisation, dollars, watts, tolerance = run[4:]
    assert figures["utilisation"] == pytest.approx(utilisation, rel=tolerance)
    # prices and powers of chips are rounded
    assert figures["price_usd"] == pytest.approx(dollars, rel=1e-4)
    assert figures["watts"] == pytest.approx(watts, rel=1e-4)
