"""The matrix: rows are checked, kept, and never solved twice; whatever dies is solved again."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from chipmap.bench.matrix import Matrix
from chipmap.bench.point import Row, audited, solve_point
from chipmap.bench.pool import LocalPool
from chipmap.bench.run import bench
from chipmap.bench.sweep import Point, read_sweep
from chipmap.bench.sweep import points as all_points
from chipmap.inputs.reading import read
from chipmap.process.child import environment
from chipmap.records import InputError
from chipmap.report.collect import MATRIX, collect
from chipmap.report.page.document import page
from chipmap.report.page.pictures import draw
from chipmap.report.sweeps.tables import summary, table
from tests.bench.samples import tiny, tiny_points


class Here:
    """A pool that solves in this process, after ``before`` has been told how many it has solved."""

    def __init__(self, before: Callable[[int], None] = lambda count: None) -> None:
        self.before, self.count = before, 0

    def submit(self, point: Point) -> Future[bytes]:
        self.before(self.count)
        self.count += 1
        future: Future[bytes] = Future()
        future.set_result(solve_point(point).to_json())
        return future

    def close(self) -> None:
        pass


def plain(rows: list[Row]) -> list[Row]:
    """Rows without what depends on the run."""
    return [row.replace(seconds=0.0, cpu_seconds=0.0, attempts=1) for row in rows]


def test_rows_are_proved_and_in_order(tmp_path: Path) -> None:
    found = bench(tiny_points(), tmp_path / "m.sqlite", Here)
    assert [row.labels for row in found] == [point.labels for point in tiny_points()]
    assert [row.status for row in found] == ["infeasible"] * 2 + ["optimal"] * 4
    assert all(row.bound == row.objective and row.figures["utilisation"] > 0 for row in found[2:])
    assert found[0].figures["price_usd"] > 0 and "SRAM" in found[0].detail
    assert "6 points: 4 optimal, 2 infeasible" in summary(found)
    lines = table(tiny(), found).splitlines()
    assert len(lines) == 7 and lines[0].startswith("sram,memory,instance,method,seed,status,objective,bound,unit,gap")


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    def stop(count: int) -> None:
        if count == 2:
            raise KeyboardInterrupt

    path = tmp_path / "m.sqlite"
    points = tiny_points()
    bench(points[:3], path, Here)
    never = partial(Here, lambda count: pytest.fail("solved again"))
    assert len(bench(points[:3], path, never)) == 3
    heard: list[tuple[int, int]] = []
    found = bench(points, path, Here, lambda row, number, count: heard.append((number, count)))
    assert heard == [(4, 6), (5, 6), (6, 6)]
    assert plain(found) == plain(bench(points, tmp_path / "other.sqlite", Here))


def test_more_time_is_another_try(tmp_path: Path) -> None:
    point = tiny_points()[3]
    row = solve_point(point)
    slow = row.replace(status="feasible", time_limit_s=10.0)
    assert row.settled(point) and not slow.settled(point)
    assert slow.settled(point.replace(time_limit_s=10.0))
    assert not row.replace(status="lost").settled(point)


def test_more_memory_is_another_try() -> None:
    point = tiny_points()[3]
    short = solve_point(point).replace(status="unknown", detail="out of memory")
    assert short.settled(point)
    assert not short.settled(point.replace(memory_gib=2 * point.memory_gib))


def test_another_content_of_a_file_is_another_point(tmp_path: Path) -> None:
    path, matrix = tmp_path / "mine.json", tmp_path / "m.sqlite"
    objectives = []
    for bytes_per_ns in (100.0, 200.0):
        instance = read("dataflow/tiny-chain", [f"system.memory.bytes_per_ns={bytes_per_ns}"])
        path.write_bytes(instance.to_json())
        (row,) = bench(all_points(tiny(instance=str(path), axes=[])), matrix, Here)
        assert row.instance_hash == instance.content_hash
        objectives.append(row.objective)
    assert objectives[0] != objectives[1]


EDITS = ("""'"objective":', '"objective":1'""", """'"status":"infeasible"', '"status":"optimal"'""")


@pytest.mark.parametrize("change", EDITS)
def test_a_row_that_somebody_edited_is_solved_again(tmp_path: Path, change: str) -> None:
    path = tmp_path / "m.sqlite"
    right = bench(tiny_points(), path, Here)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE points SET row = replace(row, {change})")
    assert plain(bench(tiny_points(), path, Here)) == plain(right)


def test_a_matrix_with_a_damaged_schema_is_refused_in_words(tmp_path: Path) -> None:
    """SQLite quotes the damaged word in its message, which is no UTF-8."""
    path = tmp_path / "bench.sqlite"
    Matrix(path).close()
    path.write_bytes(path.read_bytes().replace(b"TABLE points", b"\xac\xac\xacBLE point"))
    with pytest.raises(InputError, match="can't be used as a matrix: it is damaged"):
        Matrix(path)


def test_a_row_that_its_writer_forged_is_solved_again(tmp_path: Path) -> None:
    path, point = tmp_path / "m.sqlite", tiny_points()[5]
    (right,) = bench([point], path, Here)
    assert right.objective is not None
    with closing(Matrix(path)) as matrix:
        matrix.put(right.replace(objective=right.objective - 1, bound=right.objective - 1))
    assert plain(bench([point], path, Here)) == plain([right])


def test_a_matrix_of_the_first_layout_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    bench(tiny_points(), path, Here)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("ALTER TABLE points DROP COLUMN digest")
        db.execute("PRAGMA user_version=1")
    right = plain(bench(tiny_points(), tmp_path / "other.sqlite", Here))
    assert plain(bench(tiny_points(), path, Here)) == right
    assert plain(bench(tiny_points(), path, partial(Here, lambda count: pytest.fail("solved again")))) == right


def test_rows_are_checked_again() -> None:
    point = tiny_points()[5]
    row = solve_point(point)
    assert audited(point, row) == row
    assert row.objective is not None
    assert "the checker says" in audited(point, row.replace(objective=row.objective - 1)).detail
    assert "the bound is" in audited(point, row.replace(bound=0)).detail
    assert "another instance" in audited(point, row.replace(instance_hash="x")).detail
    solution: dict[str, Any] = {**(row.solution or {}), "partitions": [1, 0, 0]}
    wrong = audited(point, row.replace(solution=solution))
    assert wrong.status == "error" and "refuses" in wrong.detail


def test_a_bad_point_is_a_row(tmp_path: Path) -> None:
    points = [point.replace(set={"task.batch": 0}) for point in tiny_points()[:1]]
    row = bench(points, tmp_path / "m.sqlite", Here)[0]
    assert row.status == "bad input" and "task.batch" in row.detail


def test_a_file_that_is_no_matrix_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.sqlite"
    path.write_text("this is a text\n" * 100)
    with pytest.raises(InputError, match="can't be used as a matrix"):
        bench(tiny_points(), path, Here)
    other = tmp_path / "n.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("PRAGMA user_version=99")
    with pytest.raises(InputError, match="has layout 99"):
        bench(tiny_points(), other, Here)
    foreign = tmp_path / "o.sqlite"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE points (number INTEGER)")
    with pytest.raises(InputError, match="can't be used as a matrix: no such column"):
        bench(tiny_points(), foreign, Here)


def test_one_bench_at_a_time(tmp_path: Path) -> None:
    def again(count: int) -> None:
        with pytest.raises(InputError, match="Another bench writes there"):
            bench(tiny_points(), tmp_path / "m.sqlite", Here)

    bench(tiny_points()[:1], tmp_path / "m.sqlite", partial(Here, again))


def test_workers_give_the_same_table_also_when_one_is_killed(tmp_path: Path) -> None:
    points = tiny_points()
    pool = LocalPool(1)

    def kill(row: Row, number: int, count: int) -> None:
        if number == 2:
            child = pool._solvers[0]._child
            assert child is not None
            os.kill(child.process.pid, signal.SIGKILL)

    found = bench(points, tmp_path / "a.sqlite", lambda: pool, kill)
    assert plain(found) == plain(bench(points, tmp_path / "b.sqlite", Here))
    assert max(row.attempts for row in found) == 2


def test_a_cluster_gives_the_same_table_also_when_a_worker_is_killed(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask isn't installed (extra `cluster`)")
    from chipmap.bench.cluster import ClusterPool

    points = [point.replace(seed=seed) for seed in range(3) for point in tiny_points()]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, processes=True
    ) as cluster:

        def kill(row: Row, number: int, count: int) -> None:
            if number == 2:
                os.kill(cluster.workers[0].process.pid, signal.SIGKILL)

        found = bench(points, tmp_path / "a.sqlite", lambda: ClusterPool(cluster.scheduler_address, 2), kill)
    assert plain(found) == plain(bench(points, tmp_path / "b.sqlite", Here))


def test_children_end_with_their_pool(tmp_path: Path) -> None:
    pool = LocalPool(2)
    pool.submit(tiny_points()[3]).result(60)
    children = [solver._child.process for solver in pool._solvers if solver._child is not None]
    pool.close()
    assert children and all(child.poll() is not None for child in children)


def test_a_bench_killed_outright_goes_on_where_it_was(tmp_path: Path) -> None:
    """SIGKILL to the parent: its rows stand, its children end, the rest is solved by the next run."""
    path = tmp_path / "sweep.json"
    path.write_bytes(tiny(seeds=list(range(4))).to_json())
    line = [sys.executable, "-m", "chipmap", "bench", str(path), "--out", str(tmp_path), "--workers", "1"]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()) as parent:
        assert parent.stderr is not None
        told = (line for line in parent.stderr if not line.startswith(b"compiling"))
        for _ in range(2):
            assert b"/24" in next(told)
        parent.kill()
    points = read_points(path)
    pool = Here()
    found = bench(points, tmp_path / "matrix.sqlite", lambda: pool)
    assert 0 < pool.count <= 22 and {row.status for row in found} == {"optimal", "infeasible"}


def read_points(path: Path) -> list[Point]:
    return all_points(read_sweep(str(path)))


def test_rows_have_the_pictures_of_their_mappings(tmp_path: Path) -> None:
    """Each instance is made again from the row; none is drawn where a row lacks its origin, or where that makes
    another instance now."""
    point = tiny_points()[-1]
    row = solve_point(point)
    changed = row.replace(origin=point.replace(set={}).origin)
    for one, drawn in ((row, True), (row.replace(origin=None), False), (changed, False)):
        (entry,) = collect(_kept(tmp_path / f"{one.key}-{drawn}-{one.origin is None}", one))
        picture = draw(entry)
        assert (picture is not None) == drawn
        assert (entry.drawable, entry.result is not None) == (one.origin is not None, True)
        assert ('type="application/octet-stream"' in page([entry], tmp_path)) == drawn


def _kept(folder: Path, row: Row) -> Path:
    folder.mkdir()
    matrix = Matrix(folder / MATRIX)
    matrix.put(row)
    matrix.close()
    return folder
