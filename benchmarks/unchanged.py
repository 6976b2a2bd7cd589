"""Does a family still say what it said? Results of its shipped instances now, and at an earlier commit.

Every shipped instance whose name holds one of ``--only`` is solved deterministically at both, the tiny ones by each
method that both have, the others by the best chain. Results with their certificates are compared as JSON, but for
seconds, times, versions and provenance. Runs ended by a limit in seconds say so themselves (not reproducible); they
are counted apart. Exit code 1 where anything else differs.

    python benchmarks/unchanged.py COMMIT [--only ring/ dataflow/ wafer/] [--time-limit 20]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Keys whose values may differ between two runs of the same program.
VARIES = ("seconds", "timings", "provenance", "versions", "log")
#: What a run says that a limit in seconds has ended.
LIMITED = "not reproducible"


def plain(value: Any) -> Any:
    """JSON without what may vary."""
    if isinstance(value, dict):
        kept = {key: one for key, one in value.items() if key not in VARIES and not key.endswith("_seconds")}
        return {key: plain(one) for key, one in kept.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def dump(only: list[str], limit: float) -> None:
    """Solve, and print a line of JSON per result: [instance, method, result]. Runs with either commit's package."""
    import chipmap
    from chipmap.inputs.reading import shipped_names

    for name in shipped_names():
        if not any(part in name for part in only):
            continue
        family = chipmap.get_family(name.partition("/")[0])
        methods = [one.name for one in family.methods] if "/tiny-" in name else [family.default_method]
        for method in methods:
            options = chipmap.SolveOptions(deterministic=True, threads=1, time_limit=limit, seed=1)
            try:
                result: Any = json.loads(chipmap.solve(name, method, options).to_json())
            except chipmap.ChipmapError as error:
                result = {"refused": str(error)}
            print(json.dumps([name, method, plain(result)]), flush=True)


def solved(tree: Path, only: list[str], limit: float) -> dict[tuple[str, str], Any]:
    """The results of the package in ``tree``."""
    command = [sys.executable, __file__, "--dump", "--only", *only, "--time-limit", str(limit)]
    environment = os.environ | {"PYTHONPATH": str(tree)}
    done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    lines = (json.loads(line) for line in done.stdout.splitlines())
    return {(name, method): result for name, method, result in lines}


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        found = [f"{where}.{key} is new" for key in other.keys() - one.keys()]
        found += [f"{where}.{key} is gone" for key in one.keys() - other.keys()]
        for key in one.keys() & other.keys():
            found += differences(one[key], other[key], f"{where}.{key}")
        return sorted(found)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            text for i, pair in enumerate(zip(one, other, strict=True)) for text in differences(*pair, f"{where}[{i}]")
        ]
    return [] if one == other else [f"{where}: {json.dumps(one)[:80]} -> {json.dumps(other)[:80]}"]


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--only", nargs="+", default=["ring/", "dataflow/", "wafer/"])
    parser.add_argument("--time-limit", type=float, default=20.0)
    parser.add_argument("--dump", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.dump:
        dump(args.only, args.time_limit)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        subprocess.run(["git", "worktree", "add", "--detach", str(tree), args.commit], cwd=ROOT, check=True)
        try:
            before = solved(tree, args.only, args.time_limit)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    now = solved(ROOT, args.only, args.time_limit)
    same = changed = limited = 0
    for key in before.keys() & now.keys():
        pair = before[key], now[key]
        if any(LIMITED in json.dumps(one) for one in pair):
            limited += 1
            print(f"{' '.join(key)}: a limit in seconds ended it")
        elif found := differences(*pair):
            changed += 1
            print(f"{' '.join(key)}: {'; '.join(found[:6])}")
        else:
            same += 1
    print(f"{same} results are equal, {changed} differ, {limited} were ended by a limit in seconds;")
    print(f"{len(before.keys() - now.keys())} are gone, {len(now.keys() - before.keys())} new.")
    return int(changed > 0)


if __name__ == "__main__":
    raise SystemExit(main())
