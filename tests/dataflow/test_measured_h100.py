"""The rows measured on an H100, and the page that is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.h100 import predicted
from benchmarks.h100.beside import CONTEXT, Measured, backward, forward, inference
from benchmarks.h100.fits import DRAM, PEAKS, fitted, of_roof
from benchmarks.h100.measure import measure
from benchmarks.h100.page import page
from benchmarks.h100.rows import Row, read_rows, text_of
from benchmarks.measured_h100 import PAGE, ROWS


def test_the_page_is_what_the_command_makes_of_the_rows() -> None:
    assert PAGE.read_text() == page(*read_rows(ROWS))


def test_the_file_is_read_as_it_was_written() -> None:
    rows, about = read_rows(ROWS)
    assert text_of(rows, about) == ROWS.read_text()
    assert ROWS.stat().st_size <= 150_000
    assert len({row.key for row in rows}) == len(rows)


def test_nothing_is_faster_than_the_data_sheet_allows() -> None:
    """FLOP at the peak and bytes at DRAM's rate; operands that may stay in the cache are too slow for that anyway."""
    rows = [row for row in read_rows(ROWS)[0] if row.us and row.format in PEAKS and (row.flop or row.bytes)]
    assert len(rows) > 1500
    assert max(map(of_roof, rows)) < 1


def test_each_kernel_of_the_layer_stands_in_one_row_of_its_table() -> None:
    of = Measured(read_rows(ROWS)[0])
    tables = (
        (predicted.decode(8, CONTEXT), inference(of, 8, "decode", 8, CONTEXT)),
        (predicted.prefill(2048), inference(of, 2048, "prefill", 1, 2048)),
        (predicted.training(2048), [*forward(of, 2048), *backward(of, 2048)]),
    )
    for layer, pairs in tables:
        assert sorted(name for pair in pairs for name in pair.kernels) == sorted(layer.kernels)


def test_a_prediction_is_the_longer_of_compute_and_dram() -> None:
    """A product of 4,096 × 4,096 weights: one token reads them and two vectors, 8,192 tokens compute at 0.9 of the
    peak. A launch comes before each."""
    moved = 2 * (4096 * 4096 + 2 * 4096) / 3350e3
    assert predicted.decode(1, CONTEXT).of("Proj") == pytest.approx(moved, rel=1e-5)
    assert predicted.prefill(8192).of("Proj") == pytest.approx(2 * 4096**2 * 8192 / (0.9 * 989.4e6), rel=1e-5)
    told = predicted.Fields(((0.0, 0.5), (1e10, 0.75)), 0.8, 3000.0)
    assert predicted.decode(1, CONTEXT, told=told).of("Proj") == pytest.approx(3 + moved / 0.8, rel=1e-5)
    compute = 2 * 4096**2 * 8192 / (0.75 * 989.4e6)
    assert predicted.prefill(8192, told).of("Proj") == pytest.approx(3 + compute, rel=1e-5)


def test_a_fit_finds_what_rows_are_made_of() -> None:
    sizes = [(2**i, 2**j) for i in range(24, 40, 3) for j in range(14, 30, 3)]
    times = [3.2 + max(flop / (0.7 * PEAKS[""]), moved / (0.9 * DRAM)) for flop, moved in sizes]
    rows = [
        Row("product", "", "", flop=flop, bytes=moved, us=us) for (flop, moved), us in zip(sizes, times, strict=True)
    ]
    assert fitted(rows)[:3] == pytest.approx((3.2, 0.7, 0.9), abs=0.011)


def test_measuring_without_a_gpu_says_what_it_needs(tmp_path: Path) -> None:
    try:
        import torch
    except ModuleNotFoundError:
        pass
    else:
        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
    with pytest.raises(SystemExit, match="needs PyTorch with CUDA"):
        measure(tmp_path / "out", "cuda", False, [])
    assert not (tmp_path / "out").exists()
