"""Training steps that nobody tuned to: baselines, search, bound and gap of twelve other sizes of the networks.

    python -m benchmarks.placement_unseen [--limit SECONDS] [--threads N] [--rows FILE] [--table] [--instances NAME ...]

Sizes, widths, batches and numbers of devices are those of no shipped instance and of no development run: they were
written down before the first run. Columns and FILE are those of ``benchmarks.placement_workloads``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.placement_workloads import table
from chipmap.instances.placement.generators import training_step
from chipmap.instances.placement.instance import PlacementInstance

#: name -> (network, its parameters, devices).
UNSEEN: dict[str, tuple[str, dict[str, int], int]] = {
    "rnnlm-3": ("rnnlm", {"layers": 3, "steps": 24, "hidden": 1536, "batch": 32}, 3),
    "rnnlm-6": ("rnnlm", {"layers": 6, "steps": 20, "batch": 128}, 6),
    "gnmt-3": ("gnmt", {"layers": 3, "steps": 25, "hidden": 768}, 3),
    "gnmt-6": ("gnmt", {"layers": 6, "steps": 30, "batch": 32}, 5),
    "transformer-xl-3": ("transformer-xl", {"layers": 3, "segments": 5, "length": 192}, 3),
    "transformer-xl-6": ("transformer-xl", {"layers": 6, "segments": 3, "hidden": 768, "batch": 16}, 6),
    "wavenet-3": ("wavenet", {"stacks": 3, "layers": 24, "channels": 96}, 3),
    "wavenet-wide": ("wavenet", {"stacks": 2, "layers": 30, "channels": 192}, 4),
    "inception-3": ("inception", {"batch": 48}, 3),
    "inception-4": ("inception", {"batch": 24, "repeats": 2}, 4),
    "amoebanet-3": ("amoebanet", {"cells": 15, "batch": 24}, 3),
    "amoebanet-6": ("amoebanet", {"cells": 24, "width": 96}, 6),
}
LINKS = ("pcie", "nvlink")


def made(name: str) -> PlacementInstance:
    """The instance of a name and its kind of links, as ``gnmt-3-pcie``."""
    size, _, links = name.rpartition("-")
    network, parameters, devices = UNSEEN[size]
    return training_step(network, {**parameters}, devices, f"p100-{links}", saved="operands", name=name)


def main() -> None:
    """Make the rows that are missing, then print the table."""
    names = [f"{name}-{links}" for name in UNSEEN for links in LINKS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each workload")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rows", type=Path, help="a file of rows, which is gone on with")
    parser.add_argument("--table", action="store_true", help="make nothing, print what FILE has")
    parser.add_argument("--instances", nargs="+", default=names, choices=names, metavar="NAME", help=" ".join(names))
    arguments = parser.parse_args()
    table(arguments.instances, None if arguments.table else made, arguments.rows, arguments.limit, arguments.threads)


if __name__ == "__main__":
    main()
