"""What :mod:`benchmarks.fuzz` mutates: samples of each format, and what reads them as the commands do.

A reader returns where a file is accepted, and raises InputError where it is refused. Anything else is a defect; so is
a solution that the checker accepts but another evaluation refutes.
"""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
from argparse import Namespace
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from chipmap import archive
from chipmap.bench.matrix import Matrix
from chipmap.bench.point import Row, audited, solve_point
from chipmap.bench.run import bench
from chipmap.bench.sweep import Point, points, read_sweep
from chipmap.cli import check as check_command
from chipmap.deadline import Stop
from chipmap.family import FAMILY_NAMES, family_of, resolve
from chipmap.inputs.parameters import parameters_of
from chipmap.inputs.reading import checked, decode, generate, read
from chipmap.inputs.solutions import decode_solution
from chipmap.instances.multimodel.problem import multi_problem, placed
from chipmap.instances.multimodel.problem import terms as multimodel_terms
from chipmap.instances.ring.loads import terms as ring_terms
from chipmap.instances.ring.problem import ring_problem
from chipmap.instances.wafer.problem import evaluate, in_order, wafer_problem
from chipmap.report.collect import collect
from chipmap.result import Result
from chipmap.run import Run, SolveOptions
from chipmap.solve import check, solve
from chipmap.validation.brute_force import brute_force
from tests.bench.samples import PLAIN
from tests.wafer.samples import FORMATS as WAFER

TINY = {
    "ring": "ring/tiny-skip",
    "dataflow": "dataflow/tiny-chain",
    "wafer": "wafer/tiny-adapters",
    "multimodel": "multimodel/tiny-two",
    "placement": "placement/tiny-duplex",
}
#: Seconds in which an accepted instance gets its first solution.
SECONDS = 0.5


class Format(NamedTuple):
    """Files of a format, and what reads a mutated one: ``read(number of the file, its content)``."""

    samples: Sequence[bytes]
    read: Callable[[int, bytes], object]


@cache
def solved(family: str) -> Result:
    """A tiny instance's optimum."""
    return solve(TINY[family], options=SolveOptions(threads=1, time_limit=20.0), isolate=False)


@cache
def optimum(family: str) -> int:
    """The optimum of a tiny instance by brute force, which knows no method."""
    found, _ = brute_force(read(TINY[family]), check)
    assert found is not None
    return found


def instances(folder: Path) -> Format:
    """Instance files of the five families: read, checked, and given to what solves them first."""

    def work(_: int, data: bytes) -> None:
        instance = decode(data, "mutated.json")
        family = family_of(instance)
        start = family.warm_starts.get("greedy") or next(iter(family.warm_starts.values()), None) or family.at_once
        run = Run(instance, SolveOptions(time_limit=SECONDS, threads=1), check)
        try:
            if family.at_once:
                resolve(family.at_once)(instance, run)
            if start:
                resolve(start)(instance, run)
        except Stop:
            pass
        assert not run.rejected, run.rejected[0][1].violations[:1]

    return Format([read(name).to_json() for name in TINY.values()], work)


def solutions(folder: Path) -> Format:
    """Solutions of tiny instances: what the checker accepts is no better than the optimum by brute force, and has the
    same terms in the formulas that the methods use."""

    def work(number: int, data: bytes) -> None:
        name = list(TINY)[number]
        instance = read(TINY[name])
        family = family_of(instance)
        solution = decode_solution(data, "mutated.json", family, instance)
        certificate = check(instance, solution)
        assert certificate.feasible == (not certificate.violations)
        if certificate.feasible:
            assert certificate.objective is not None and certificate.objective >= optimum(name)
            _agree(name, instance, solution, certificate.terms, certificate.objective)

    for name in TINY:
        optimum(name)
    return Format([json.dumps(solved(name).solution).encode() for name in TINY], work)


def _agree(family: str, instance: Any, solution: Any, terms: dict[str, int], objective: int) -> None:
    """Compare an accepted solution with the evaluation that the family's methods use, where it is one function."""
    if family == "ring":
        assert ring_terms(ring_problem(instance), solution.chips) == (terms["T1"], terms["T2"])
    if family == "multimodel":
        problem = multi_problem(instance)
        assert tuple(multimodel_terms(problem, placed(problem, solution))) == (terms["T1"], terms["T2"])
    if family == "wafer":
        floorplan = wafer_problem(instance)
        assert evaluate(floorplan, in_order(floorplan, solution)).score == objective


