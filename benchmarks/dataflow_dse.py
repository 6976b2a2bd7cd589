"""DFModel's design-space exploration: the ratios of its text beside ours, in both cost modes.

Reads the matrix of `chipmap bench`, and solves what it lacks (all of it takes minutes). Ratios are of geometric means
over all points that a row of the table names (`benchmarks/dataflow_ratios.py`).

    python benchmarks/dataflow_dse.py --out runs/dse [--workers 2] > benchmarks/results/dataflow-dse.md
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from functools import partial
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.dataflow_ratios import RATIOS, near, shown, value, widest, with_all_chips  # noqa: E402

if TYPE_CHECKING:
    from chipmap.bench.point import Row

#: Settings of a published sweep: WSE-2's phases apart and its transfers counted; the rates of the text.
_PHASES = ("axes.1.choices.3.set:={}",)
_RATES = (
    "parameters.all_reduce_factor=1",
    *(
        f"axes.3.choices.{i}.{field}:={json.dumps(content)}"
        for i, (memory, link) in enumerate((m, k) for m in ("ddr", "hbm") for k in ("pcie", "nvlink"))
        for field, content in (("parameters", {"memory": memory, "link": link}), ("set", {}))
    ),
)
_RUNS = [f"dataflow/dse-{workload}-published" for workload in ("gpt3", "dlrm", "hpl", "fft")]
#: Column -> sweeps, each with its settings.
COLUMNS: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "runs": [(name, ()) for name in _RUNS],
    "phases": [(_RUNS[0], _PHASES)],
    "rates": [(_RUNS[0], (*_PHASES, *_RATES)), *((name, _RATES) for name in _RUNS[1:])],
    "shapes": [("dataflow/dse-80-fixed", ())],
    "`dfmodel`": [("dataflow/dse-80", ())],
    "`physical`": [("dataflow/dse-80", ("parameters.mode=physical",))],
}
LEGEND = """
Every column changes the one before:

- **runs**: systems and mappings of the published runs' input files (`dataflow/dse-…-published`): DDR of 300 and HBM of
  3,072 GB/s, links of 50 and 450 GB/s; GPT3 with 8 chips a layer and 128 stages, NVLink inside the first dimension
  alone, WSE-2 with all kernels in one partition.
