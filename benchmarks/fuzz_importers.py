"""Mutated files for every reader: each is read, or refused in words; never a traceback, a hang or much memory.

    python -m benchmarks.fuzz_importers [--files 100000] [--formats traced onnx] [--markdown FILE]

Even seeds change bytes, odd ones change values so that the file mostly still parses. The files are read in a child
process whose address space may grow by 1 GiB, and an alarm ends it after five seconds on one file; a child that dies is
started again at the next seed. Formats of family placement must be asked for: its instances are solved as well, with a
limit of a second, and its solutions checked.
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
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from chipmap.instances.ring.from_graph import from_graph
from chipmap.networks.importers.reading import FORMATS as GRAPHS
from chipmap.networks.importers.reading import import_graph
from chipmap.records import InputError
from tests.instances.mutations import mutated_bytes, mutated_structure
from tests.instances.programs import ONNX_CONTROL
from tests.instances.samples import SAMPLES as GRAPH_SAMPLES
from tests.placement.samples import FORMATS as PLACEMENT
from tests.wafer.samples import FORMATS as WAFER

#: A file of each format of graphs (of ONNX a second one, with control flow).
SAMPLES = {**GRAPH_SAMPLES, "onnx-control": ONNX_CONTROL}
FORMATS = (*GRAPHS, "onnx-control", *WAFER)
SECONDS = 5
ROOM = 2**30
COUNTS = ("accepted", "refused", "tracebacks", "over memory", "hangs", "deaths")
_PACK = struct.Struct("q" * (1 + len(COUNTS)))


def main() -> int:
    """Run the formats one after the other; 1 if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000, help="mutated files of each format")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--formats", nargs="*", default=list(FORMATS), choices=[*FORMATS, *PLACEMENT])
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
    data, read = sample(name)
    try_one(read, data)  # all imports, before memory is limited
    try_one(read, mutated_structure(data, Random(0)))
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    counts = dict.fromkeys(COUNTS, 0)
    with state.open("r+b", buffering=0) as out:
        for seed in range(first, first + files):
            out.seek(0)
            out.write(_PACK.pack(seed, *counts.values()))
            file = mutant(name, data, seed)
            signal.alarm(SECONDS)
            what, said = try_one(read, file)
            signal.alarm(0)
            counts[what] += 1
            if what not in ("accepted", "refused"):
                print(f"{name}: seed {seed}: {what}\n{said}", file=sys.stderr, flush=True)
        out.seek(0)
        out.write(_PACK.pack(first + files - 1, *counts.values()))
    return 0


def sample(name: str) -> tuple[bytes, Callable[[bytes], object]]:
    """A file of a format, and what reads it."""
    if name in PLACEMENT:
        return PLACEMENT[name]()
    return WAFER[name] if name in WAFER else (SAMPLES[name], read_graph)


def read_graph(data: bytes) -> None:
    """Read a graph and make an instance of it."""
    from_graph(import_graph("mutated.file", data), "mutated").graph.check()


def mutant(name: str, data: bytes, seed: int) -> bytes:
    """The mutated file of a seed."""
    change = mutated_structure if seed % 2 else mutated_bytes
    return change(data, Random(f"{name} {seed}"))


def try_one(read: Callable[[bytes], object], data: bytes) -> tuple[str, str]:
    """What becomes of a file: one of ``COUNTS``, and what was said."""
    try:
        read(data)
    except InputError as error:
        return ("refused", str(error)) if error.remedy else ("tracebacks", f"no remedy: {error}")
    except MemoryError:
        return "over memory", ""
    except Exception:
        return "tracebacks", traceback.format_exc()
    return "accepted", ""


if __name__ == "__main__":
    sys.exit(main())
