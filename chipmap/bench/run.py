"""A sweep from its points to the matrix: what is done stays done, what is lost is done again."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from chipmap.bench.matrix import Matrix
from chipmap.bench.point import Row, audited, failed
from chipmap.bench.sweep import Point

#: Hears every new row, with how many points are done and how many there are.
Listener = Callable[[Row, int, int], None]


class Pool(Protocol):
    """Whoever solves points: :class:`chipmap.bench.pool.LocalPool`, :class:`chipmap.bench.cluster.ClusterPool`."""

    def submit(self, point: Point) -> Any:
        """Have ``point`` solved: a future (of the standard library's kind, or Dask's) of its row as JSON."""
        ...

    def close(self) -> None:
        """Stop."""
        ...


def bench(points: Sequence[Point], path: Path, pool: Callable[[], Pool], listener: Listener | None = None) -> list[Row]:
    """The rows of ``points`` in their order; those that the matrix at ``path`` lacks are solved by ``pool()``.

    Each row is checked again here before it is kept, and when it is found in the matrix: one that doesn't hold is
    solved again. Stopped at any time, the same call goes on where it was.
    """
    by_key = {point.key: point for point in points}
    with closing(Matrix(path)) as matrix:
        rows = matrix.rows(by_key)
        todo = [point for key, point in by_key.items() if key not in rows or not _holds(point, rows[key])]
        for number, row in enumerate(_solved(todo, pool), len(by_key) - len(todo) + 1):
            matrix.put(row)
            rows[row.key] = row
            if listener is not None:
                listener(row, number, len(by_key))
    return [rows[point.key].replace(labels=point.labels) for point in points]


def kept(points: Sequence[Point], path: Path) -> list[Row]:
    """Those rows of ``points`` that the matrix at ``path`` has, in their order."""
    with closing(Matrix(path)) as matrix:
        rows = matrix.rows({point.key for point in points})
    return [rows[point.key].replace(labels=point.labels) for point in points if point.key in rows]


def _holds(point: Point, row: Row) -> bool:
    """Whether a row of the matrix answers ``point``, and the checker here says what it says."""
    return row.settled(point) and audited(point, row) == row


def _solved(todo: Sequence[Point], pool: Callable[[], Pool]) -> Iterator[Row]:
    """The rows of ``todo`` as they come."""
    if not todo:
        return
    ended: queue.SimpleQueue[tuple[Point, bytes | BaseException]] = queue.SimpleQueue()

    def tell(point: Point, future: Any) -> None:
        if not future.cancelled():
            ended.put((point, future.exception() or future.result()))

    workers = pool()
    try:
        for point in todo:
            workers.submit(point).add_done_callback(partial(tell, point))
        for _ in todo:
            point, told = ended.get()
            if isinstance(told, BaseException):
                yield failed(point, "lost", f"{type(told).__name__}: {told}")
            else:
                yield audited(point, Row.from_json(told, "worker"))
    finally:
        workers.close()
