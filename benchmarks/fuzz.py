"""Mutated input of every kind: each is read, or refused in words; never a traceback, a hang or much memory.

    python -m benchmarks.fuzz [--mutants 100000] [--formats instance set] [--excess] [--kept FILE] [--markdown FILE]

Mutant number n of a format is made with the seed "format n" from one of its samples (:mod:`benchmarks.fuzz_formats`):
bytes are changed, values are changed so that the file mostly still parses, or values become hostile ones. With
``--excess`` they exaggerate instead (:mod:`tests.instances.excess`): banners, long tokens, nested quotes and brackets,
huge numbers, odd characters, bombs. Mutants are read in a child process whose address space may grow by 1 GiB, and
which is ended after five seconds of CPU on one of them; a child that dies is started again at the next one. What is
done stands in ``--kept`` (by default ``benchmarks/results/fuzz.json`` or ``fuzz-excess.json``), and the same command
goes on from there.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import chipmap
from benchmarks.fuzz_formats import FORMATS as FILES
from benchmarks.fuzz_formats import Format, hostile
from benchmarks.fuzz_graphs import FORMATS as GRAPHS
from benchmarks.fuzz_importers import COUNTS, ROOM, SECONDS, try_one
from tests.instances.excess import excessive
from tests.instances.mutations import mutated_bytes, mutated_structure

RESULTS = Path(__file__).parent / "results"
FORMATS = GRAPHS | FILES
#: Mutants that one child reads: what it has leaked then is gone.
BATCH = 5_000
WRONG = COUNTS[2:]


def main() -> int:
    """Go on with each format, and write the table; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=100_000, help="of each format")
    parser.add_argument("--formats", nargs="*", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--excess", action="store_true", help="mutations that exaggerate")
    parser.add_argument("--kept", type=Path, help="what is done so far")
    parser.add_argument("--markdown", type=Path, help="the table to write (default: print it)")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.kept = args.kept or RESULTS / ("fuzz-excess.json" if args.excess else "fuzz.json")
    if args.child:
        span = range(int(args.child[1]), args.mutants)
        return child(args.child[0], span, args.excess, args.kept, Path(args.child[2]))
    kept: dict[str, dict[str, Any]] = json.loads(args.kept.read_text()) if args.kept.exists() else {}
    for name in args.formats:
        go_on(name, kept, args.mutants, args.kept, args.excess)
    text = table(kept, args.excess)
    if args.markdown:
        args.markdown.write_text(text)
    print(text)
    return int(any(row[what] for row in kept.values() for what in WRONG))


def go_on(name: str, kept: dict[str, dict[str, Any]], mutants: int, file: Path, excess: bool) -> None:
    """Read the mutants of a format that are left, a child for each batch, and keep what each batch comes to."""
    row = kept.setdefault(name, {"mutants": 0, **dict.fromkeys(COUNTS, 0), "seconds": 0.0, "MiB": 0, "defects": []})
    while row["mutants"] < mutants:
        end = min(mutants, (row["mutants"] // BATCH + 1) * BATCH)
        with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
            state = Path(folder) / "state.json"
            command = [sys.executable, "-m", "benchmarks.fuzz", "--mutants", str(end), "--kept", str(state)]
            command += ["--excess"] if excess else []
            done = subprocess.run([*command, "--child", name, str(row["mutants"]), folder])
            if not state.exists():
                raise SystemExit(f"{name}: the child ended with {done.returncode} before its first mutant")
            seen = json.loads(state.read_text())
        for what in COUNTS:
            row[what] += seen[what]
        row["seconds"], row["MiB"] = max(row["seconds"], seen["seconds"]), max(row["MiB"], seen["MiB"])
        row["defects"] += seen["defects"]
        row["mutants"] = seen["next"]
        if done.returncode:
            what = "hangs" if done.returncode in (-signal.SIGPROF, -signal.SIGALRM) else "deaths"
            row[what] += 1
            row["defects"].append(f"{seen['next']}: {what}: the child ended with {done.returncode}")
            row["mutants"] += 1
        if not row["defects"]:
            row["chipmap"] = chipmap.__version__
        file.write_text(json.dumps(kept, indent=1) + "\n")


def child(name: str, span: range, excess: bool, state: Path, folder: Path) -> int:
    """Read the mutants of ``span``; ``state`` holds the counts up to the one in work."""
    made = FORMATS[name](folder)
    for number, sample in enumerate(made.samples):  # all imports and functions, before memory is limited
        what, said = try_one(partial(made.read, number), sample)
        if what != "accepted":
            raise SystemExit(f"{name}: its sample {number} is not accepted: {said}")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen: dict[str, Any] = {**dict.fromkeys(COUNTS, 0), "seconds": 0.0, "MiB": 0, "defects": [], "next": span.start}
    for n in span:
        seen["next"] = n
        number, data = mutant(name, made, n, excess)
        state.write_text(json.dumps(seen))  # it may end the process
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of CPU: a busy machine makes no hang
        signal.alarm(30 * SECONDS)
        what, said = try_one(partial(made.read, number), data)
        signal.alarm(0)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        seen["seconds"] = max(seen["seconds"], round(time.process_time() - began, 2))
        seen["MiB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
        seen[what] += 1
        if what in WRONG:
            seen["defects"] = [*seen["defects"], f"{n}: {what}: {said.strip().splitlines()[-1] if said else ''}"][:20]
            print(f"{name} {n}: {what}\n{said}", file=sys.stderr, flush=True)
    state.write_text(json.dumps({**seen, "next": span.stop}))
    return 0


def mutant(name: str, made: Format, n: int, excess: bool = False) -> tuple[int, bytes]:
    """Mutant number n: the number of its sample, and its content."""
    random = Random(f"{name} {'excess ' if excess else ''}{n}")
    number = n % len(made.samples)
    data = made.samples[number]
    if excess:
        return number, excessive(data, random)
    binary = data.startswith(b"SQLite")
    change = mutated_bytes if binary else (mutated_bytes, mutated_structure, hostile)[n // len(made.samples) % 3]
    return number, change(data, random)


def table(kept: dict[str, dict[str, Any]], excess: bool) -> str:
    """The rows in Markdown, and what went wrong."""
    columns = ("format", "mutants", *COUNTS, "worst CPU s", "worst MiB")
    title, option = ("Exaggerated", " --excess") if excess else ("Mutated", "")
    lines = [
        f"# {title} input\n",
        f"Made by `python -m benchmarks.fuzz{option}`. Every mutant is read as the commands read it: accepted, or "
        f"refused with a message and a remedy. At most {SECONDS} s of CPU and 1 GiB beyond the start for one of them. "
        "`deaths`: the process ended by another signal. The last columns: the longest that one mutant took, and how "
        "much a process grew while it read its thousands. A generator's mutant may ask for much work (1,000 layers of "
        "BERT are 75,036 operations, five to seven seconds): that counts as a hang.\n",
        "| " + " | ".join(columns) + " |",
        "| --- |" + " --: |" * (len(columns) - 1),
    ]
    for name, row in kept.items():
        cells = [name, row["mutants"], *(row[what] for what in COUNTS), row["seconds"], row["MiB"]]
        lines.append("| " + " | ".join(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells) + " |")
    wrong = [f"- {name}, mutant {text}" for name, row in kept.items() for text in row["defects"]]
    return "\n".join([*lines, *(["", "What went wrong:", "", *wrong] if wrong else [])]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