def results(folder: Path) -> Format:
    """Files ``result.json``, as ``chipmap check INSTANCE result.json`` reads them."""
    path = folder / "result.json"

    def work(number: int, data: bytes) -> None:
        path.write_bytes(data)
        name = list(TINY.values())[number]
        args = Namespace(instance=name, set=[], family=None, solution=str(path), oracle=None, format="json")
        with redirect_stdout(io.StringIO()):
            assert check_command.run(args) in (0, 4)

    return Format([solved(name).to_json(indent=1) for name in TINY], work)


class _Kept:
    """A pool that knows the rows already."""

    def __init__(self, rows: dict[str, Row]) -> None:
        self.rows = rows

    def submit(self, point: Point) -> Future[bytes]:
        """The row of a point."""
        future: Future[bytes] = Future()
        future.set_result(self.rows[point.key].to_json())
        return future

    def close(self) -> None:
        """Nothing to stop."""


def rows(folder: Path) -> Format:
    """The database that ``bench`` resumes from: its bytes, and rows that somebody edited together with their digests.

    Whatever it holds, every row that comes back must be what the checker says.
    """
    todo = [
        Point(labels={"family": family}, generator=None, instance=name, parameters={}, set={}, method=None, seed=0,
              time_limit_s=20.0, memory_gib=4.0)
        for family, name in TINY.items()
    ]  # fmt: skip
    known = {point.key: solve_point(point) for point in todo}
    whole, path = folder / "whole.sqlite", folder / "bench.sqlite"
    with closing(Matrix(whole)) as matrix:
        for row in known.values():
            matrix.put(row)
    listed = list(known)

    def work(number: int, data: bytes) -> None:
        path.with_name("bench.sqlite-journal").unlink(missing_ok=True)
        if number == len(listed):
            path.write_bytes(data)
        else:
            path.write_bytes(whole.read_bytes())
            with closing(sqlite3.connect(path)) as database:
                text: str | bytes = data
                with suppress(UnicodeDecodeError):
                    text = data.decode()
                digest = hashlib.sha256(str(text).encode(errors="replace")).hexdigest()
                change = "UPDATE points SET row = ?, digest = ? WHERE key = ?"
                database.execute(change, (text, digest, listed[number]))
                database.commit()
        for point, row in zip(todo, bench(todo, path, lambda: _Kept(known)), strict=True):
            assert row.status == "error" or audited(point, row) == row

    return Format([*(known[key].to_json() for key in listed), whole.read_bytes()], work)


def manifests(folder: Path) -> Format:
    """The list of an archive's files (``environment.json``), as every command and ``report`` read it."""
    writer = archive.Writer(folder / "runs" / "one")
    path = archive.finish(writer, solved("ring"), read(TINY["ring"]))
    listed = path / archive.ENVIRONMENT

    def work(_: int, data: bytes) -> None:
        listed.write_bytes(data)
        for entry in collect(folder / "runs"):
            assert (entry.result is None) == bool(entry.problem)
            assert not entry.problem.startswith(("TypeError", "ValueError", "KeyError", "Recursion")), entry.problem
        archive.load(path)

    return Format([listed.read_bytes()], work)


def sweeps(folder: Path) -> Format:
    """Sweep files: read, their points listed and the first two made."""
    path = folder / "sweep.json"
    generator = {
        "schema": "sweep/1", "name": "made", "generator": "multimodel-random", "methods": ["auto", "search"],
        "parameters": {"layers": [3, 2]}, "seeds": [0, 1],
        "axes": [{"name": "size", "choices": [{"label": "a", "parameters": {"columns": 2}}, {"label": "b"}]}],
    }  # fmt: skip

    def work(_: int, data: bytes) -> None:
        path.write_bytes(data)
        for point in points(read_sweep(str(path)))[:2]:
            assert len(point.key) == 32
            point.build()

    return Format([json.dumps(plain).encode() for plain in (PLAIN, generator)], work)


SETTINGS = {
    "ring": "package.chips=3\npackage.sram_bytes=64MiB\npackage.hop_ns=1us\nconstraints=C1,C2\ncost_mode=sum\nname=x",
    "dataflow": "system.chip.sram_bytes=1e6\ntask.batch=8\nsystem.network.0.latency_ns=10\nmode=physical\n"
    "workload.layers=2\ntask.overlap=false",
    "wafer": "fabric.width=9\nweights.wire=2\nprotocol=min_c_k\nkernels.0.kind=conv\nfabric.memory_words=100",
    "multimodel": "task.windows=2\ntask.objective=energy\nmodule.hop_ns=3\nmodels.0.batch=4\nmodels.1.deadline_ns=1ms",
    "placement": "task.memory=static\nsystem.links.gap_ns=1\nsystem.devices.0.memory_bytes=4KiB\ntask.limit_ns=5000\n"
    "system.classes.0.efficiency.matmul=0.5",
}
GENERATORS = {
    "bert-large": "layers=2\nsequence=64\nchips=4",
    "random": "operations=8\nseed=3\nchips=3",
    "dataflow-gpt": "layers=2\nhidden=64\nheads=4\ntokens=32",
    "wafer-resnet": "image=64\nwidth=200\nheight=200",
    "multimodel-random": "layers=3,2\ncolumns=2\nbatch=2\nseed=4",
    "placement-random": "operations=6\ndevices=3\nseed=2",
}


