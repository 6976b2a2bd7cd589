"""Full disks and broken files, for :mod:`benchmarks.robustness`: under an archive, a sweep, compiled functions.

The disks that fill up are small tmpfs mounts where mounting is allowed, else a limit on the size of files.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import chipmap
from benchmarks import robustness_kills as kills
from benchmarks.robustness_runs import SOLVES, Line, readable, row_of, solve, valid, workplace

#: KiB that a full disk still has, under an archive and under a sweep.
ROOMS, SWEEP_ROOMS = (0, 4, 16, 40, 80), (4, 16, 28, 40)


def full_disks() -> Line:
    """The disk fills up at several sizes: one message, the earlier archive whole, the solution on standard output."""
    good, kinds = 0, set()
    instance, _ = SOLVES[1]
    solution_type = chipmap.family.resolve(chipmap.get_family("ring").solution)
    with workplace() as folder:
        row_of("ring/resnet18-12", "--out", folder / "earlier")
        for kilobytes in ROOMS:
            with small_disk(folder / "disk", folder / "earlier", kilobytes) as (limit, kind):
                kinds.add(kind)
                before = chipmap.load(folder / "disk" / "run").result
                process = solve(1, folder / "disk" / "run", preexec_fn=limit)
                output, errors = process.communicate()
                solution = solution_type.make(**json.loads(output)["solution"])
                good += (
                    process.returncode == 1
                    and errors.count("can't be written") == 1
                    and "Traceback" not in errors
                    and chipmap.load(folder / "disk" / "run").result == before
                    and chipmap.check(instance, solution).feasible
                )
    what = "full disk: one message, the earlier archive whole, a valid solution on standard output"
    return Line(
        what, good, len(ROOMS), f"{' and '.join(sorted(kinds))}, room for {', '.join(map(str, ROOMS))} KiB more"
    )


def full_matrix() -> Line:
    """The disk fills up under a sweep: one message, its rows stand, and with room again the sweep goes on from them."""
    good = 0
    with workplace() as folder:
        right = kills.whole(folder)
    for kilobytes in SWEEP_ROOMS:
        with workplace() as folder:
            (folder / "empty").mkdir()
            with small_disk(folder / "disk", folder / "empty", kilobytes) as (limit, _):
                errors = folder / "errors"
                process = kills.bench(folder / "disk", errors, dict(os.environ), preexec_fn=limit)
                process.communicate()
                told = errors.read_text()
                fine = process.returncode == 1 and told.count("chipmap: ") == 1 and "Traceback" not in told
                kept = kills.rows(folder / "disk")
                fine &= len(kept) == kills.announced(errors) and kept.items() <= right.items()
                shutil.copytree(folder / "disk" / "out", folder / "out", dirs_exist_ok=True)
            again = kills.bench(folder, errors, dict(os.environ))
            again.communicate()
            good += fine and again.returncode == 0 and kills.rows(folder) == right
            if not fine:
                print(f"{kilobytes} KiB: exit {process.returncode}, {len(kept)} rows: {told}", file=sys.stderr)
    what = "full disk under a sweep: one message, all rows kept; goes on with room again"
    return Line(what, good, len(SWEEP_ROOMS), f"room for {', '.join(map(str, SWEEP_ROOMS))} KiB")


def full_cache() -> Line:
    """No room for compiled functions: the same results, and a note."""
    good = 0
    tiny = (("wafer/tiny-adapters", 0), ("wafer/tiny-adapters", 200))
    for instance, kilobytes in tiny:
        with workplace() as folder:
            (folder / "empty").mkdir()
            with small_disk(folder / "cache", folder / "empty", max(kilobytes, 4)) as (limit, _):
                if not kilobytes:
                    (folder / "cache" / "filler").write_bytes(b"x" * 4096 * (limit is None))
                env = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
                row = row_of(instance, "--out", folder / "run", env=env)
                right = row_of(instance)
                notes = chipmap.load(folder / "run").result.notes
                same = all(row[key] == right[key] for key in ("status", "objective", "bound"))
                good += same and valid(folder / "run") and any(note.kind == "cache" for note in notes)
    what = "no room for compiled functions: the same results, and a note"
    return Line(what, good, len(tiny), "room for 0 and 200 KiB")


def halves() -> Line:
    """An archive cut at random places is never read as whole."""
    good = runs = 0
    with workplace() as folder:
        row_of("ring/resnet18-12", "--out", folder / "run")
        for name in sorted(os.listdir(folder / "run")):
            for seed in range(5):
                half = folder / "half"
                shutil.copytree(folder / "run", half)
                data = (half / name).read_bytes()
                if data:
                    (half / name).write_bytes(data[: random.Random(seed).randrange(len(data))])
                else:
                    (half / name).unlink()
                good += not readable(half)
                runs += 1
                shutil.rmtree(half)
    return Line(
        "archive with one file cut at a random place: refused", good, runs, "every file of the archive, 5 places"
    )


@contextmanager
def small_disk(folder: Path, earlier: Path, kilobytes: int) -> Iterator[tuple[Callable[[], None] | None, str]]:
    """A tmpfs on ``folder`` with the archive ``earlier`` in ``folder/run`` and that much room left.

    Where it can't be mounted, a plain folder and a limit on the size of any file.
    """
    folder.mkdir()
    size = sum(-(-path.stat().st_size // 4096) * 4 for path in earlier.iterdir()) + kilobytes
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder)]
    mounted = shutil.which("mount") is not None and not subprocess.run(command, capture_output=True).returncode

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1024, kilobytes * 1024))

    try:
        shutil.copytree(earlier, folder / "run")
        yield (None, "tmpfs") if mounted else (limit, "limit on the size of files")
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)
        shutil.rmtree(folder)
