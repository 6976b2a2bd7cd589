"""The paper's two passes, one after the other, beside the joint optimum on shipped instances with their sharding free.

    python benchmarks/dataflow_two_pass.py [--markdown] [--time-limit 60]

The first pass (inter-chip, section IV) settles degrees, sharding and stages by equation 7, then by the least time in
the network; the second one (intra-chip, section V) partitions what each chip has. Exit code 1 where a joint optimum
isn't proved, or is longer than what the two passes find.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Instance and what of its task is set otherwise.
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("table6-free-8x1", "GPT3 175B, a layer, 8 in a ring", {"schemes": {}}),
    ("table6-free-8x1", "the same, exactly 4 partitions", {"schemes": {}, "exactly": True}),
    ("table6-free-4x2", "4 x 2 torus", {"schemes": {}}),
    ("gpt3-1t-sn30-1024", "GPT3 1T, both directions, 8 x 128", {"schemes": {}}),
    ("gpt3-175b-12-layers-8x5", "12 layers in five stages of kernels", {}),
    ("gpt3-175b-12-layers-8x5", "the same, schemes free", {"schemes": {}}),
    ("resnet50-8", "ResNet-50 on eight chips", {}),
)
MODES = ("dfmodel", "physical")


def solved(name: str, mode: str, task: dict[str, Any], method: str, limit: float) -> tuple[Any, float]:
    """The result of a method and its CPU seconds."""
    from chipmap.inputs.reading import read
    from chipmap.run import SolveOptions
    from chipmap.solve import solve

    instance: Any = read(f"dataflow/{name}")
    instance = instance.replace(mode=mode, task=instance.task.replace(**task))
    began = time.process_time()
    result = solve(instance, method, SolveOptions.make(warm_start="none", threads=1, time_limit=limit), isolate=False)
    return result, time.process_time() - began


def compare(name: str, what: str, mode: str, task: dict[str, Any], limit: float) -> tuple[str, bool]:
    """A line of the table, and whether the joint optimum is proved and no longer than the two passes' batch."""
    joint, spent = solved(name, mode, task, "dataflow/auto", limit)
    passes, other = solved(name, mode, task, "dataflow/two-pass", limit)
    sound = joint.status == "optimal" and (passes.objective is None or joint.objective <= passes.objective)
    best = f"{joint.objective * 1e-12:.6f}" if joint.objective is not None else "none"
    two = f"{passes.objective * 1e-12:.6f}" if passes.objective is not None else "none fits"
    if passes.objective is None and passes.termination.limit == "time":
        two = "none in time"
    longer = f"{100 * (passes.objective / joint.objective - 1):.4f} %" if passes.objective and joint.objective else ""
    return f"| `{name}` | {what} | {mode} | {best} | {two} | {longer} | {spent:.2f} | {other:.2f} |", sound


def main() -> int:
    """Print the table; 1 if a joint optimum isn't proved or not the least."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--time-limit", type=float, default=60.0)
    args = parser.parse_args()
    if args.markdown:
        version = f"Python {platform.python_version()}, {platform.machine()}"
        print("# The two passes beside the joint optimum\n")
        print(
            f"`python benchmarks/dataflow_two_pass.py --markdown`, {version}, one thread, {args.time_limit:g} s each.\n"
        )
    print("| instance | what | mode | joint optimum, s | two passes, s | longer by | CPU s, joint | CPU s, passes |")
    print("|---|---|---|--:|--:|--:|--:|--:|", flush=True)
    failed = 0
    for name, what, task in CASES:
        for mode in MODES:
            line, sound = compare(name, what, mode, task, args.time_limit)
            failed += not sound
            print(line if sound else f"{line} NOT SOUND", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
