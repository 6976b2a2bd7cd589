"""What the pictures of a sweep show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.patches import Rectangle

from benchmarks.dataflow_speculation import Speculation, draw
from chipmap.bench.point import Row, solve_point
from chipmap.bench.sweep import points, read_sweep
from chipmap.report.dataflow.serving_plots import passes
from chipmap.report.sweeps.plots import curves, heat_maps, latencies, plots, roofline
from tests.bench.samples import tiny

AXES = ("chip", "sram", "memory")


def row(chip: str, sram: str, memory: str, **figures: float) -> Row:
    labels = {"chip": chip, "sram": sram, "memory": memory}
    base = {
        **{
            "pflops": 0.5,
            "chips": 1.0,
            "peak_pflops": 1.0,
            "utilisation": 0.5,
            "dram_gb_per_s": 100.0,
            "link_gb_per_s": 25.0,
        },
        **{"flop_per_dram_byte": 8000.0, "flop_per_link_byte": 4000.0, "tensor_link_gb_per_s": 200.0},
        **{"compute_s": 1.0, "memory_s": 2.0, "network_s": 3.0},
    }
    return Row(key="", labels=labels, status="optimal", objective=10**12, figures=base | figures)


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_heat_maps_name_what_is_missing() -> None:
    """No picture of prices where chips have none; a point without a mapping is told in dark letters on white."""
    rows = [row("A", "1", "x"), row("A", "1", "y"), row("A", "2", "x")]
    rows.append(Row(key="", labels={"chip": "A", "sram": "2", "memory": "y"}, status="infeasible"))
    figure = heat_maps(rows, AXES, "t")
    assert len([axes for axes in figure.axes if axes.texts]) == 1
    assert texts(figure.axes[0]) == ["50", "50", "50", "none"]
    assert figure.axes[0].texts[3].get_color() != "white"
    priced = heat_maps([one.replace(figures={**one.figures, "gflops_per_usd": 2.0}) for one in rows], AXES, "t")
    assert len(priced.axes) == 2


def test_a_panel_of_prefills_and_decode_steps() -> None:
    rows = [row("A", "1", "prefill", ttft_us=2000.0, tokens_per_s=1.0)]
    rows.append(row("A", "1", "decode", tpot_us=1000.0, tokens_per_s=1.0))
    plane = passes(rows, AXES, "t").axes[0]
    assert plane.get_ylabel() == "TTFT or TPOT, ms"
    assert [bar.get_height() for bar in plane.patches if isinstance(bar, Rectangle)] == [2.0, 1.0]


def test_latencies_have_a_panel_each() -> None:
    rows = [row(chip, "1", memory) for chip in ("A", "B") for memory in ("x", "y")]
    figure = latencies(rows, AXES, "t")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["A", "B"]
    assert len(latencies(rows[:2], AXES[1:], "t").axes) == 1


def test_the_roofline_has_the_links_that_intensities_count() -> None:
    """Crosses lie below the line of the tensor dimension's links, which need not be the slowest."""
    figure = roofline([row("A", "1", "x")], "chip", "t")
    assert texts(figure.axes[0]) == ["peak 1,000", "DRAM 100 GB/s", "link 200 GB/s"]


def test_the_roofline_has_every_peak() -> None:
    """Rows of one label may have chips of different peaks: no mark stands above all roofs."""
    rows = [row("A", "1", "x"), row("A", "2", "x", peak_pflops=4.0, pflops=3.0), row("B", "1", "x")]
    plane = roofline(rows, "chip", "t").axes[0]
    assert [text for text in texts(plane) if "peak" in text] == ["peak 1,000", "peak 4,000"]


def labels(axis: Any) -> list[str]:
    """The ticks of an axis within its range."""
    low, high = sorted(axis.get_view_interval())
    axis.figure.canvas.draw()
    return [
        tick.get_text() for tick in axis.get_ticklabels() if low <= tick.get_position()[axis.axis_name == "y"] <= high
    ]


def test_logarithmic_axes_say_so_in_plain_numbers() -> None:
    """Mathematics in texts is off, for the sake of names: matplotlib's own ticks would read $\\mathdefault{10^{3}}$."""
    far = [row("A", "1", "x"), row("A", "1", "y", pflops=50.0)]
    slow = [one.replace(objective=10**12 * 100**i) for i, one in enumerate(far)]
    for figure in (roofline(far, "chip", "t"), curves(far, AXES, "t"), latencies(slow, AXES, "t")):
        plane = figure.axes[0]
        for axis in (plane.xaxis, plane.yaxis):
            if axis.get_scale() == "log":
                assert axis.get_label_text().endswith("(logarithmic)")
                shown = [text.replace(",", "") for text in labels(axis)]
                assert shown and all(float(text) > 0 for text in shown)
        assert "log" in (plane.get_xscale(), plane.get_yscale())


def test_bars_have_lengths_only_on_linear_scales() -> None:
    near, far = (
        [row("A", "1", "x"), row("A", "1", "y")],
        [row("A", "1", "x"), row("A", "1", "y").replace(objective=10**15)],
    )
    assert len(latencies(near, AXES, "t").axes[0].patches) == 6
    plane = latencies(far, AXES, "t").axes[0]
    assert not plane.patches and len(plane.lines) == 3


def test_names_are_no_curve() -> None:
    """A line between two mappings would say that there is something between them."""
    amounts, names = [row("A", "1", "100"), row("A", "1", "300")], [row("A", "1", "x"), row("A", "1", "y")]
    assert curves(amounts, AXES, "t").axes[0].lines[0].get_linestyle() == "-"
    assert curves(names, AXES, "t").axes[0].lines[0].get_linestyle() == "None"


def test_curves_far_apart_are_logarithmic() -> None:
    rows = [row("A", "1", "x"), row("A", "1", "y"), row("B", "1", "x", pflops=50.0), row("B", "1", "y", pflops=50.0)]
    assert curves(rows, AXES, "t").axes[0].get_yscale() == "log"
    assert curves(rows[:2], AXES, "t").axes[0].get_yscale() == "linear"


def test_serving_is_drawn(tmp_path: Path) -> None:
    """Figure 20: prefill 16 x 1 and decode 16 x 1 of the published input."""
    sweep = read_sweep("dataflow/serving-published")
    rows = [solve_point(points(sweep)[i]) for i in (0, 5)]
    assert rows[0].figures["ttft_us"] == pytest.approx(87_042.894, rel=2e-5)
    assert rows[1].figures["tokens_per_s"] == pytest.approx(1187.8, abs=0.05)
    assert "serving.png" in {path.name for path in plots(sweep, rows, tmp_path)}
    without = tiny()
    plain = [solve_point(points(without)[-1])]
    assert "serving.png" not in {path.name for path in plots(without, plain, tmp_path / "plain")}


def test_speculation_is_drawn(tmp_path: Path) -> None:
    rates = [Speculation("small", window, a, 50.0, 40.0, 30.0, 20.0) for window in (1, 2) for a in (0.5, 0.9)]
    draw(rates, 31.0, tmp_path / "s.png")
    assert (tmp_path / "s.png").read_bytes()[:4] == b"\x89PNG"
