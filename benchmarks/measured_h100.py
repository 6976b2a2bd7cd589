"""Kernels, layers and fixed costs of one H100, beside what the family ``dataflow`` predicts for them.

    python -m benchmarks.measured_h100 [--rows FILE] [--out FILE]
    python -m benchmarks.measured_h100 --measure FOLDER [PART ...]       on a machine with an H100
    python -m benchmarks.measured_h100 --join SHOWN OTHER                 two occasions as the file of rows

Without ``--measure`` the page is made from the measured rows that are shipped. ``--measure`` needs PyTorch with CUDA;
with ``--device cpu`` it runs tiny shapes once, to try the code.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.h100.rows import joined, read_rows

RESULTS = Path(__file__).resolve().parent / "results"
ROWS, PAGE = RESULTS / "measured-h100.csv", RESULTS / "measured-h100.md"


def main() -> int:
    """Measure, join, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--measure", type=Path, metavar="FOLDER")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--join", type=Path, nargs=2, metavar="FILE")
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--out", type=Path, default=PAGE)
    given = parser.parse_args()
    if given.measure is not None:
        from benchmarks.h100.measure import measure

        measure(given.measure, given.device, given.device == "cpu", given.parts)
        return 0
    from benchmarks.h100.page import page  # needs chipmap, which a machine that measures needn't have

    if given.join is not None:
        given.rows.write_text(joined(*given.join))
    given.out.write_text(page(*read_rows(given.rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
