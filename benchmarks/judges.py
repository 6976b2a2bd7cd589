"""Every test that needs PyTorch, transformers, accelerate, ONNX, ONNX Runtime, JAX, pandas or Dask, and its findings.

    make judges                                  installs them into .judges, then runs this with that Python
    python -m benchmarks.judges [--packages torch jax] [--out FILE]

``tests/needs.py`` says which tests these are. Each file runs in a process of its own, those first that ``make test``
can't run. Tests say figures of their own with ``record_property``. The table is rewritten after each file, so that what
has run is kept.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.needs import needing

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("torch", "transformers", "accelerate", "onnx", "onnxruntime", "jax", "pandas", "distributed")
#: Those that ``make test`` has as well.
THERE = {"onnx"}
OUT = ROOT / "benchmarks" / "results" / "judges.md"


@dataclass
class Ran:
    """What the tests of a file came to: counts by outcome, names of those that failed, figures, and CPU seconds."""

    counts: Counter[str]
    failed: list[str]
    figures: list[str]
    seconds: float


def main() -> int:
    """Run all and write the table; 1 if a test failed or was skipped for want of a package."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", nargs="*", default=PACKAGES, choices=PACKAGES)
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    files, needs = defaultdict[str, list[str]](list), defaultdict[str, set[str]](set)
    for test, wanted in needing(set(args.packages)).items():
        files[test.partition("::")[0]].append(test)
        needs[test.partition("::")[0]] |= wanted
    began, load, found = time.monotonic(), os.getloadavg()[0], dict[str, Ran]()
    # first what compares chipmap with others, then what uses torch itself, then what make test runs as well
    for file in sorted(files, key=lambda file: (needs[file] <= THERE, "/learned/" in file, "/docs/" in file)):
        found[file] = run(files[file])
        print(f"{file}: {said(found[file].counts)}, {found[file].seconds:.0f} CPU s", flush=True)
        for name in found[file].failed:
            print(f"  failed: {name}", flush=True)
        args.out.write_text(table(found, needs, args.packages, time.monotonic() - began, load), encoding="utf-8")
    missing = [name for name in args.packages if not held(name)]
    if missing:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
    return int(bool(missing) or any(one.failed for one in found.values()))


def run(tests: list[str]) -> Ran:
    """Run these tests in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        report, before = Path(folder) / "report.xml", resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junit-xml={report}", *tests]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if not report.exists():
            return Ran(
                Counter(failed=1), [done.stderr.strip()[-300:] or f"pytest ended with {done.returncode}"], [], seconds
            )
        cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    counts, failed, figures = Counter[str](), list[str](), dict[str, None]()
    for case in cases:
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        counts[outcome] += 1
        failed += [case.get("name", "?")] if outcome == "failed" else []
        figures |= {f"{one.get('name')}: {one.get('value')}": None for one in case.iter("property")}
    return Ran(counts, failed, list(figures), seconds)


def said(counts: Counter[str]) -> str:
    """``12 passed, 1 failed``."""
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped") if counts[outcome])


def commit() -> str:
    """The commit that the tests are of."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip() or "an unknown commit"


def held(package: str) -> str:
    """The installed version; "" without the package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def about(file: str) -> str:
    """The first sentence of a file's docstring."""
    text = (ROOT / file).read_text(encoding="utf-8").partition('"""')[2].partition('"""')[0]
    return " ".join(text.split("\n\n")[0].split())


def table(found: dict[str, Ran], needs: dict[str, set[str]], packages: list[str], seconds: float, load: float) -> str:
    """The page."""
    total = sum((one.counts for one in found.values()), Counter[str]())
    cpu = sum(one.seconds for one in found.values())
    versions = ", ".join(f"{name} {held(name) or 'missing'}" for name in packages)
    text = (
        "# Judges\n\n"
        f"Made by `make judges` at {commit()}: every test that needs one of these packages, in an environment that has "
        f"them all. {versions}; Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.0f} at the "
        f"start.\n\n{said(total)} in {len(found)} of {len(needs)} files; {cpu:,.0f} CPU s, {seconds:,.0f} s.\n\n"
        "| tests | what they compare | needs | outcome | CPU s |\n| --- | --- | --- | --- | --: |\n"
    )
    for file, one in found.items():
        wanted = ", ".join(name for name in PACKAGES if name in needs[file])
        text += (
            f"| `{file.removeprefix('tests/')}` | {about(file)} | {wanted} | {said(one.counts)} | {one.seconds:.0f} |\n"
        )
    figures = [
        f"- `{file.removeprefix('tests/')}`: {figure}\n" for file, one in found.items() for figure in one.figures
    ]
    text += "\n## Figures\n" + "".join(figures) if figures else ""
    failed = [f"- `{file}`: {name}\n" for file, one in found.items() for name in one.failed]
    return text + ("\n## Failed\n" + "".join(failed) if failed else "")


if __name__ == "__main__":
    sys.exit(main())
