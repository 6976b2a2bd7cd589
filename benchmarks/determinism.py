"""Whether `--deterministic` gives the same archive: every method twice, with other hash seeds, in other folders.

    python -m benchmarks.determinism [--families ring wafer] [--out benchmarks/results/determinism.md]

Two runs of `chipmap solve --deterministic --seed 1 --out DIR` differ in PYTHONHASHSEED, the working directory and the
folder of the archive. Their archives must be equal byte for byte, but for seconds (`timings`, times of bounds and of
the trace), what solvers say of themselves (`solver.log`), and versions and sizes (`environment.json`).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import chipmap
from chipmap.family import FAMILY_NAMES, get_family

ROOT = Path(__file__).parents[1]
SMALL = {
    "ring": "ring/random-12",
    "dataflow": "dataflow/tiny-phases",
    "wafer": "wafer/ispd2020-A",
    "multimodel": "multimodel/tiny-two",
    "placement": "placement/tiny-bus",
}
#: Instances of methods that the family's small one isn't for.
OTHERS = {"wafer/mip": "wafer/tiny-block", "wafer/cpsat": "wafer/tiny-block", "wafer/exact": "wafer/tiny-block"}
OTHERS |= {"placement/ideals": "placement/tiny-throughput"}
_SECONDS = frozenset({"seconds", "timings", "cpu_seconds", "machine", "command"})


def main() -> int:
    """Run everything and write the table; 1 if two archives differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="*", default=FAMILY_NAMES, choices=FAMILY_NAMES)
    parser.add_argument("--time-limit", type=float, default=600.0)
    parser.add_argument("--out", type=Path, help="the table to write (default: print it)")
    args = parser.parse_args()
    load, lines, wrong = os.getloadavg()[0], list[str](), 0
    for family in args.families:
        for method in get_family(family).methods:
            instance = OTHERS.get(method.name, SMALL[family])
            said = compared(instance, method.name, args.time_limit)
            wrong += said.startswith("differ")
            lines.append(f"| {method.name} | {instance} | {said} |\n")
            print(lines[-1].strip(), file=sys.stderr, flush=True)
    text = (
        "# Determinism\n\n"
        f"Made by `python -m benchmarks.determinism` on {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"chipmap {chipmap.__version__}, at a load of {load:.0f} before and {os.getloadavg()[0]:.0f} after: two runs "
        "with `--deterministic`, other PYTHONHASHSEED and other working directory. Archives are compared byte for "
        "byte, but for seconds, `solver.log`, and the versions and sizes in `environment.json`.\n\n"
        "| method | instance | archives |\n| --- | --- | --- |\n"
    ) + "".join(lines)
    if args.out:
        args.out.write_text(text)
    print(text)
    return int(wrong > 0)


def compared(instance: str, method: str, limit: float) -> str:
    """``equal`` with the status, why there is nothing to compare, or what differs."""
    with tempfile.TemporaryDirectory() as name:
        folders, codes = [Path(name) / "one", Path(name) / "the other"], []
        for number, folder in enumerate(folders):
            folder.mkdir()
            command = [sys.executable, "-m", "chipmap", "solve", instance, "--method", method, "--deterministic"]
            command += ["--seed", "1", "--time-limit", f"{limit:g}", "--out", str(folder / "run"), "--quiet"]
            env = {**os.environ, "PYTHONHASHSEED": str(17 + number), "PYTHONPATH": str(ROOT)}
            done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
            codes.append(done.returncode)
            if not (folder / "run").exists():
                return f"no archive: {done.stderr.strip().splitlines()[0] if done.stderr else done.returncode}"
        results = [chipmap.load(folder / "run").result for folder in folders]
        if any(not one.provenance["reproducible"] for one in results):
            return "not compared: the time limit fired, and the result says so"
        one, other = ({path.name: read(path) for path in (folder / "run").iterdir()} for folder in folders)
        wrong = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
        if wrong or codes[0] != codes[1]:
            return f"differ in {', '.join(wrong) or 'their exit codes'}"
        return f"equal ({results[0].status}, {len(one)} files)"


def read(path: Path) -> Any:
    """The content that must be equal."""
    if path.name in ("solver.log", "environment.json"):
        return None
    if path.name == "trace.csv":
        return [line.split(",", 1)[1] for line in path.read_text().splitlines()]
    return timeless(json.loads(path.read_text())) if path.name == "result.json" else path.read_bytes()


def timeless(value: Any) -> Any:
    """A result without its seconds."""
    if isinstance(value, dict):
        return {key: timeless(one) for key, one in value.items() if key not in _SECONDS}
    return [timeless(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
