"""Mutated files for every reader: each is read, or refused in words; never a traceback, a hang or much memory.

    python -m benchmarks.fuzz_importers [--files 100000] [--formats traced onnx] [--markdown FILE]

Even seeds change bytes, odd ones change values so that the file mostly still parses. The files are read in a child
process whose address space may grow by 1 GiB, and an alarm ends it after ten seconds on one file; a child that dies is
started again at the next seed.
"""

from __future__ import annotations

import argparse
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

from chipmap.instances.importers import FORMATS as GRAPHS
from chipmap.instances.importers import import_graph
from chipmap.instances.ring.from_graph import from_graph
from chipmap.records import InputError
from tests.instances.mutations import mutated_bytes, mutated_structure
from tests.instances.programs import ONNX_CONTROL
from tests.instances.samples import SAMPLES as GRAPH_SAMPLES
from tests.wafer.samples import FORMATS as WAFER

#: A file of each format: those of graphs (of ONNX a second one, with control flow), and those of family wafer.
SAMPLES = {**GRAPH_SAMPLES, "onnx-control": ONNX_CONTROL, **{name: data for name, (data, _) in WAFER.items()}}
FORMATS = (*GRAPHS, "onnx-control", *WAFER)
SECONDS = 10
ROOM = 2**30
COUNTS = ("accepted", "refused", "tracebacks", "over memory", "hangs", "deaths")
_PACK = struct.Struct("q" * (1 + len(COUNTS)))


def main() -> int:
    """Run the formats one after the other; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000, help="mutated files of each format")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--formats", nargs="*", default=list(FORMATS), choices=list(FORMATS))
    parser.add_argument("--markdown", type=Path, help="the table to write (default: print it)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.formats[0], args.first, args.files, Path(args.child))
    rows = [parent(name, args.first, args.files) for name in args.formats]
    text = table(rows)
    if args.markdown:
        args.markdown.write_text(text)
    print(text)
    return int(any(row[what] for row in rows for what in COUNTS[2:]))


def table(rows: list[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    columns = ("format", "files", *COUNTS, "files/s")
    head = (
        "# Mutated files\n\nMade by `python -m benchmarks.fuzz_importers`. Even seeds change bytes, odd seeds values; "
        f"{SECONDS} s and 1 GiB beyond the start for each file. `deaths`: the process ended by another signal.\n\n"
    )
    lines = ["| " + " | ".join(columns) + " |", "| --- |" + " --: |" * (len(columns) - 1)]
    lines += ["| " + " | ".join(str(row[column]) for column in columns) + " |" for row in rows]
    return head + "\n".join(lines) + "\n"


def parent(name: str, first: int, files: int) -> dict[str, Any]:
    """All files of a format, in as many children as it takes."""
    began = time.monotonic()
    total = dict.fromkeys(COUNTS, 0)
    seed, end = first, first + files
    while seed < end:
        with tempfile.NamedTemporaryFile() as state:
            command = [sys.executable, "-m", "benchmarks.fuzz_importers", "--child", state.name, "--formats", name]
            done = subprocess.run([*command, "--first", str(seed), "--files", str(end - seed)])
            content = Path(state.name).read_bytes()
        if len(content) != _PACK.size:
            raise SystemExit(f"{name}: the child ended with {done.returncode} before its first file")
        last, *counts = _PACK.unpack(content)
        for what, count in zip(COUNTS, counts, strict=True):
            total[what] += count
        if done.returncode:
            what = "hangs" if done.returncode == -signal.SIGALRM else "deaths"
            total[what] += 1
            print(f"{name}: seed {last}: child ended with {done.returncode}", file=sys.stderr)
        seed = last + 1
    seconds = time.monotonic() - began
    return {"format": name, "files": files, **total, "files/s": round(files / seconds)}


def child(name: str, first: int, files: int, state: Path) -> int:
    """Read the files of these seeds; ``state`` always holds the seed in work and the counts so far."""
    try_one(name, SAMPLES[name])  # all imports, before memory is limited
    try_one(name, mutated_structure(SAMPLES[name], Random(0)))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    counts = dict.fromkeys(COUNTS, 0)
    with state.open("r+b", buffering=0) as out:
        for seed in range(first, first + files):
            out.seek(0)
            out.write(_PACK.pack(seed, *counts.values()))
            data = mutant(name, seed)
            signal.alarm(SECONDS)
            what, said = try_one(name, data)
            signal.alarm(0)
            counts[what] += 1
            if what not in ("accepted", "refused"):
                print(f"{name}: seed {seed}: {what}\n{said}", file=sys.stderr, flush=True)
        out.seek(0)
        out.write(_PACK.pack(first + files - 1, *counts.values()))
    return 0


def mutant(name: str, seed: int) -> bytes:
    """The mutated file of a seed."""
    change = mutated_structure if seed % 2 else mutated_bytes
    return change(SAMPLES[name], Random(f"{name} {seed}"))


def try_one(name: str, data: bytes) -> tuple[str, str]:
    """What becomes of a file: one of ``COUNTS``, and what was said."""
    try:
        if name in WAFER:
            WAFER[name][1](data)
        else:
            from_graph(import_graph("mutated.file", data), "mutated").graph.check()
    except InputError as error:
        return ("refused", str(error)) if error.remedy else ("tracebacks", f"no remedy: {error}")
    except MemoryError:
        return "over memory", ""
    except Exception:
        return "tracebacks", traceback.format_exc()
    return "accepted", ""


if __name__ == "__main__":
    sys.exit(main())