def settings(folder: Path) -> Format:
    """Texts of ``--set`` for the tiny instances, a line each; every one by itself, so that one can't hide another."""
    return Format([text.encode() for text in SETTINGS.values()], lambda number, data: _each(_set, number, data))


def _set(number: int, line: str) -> None:
    read(list(TINY.values())[number], [line])


def arguments(folder: Path) -> Format:
    """Arguments of generators, as ``chipmap generate NAME --set ...`` reads them."""
    return Format([text.encode() for text in GENERATORS.values()], lambda number, data: _generate(number, data))


def _generate(number: int, data: bytes) -> None:
    name = list(GENERATORS)[number]
    lines = [line for line in _lines(data) if line.strip()]
    checked(generate(name, **parameters_of(name, lines)), name)


def _each(work: Callable[[int, str], None], number: int, data: bytes) -> None:
    """Every line, of very many the first hundred; the last one that is refused decides."""
    from chipmap.records import InputError

    refused = None
    for line in _lines(data)[:100]:
        try:
            work(number, line)
        except InputError as error:
            refused = error
    if refused is not None:
        raise refused


def _lines(data: bytes) -> list[str]:
    """Lines as they would come from a command line: odd bytes as the system hands them over."""
    return data.decode(errors="surrogateescape").split("\n")


def text_format(name: str) -> Callable[[Path], Format]:
    """A text format of family wafer."""
    data, work = WAFER[name]
    return lambda folder: Format([data], lambda _, content: work(content))


FORMATS: dict[str, Callable[[Path], Format]] = {
    "instance": instances,
    "solution": solutions,
    "result": results,
    "row": rows,
    "manifest": manifests,
    "sweep": sweeps,
    "paint": text_format("paint"),
    "kgraph": text_format("kgraph"),
    "set": settings,
    "generator": arguments,
}
assert tuple(TINY) == tuple(FAMILY_NAMES)

#: Values that take the place of a value in the text.
HOSTILE = (
    *(b"0", b"-1", b"1", b"3", b"1e308", b"-1e308", b"1e-308", b"1e400", b"nan", b"NaN", b"-inf", b"Infinity", b"0.1"),
    *(str(2**power + more).encode() for power in (31, 32, 53, 62, 63, 64, 80) for more in (-1, 0, 1)),
    *(b"9" * 400, b'"\\u001b[31m\\u0007"', b'"\\ud800"', b'"\\u0000"', b'"' + b"x" * 5000 + b'"', b'"\xff\xfe"'),
    *(b"null", b"true", b"[]", b"{}", b"[" * 3000 + b"]" * 3000, b'{"a":' * 900 + b"1" + b"}" * 900, b'""', b"64MiB"),
)


def hostile(data: bytes, random: Random) -> bytes:
    """``data`` with one value replaced by a hostile one, a pair doubled, parts swapped, or in another encoding."""
    import re

    what = int(random.random() * 10)
    if what == 0:
        text = data.decode(errors="replace")
        code = ("utf-16", "utf-32", "latin-1", "utf-8-sig")[int(random.random() * 4)]
        return text.encode(code, errors="replace")
    pairs = list(re.finditer(rb'"\w+": ?(?:"[^"]*"|[-\w.+]+),?', data))
    if what == 1 and pairs:
        pair = pairs[int(random.random() * len(pairs))]
        return data[: pair.end()].rstrip(b",") + b"," + pair.group().rstrip(b",") + data[pair.end() - 1 :].lstrip(b'"')
    if what == 2:
        cut = sorted(int(random.random() * len(data)) for _ in range(3))
        return data[: cut[0]] + data[cut[1] : cut[2]] + data[cut[0] : cut[1]] + data[cut[2] :]
    values = list(re.finditer(rb'(?<=[:=,\[ ])("[^"]*"|-?[\w.+]+)', data)) or list(re.finditer(rb"\S+", data))
    if not values:
        return HOSTILE[int(random.random() * len(HOSTILE))]
    value, new = values[int(random.random() * len(values))], HOSTILE[int(random.random() * len(HOSTILE))]
    return data[: value.start()] + new + data[value.end() :]