- **phases** (GPT3): on WSE-2 forward and backward kernels lie in different partitions (C3), and transfers between
  stages take their time (the paper's equation 7).
- **rates**: those of the text, 200 and 3,000, 25 and 900 GB/s, NVLink everywhere, an all-reduce that counts once.
- **shapes** (GPT3): networks of `dataflow/dse-80-fixed`, sharding and number of partitions free.
- **`dfmodel`**: `dataflow/dse-80`, all degrees; DLRM in micro-batches of 64, HPL of 5,242,880² on all chips, DGX boxes
  joined by 50 and 100 GB/s, SN30 fuses all workloads.
- **`physical`**: the same in the other mode.

"Off" is how far the runs' column is from the paper. What moves a ratio most after that, by more than 15%, stands in the
last column.
"""
REMARKS = """
Why these steps matter:

- Rates: NVLink of 900 over PCIe of 25 GB/s is 36 times, in the runs 9 times. It makes a system dearer by more (the cost
  ratios), and chips wait less for it.
- Phases: in one partition nothing that the backward phase reads goes through DRAM, so that WSE-2 never waits for DDR.
  A stage hands on 105 MB per micro-batch in each direction, 4.2 ms over 50 GB/s; WSE-2 computes 1.8 ms. The published
  runs count transfers once per batch.
- Shapes: in the runs, element-wise kernels lie whole on all chips of a layer, which chips that run kernel by kernel pay
  for in DRAM traffic; a dragonfly of 8 x 128 has 16,256 links between its boxes, one of 32 x 32 has 992.
- `dfmodel`: GPT3 with less tensor parallelism needs no fast links; between DGX boxes NVLink makes no difference, which
  DLRM and FFT wait for.
- `physical`: weights are read from DRAM, so that memory counts for WSE-2; every chip has a link of its own in every
  dimension, so that switches and dragonflies are better at an all-to-all than with one uplink per box.
"""


def solved(name: str, out: Path, workers: int, *settings: str) -> list[Row]:
    """The rows of a shipped sweep."""
    from chipmap.bench.pool import LocalPool
    from chipmap.bench.run import bench
    from chipmap.bench.sweep import points, read_sweep

    return bench(points(read_sweep(name, settings)), out / "matrix.sqlite", partial(LocalPool, workers))


def print_points(rows: dict[str, list[Row]]) -> None:
    """How many points of each workload are proved, and what they took."""
    print("| column | workload | points | proved optimal | CPU seconds, all | longest point |")
    print("|---|---|--:|--:|--:|--:|")
    for column, found in rows.items():
        for workload in dict.fromkeys(row.labels["workload"] for row in found):
            own = [row for row in found if row.labels["workload"] == workload]
            proved = sum(row.status == "optimal" for row in own)
            cpu = [row.cpu_seconds for row in own]
            print(f"| {column} | {workload} | {len(own)} | {proved} | {sum(cpu):.1f} | {max(cpu):.2f} |")
    print()


def print_ratios(rows: dict[str, list[Row]]) -> None:
    """The ratios of the paper's section VI-C."""
    print("| workload | ratio | of | paper | " + " | ".join(rows) + " | off | moved most by |")
    print("|---|---|---|--:|" + "--:|" * (len(rows) + 1) + "---|")
    count = dict.fromkeys(rows, 0)
    for ratio in RATIOS:
        for figure, paper in ratio.paper.items():
            ours = [value(found, ratio, figure) for found in rows.values()]
            for column, one in zip(rows, ours, strict=True):
                count[column] += one is not None and near(one, paper)
            cells = " | ".join(map(shown, ours))
            off = f"{100 * ((ours[0] or 0.0) / paper - 1):+.0f}%"
            line = f"| {ratio.workload} | {ratio.words} | {figure} | {paper} | {cells} | {off} |"
            print(f"{line} {widest(list(rows), ours)} |")
    told = ", ".join(f"{column} {number}" for column, number in count.items())
    total = sum(len(ratio.paper) for ratio in RATIOS)
    print(f"\nOf the {total} ratios are within 15%, or round to the paper's one digit: {told}.\n")


def _scaled(row: Row, utilisation: float) -> Row:
    """``row`` with another utilisation of the same peak."""
    share = utilisation / row.figures["utilisation"]
    names = ("utilisation", "gflops_per_usd", "gflops_per_watt")
    return row.replace(figures=row.figures | {name: row.figures[name] * share for name in names})


def _with_transfers(row: Row) -> Row:
    """``row`` with all stages' transfers once per batch, as the logs have them: two tensors of tokens x hidden."""
    if (row.labels["workload"], row.labels["chip"]) != ("GPT3 1T", "WSE-2"):
        return row
    batch_s = (row.objective or 0) / 1e12
    return _scaled(row, row.figures["utilisation"] * batch_s / (batch_s + 128 * 2 * 2048 * 25_600 * 2 / 50e9))


def print_tests(runs: list[Row], out: Path, workers: int) -> None:
    """What explains the paper's own means, by trying the other way."""
    half = solved(_RUNS[3], out, workers, 'axes.1.choices.0.set={"system.chip.tiles": 528}')
    rest, fft = runs[:-80], runs[-80:]
    mixed = [
        _scaled(one, two.figures["utilisation"]) if two.labels["network"] == "dragonfly" else one
        for one, two in zip(fft, half, strict=True)
    ]
    once = [_with_transfers(row) for row in runs]
    pairs = [(ratio, figure, paper) for ratio in RATIOS for figure, paper in ratio.paper.items()]
    print("| tried | ratio | of | paper | as in the table | tried |\n|---|---|---|--:|--:|--:|")
    for ratio, figure, paper in pairs:
        as_is, words = value(runs, ratio, figure), f"| {ratio.words} | {figure} | {paper} |"
        if ratio.workload == "GPT3 1T" and "dragonfly" in ratio.words:
            other = value(runs, with_all_chips(ratio), figure)
            print(f"| WSE-2 counted too {words} {shown(as_is)} | {shown(other)} |")
        elif ratio.workload == "GPT3 1T" and ratio.words.startswith("WSE-2"):
            other = value(once, ratio, figure)
            print(f"| transfers once per batch, 0.537 s {words} {shown(as_is)} | {shown(other)} |")
        elif ratio.workload == "FFT 2^40":
            other = value([*rest, *mixed], ratio, figure)
            print(f"| H100's dragonflies with half the tiles {words} {shown(as_is)} | {shown(other)} |")
    number = sum(near(value(runs, ratio, figure, mean) or 0.0, paper) for ratio, figure, paper in pairs)
    print(f"""
With arithmetic means {number} of the {len(pairs)} ratios would be within 15% in the runs' column. The runs of FFT on
H100 in a dragonfly have 528 tiles where all others have 1,056; the paper's efficiencies are then the utilisation of
these times the whole peak.
""")


def print_utilisation(found: list[Row]) -> None:
    """Utilisation in percent of every point (figures 10, 12, 14, 16)."""
    technologies = list(dict.fromkeys(row.labels["technology"] for row in found))
    print("| workload | chip | network | " + " | ".join(technologies) + " |")
    print("|---|---|---|" + "--:|" * len(technologies))
    spots = {tuple(row.labels.values()): row for row in found}
    for workload, chip, network in dict.fromkeys(key[:3] for key in spots):
        line = [spots[workload, chip, network, one].figures.get("utilisation", 0.0) for one in technologies]
        print(f"| {workload} | {chip} | {network} | " + " | ".join(f"{100 * share:.1f}" for share in line) + " |")
    print()


def print_memory(out: Path, workers: int) -> None:
    """Figure 19: dataflow against kernel by kernel, and the ratio of their means."""
    rows = solved("dataflow/sram-dram", out, workers)
    print("| SRAM, MiB | mapping | DRAM 100 GB/s | 300 | 600 |\n|--:|---|--:|--:|--:|")
    found = {tuple(row.labels.values()): row.figures.get("utilisation") for row in rows}
    for sram, mapping in dict.fromkeys(key[:2] for key in found):
        line = [found[sram, mapping, rate] for rate in ("100", "300", "600")]
        cells = " | ".join("no mapping" if one is None else f"{100 * one:.1f}" for one in line)
        print(f"| {sram} | {mapping} | {cells} |")
    plain = [one or 0.0 for key, one in found.items() if key[1] == "kernel by kernel"]
    fused = {key: one for key, one in found.items() if key[1] == "dataflow"}
    mapped = [one for one in fused.values() if one is not None]
    either = [found[key[0], "kernel by kernel", key[2]] or 0.0 if one is None else one for key, one in fused.items()]
    print(f"""
Dataflow over kernel by kernel, arithmetic means (paper: 1.63): {mean(mapped) / mean(plain):.2f} of those that have a
mapping, {mean(either) / mean(plain):.2f} where a chip whose SRAM doesn't hold the weights runs kernel by kernel. A
partition holds its weights whole here, so that there is none for FFN0 on four chips with 150 MiB. The published runs
cut weights into parts; their dataflow utilisations with 150 MiB are 30.8, 44.0 and 59.8%, those kernel by kernel 20.9,
43.8 and 60.5%.
""")


def print_bound(out: Path, workers: int) -> None:
    """Figure 18: what table VI's mappings wait for."""
    rows = solved("dataflow/table6", out, workers)
    parts = ("compute", "memory", "network")
    print("| mapping | FLOP per DRAM byte | per link byte | TFLOP/s a chip | % bound by compute | memory | network |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for row in rows:
        whole = sum(row.figures[f"{part}_bound_s"] for part in parts)
        shares = " | ".join(f"{100 * row.figures[f'{part}_bound_s'] / whole:.0f}" for part in parts)
        rate = row.figures["pflops"] / row.figures["chips"] * 1000
        oi = f"{row.figures['flop_per_dram_byte']:,.0f} | {row.figures['flop_per_link_byte']:,.0f}"
        print(f"| {row.labels['mapping']} | {oi} | {rate:.0f} | {shares} |")
    print(
        "\nThe paper: kernel by kernel memory-bound, the vendor's less so, 8 x 1 network-bound, 4 x 2 compute-bound.\n"
    )


def print_stacked(out: Path, workers: int) -> None:
    """Figure 22: PFLOP/s by the share of a chip that computes."""
    print("| mode | memory | 20% | 30% | 40% | 50% | 60% | 70% | 80% | best |\n|---|---|" + "--:|" * 8)
    for mode in ("dfmodel", "physical"):
        rows = solved("dataflow/3d-memory", out, workers, f"parameters.mode={mode}")
        for memory in dict.fromkeys(row.labels["memory"] for row in rows):
            own = {row.labels["compute"]: row.figures["pflops"] for row in rows if row.labels["memory"] == memory}
            line = " | ".join(f"{one:.0f}" for one in own.values())
            print(f"| `{mode}` | {memory} | {line} | {max(own, key=lambda share: own[share])} |")
    print("""
The paper: 2D DDR needs more SRAM, HBM is best balanced, 3D memory with more compute. So it is in mode `physical`, where
weights are read from DRAM, but that links of 900 GB/s hold 3D memory back; in mode `dfmodel` SRAM saves tensors alone.
""")


def main() -> int:
    """Print the page; 1 unless every point is proved."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the folder of the matrix")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    rows = {
        column: [row for name, settings in sweeps for row in solved(name, args.out, args.workers, *settings)]
        for column, sweeps in COLUMNS.items()
    }
    print("# Design-space exploration: 80 systems, four workloads\n")
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} cores. The sweeps and their columns: docs/sweeps.md.\n"
    )
    print_points(rows)
    print("## Ratios of the paper's text\n" + LEGEND)
    print_ratios(rows)
    print(REMARKS.strip() + "\n\n## The paper's means\n")
    print_tests(rows["runs"], args.out, args.workers)
    print("## Hierarchical roofline (figure 18)\n")
    print_bound(args.out, args.workers)
    print("## SRAM and DRAM (figure 19), utilisation in percent\n")
    print_memory(args.out, args.workers)
    print("## Compute against SRAM (figure 22), PFLOP/s\n")
    print_stacked(args.out, args.workers)
    for column in ("runs", "`dfmodel`"):
        print(f"## Utilisation in percent, {column}\n")
        print_utilisation(rows[column])
    return int(any(row.status != "optimal" for found in rows.values() for row in found))


if __name__ == "__main__":
    raise SystemExit(main())
