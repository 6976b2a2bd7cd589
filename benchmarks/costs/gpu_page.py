"""What a data sheet says of a GPU's operations beside what they take, from the shipped table of one H200.

    python -m benchmarks.costs.gpu_page [--join NAMES TABLE SAID]

``--join`` makes the shipped table: from a CSV file of graphs and their names, a table of ``chipmap measure --device
cuda``, and what it printed.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path

import numpy as np

from chipmap.instances.learned import Network, model_of
from chipmap.instances.learned_model import cut, period
from chipmap.networks.works import Work, canonical

RESULTS = Path(__file__).resolve().parents[1] / "results"
ROWS, PAGE = RESULTS / "measured-gpu.csv", RESULTS / "measured-gpu.md"
COLUMNS = ("network", "operator", "ns", "repeat", "flop", "read", "weights", "written")
#: Of an H200: bytes, and FLOP of bfloat16 and of float32, per ns.
BYTES, HALF, SINGLE = 4800.0, 989_000.0, 67_000.0
STAGES = 4
_TIME = {"µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9}
SINGLE_NETWORK = "resnet-50"
WHOLE, REPLAYED = "(whole pass)", "(replayed pass)"

INTRO = """# Times of a GPU's operations

`chipmap measure --device cuda` timed ten networks on one H200: PyTorch 2.11, CUDA 13, driver 580.159. All but the first
ResNet-50 compute in bfloat16; that one computes in float32. Batches are 32 for images of 224 x 224, 8 for SegFormer and
BERT, 4 for GPT-2, 2 for eight layers of Llama 3.2 1B, and 16 for one token of GPT-2. Four passes took two minutes.

## Sums

The data sheet says 4.8 TB/s, and 989 TFLOP/s in bfloat16 or 67 in float32. An operation takes the larger of its FLOP
and bytes by these. "Learned" predicts each network by the others that
compute in bfloat16. The last columns are whole passes: as a CUDA graph
that is replayed, and by the clock with launches.

"""
ATTENTION = """
Measured sums are 2% to 19% above replayed passes, and 6% below for Swin. In BERT and ViT attention takes most of the
time: 0.66 and 0.57 ms a layer, which is 7 to 10 TFLOP/s. Llama's takes 0.09 ms, at 191 TFLOP/s. PyTorch has several
kernels of attention; which one ran wasn't looked at. FLOP and bytes don't tell them apart. So a data sheet can't
foresee such times, and nor do learned ones from so few networks: Llama's total is 2.5 times the measured one.
"""
PLANS = """
## Plans

Each network is cut into four consecutive stages, exactly by predicted times. "Said" is the slowest stage by these,
"took" the same stage measured. The best cut is the one by measured times.

"""


def main() -> int:
    """Join, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--join", type=Path, nargs=3, metavar="FILE")
    given = parser.parse_args()
    if given.join is not None:
        ROWS.write_text(joined(*given.join))
    PAGE.write_text(page())
    return 0


def joined(names: Path, table: Path, said: Path) -> str:
    """The shipped table."""
    called = dict(line.split(",") for line in names.read_text().split())
    lines = [",".join(COLUMNS)]
    with table.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            lines.append(",".join([called[row["graph"]], *(row[name] for name in COLUMNS[1:])]))
    form = r"(\S+)\.pt2: .*a whole pass takes ([\d.]+) (\S+), ([\d.]+) (\S+) as a graph"
    for path, whole, unit, replayed, other in re.findall(form, said.read_text()):
        for kind, amount in ((WHOLE, float(whole) * _TIME[unit]), (REPLAYED, float(replayed) * _TIME[other])):
            lines.append(f"{Path(path).name},{kind},{amount:.0f},,,,,")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page."""
    found: dict[str, Network] = {}
    extra: dict[tuple[str, str], float] = {}
    repeats: dict[str, list[tuple[float, float]]] = {}
    with ROWS.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name, took = row["network"], float(row["ns"])
            if row["operator"] in (WHOLE, REPLAYED):
                extra[name, row["operator"]] = took
                continue
            network = found.setdefault(name, Network())
            flop, read, weights, written = (int(row[one]) for one in COLUMNS[4:])
            network.works.append(Work(canonical(row["operator"], weights), flop, read, weights, written))
            network.ns.append(took)
            repeats.setdefault(name, []).append((float(row["repeat"] or 0), took))
    sums, plans, errors = list[str](), list[str](), list[float]()
    for name, network in sorted(found.items()):
        kin = name.removesuffix("-bf16").removesuffix("-1-token")
        others = [one for other, one in found.items() if not other.startswith(kin) and other != SINGLE_NETWORK]
        guess = model_of(others, range(len(others)), False).guesses(network.works)
        sheet, ns = _sheet(network.works, SINGLE if name == SINGLE_NETWORK else HALF), np.array(network.ns)
        large = ns > 20_000
        errors += [] if name == SINGLE_NETWORK else np.abs(guess[large] / ns[large] - 1).tolist()
        total = sum(network.ns)
        weighted = sum(one * time for one, time in repeats[name]) / total
        cells = [f"{amount / 1e6:.2f}" for amount in (sheet.sum(), total, guess.sum())]
        cells += [f"{weighted:.1%}", *(f"{extra[name, one] / 1e6:.2f}" for one in (REPLAYED, WHOLE))]
        sums.append(_row(name, len(ns), *cells))
        best = period(ns, cut(ns, STAGES))
        said = [(one, cut(one, STAGES)) for one in (sheet, guess)]
        both = [f"{period(times, ends) / 1e6:.3f}" for one, ends in said for times in (one, ns)]
        plans.append(_row(name, *both, f"{best / 1e6:.3f}"))
    head = _row("network", "operations", "data sheet, ms", "measured, ms", "learned, ms", "repeat error", *_WHOLES)
    text = INTRO + "\n".join([head, _row(*["---"] * 8), *sums])
    text += f"\n\nOf operations over 20 µs, learned times are off by {np.median(errors):.1%} at the median.\n"
    text += ATTENTION
    head = _row("network", "sheet said, ms", "took, ms", "learned said, ms", "took, ms", "best cut, ms")
    return text + PLANS + "\n".join([head, _row(*["---"] * 6), *plans]) + "\n"


_WHOLES = ("replayed, ms", "by the clock, ms")


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _sheet(works: list[Work], flop_per_ns: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """ns by the data sheet."""
    rows = [max(one.flop / flop_per_ns, (one.read + one.weights + one.written) / BYTES, 1.0) for one in works]
    return np.array(rows, dtype=np.float64)


if __name__ == "__main__":
    sys.exit(main())
