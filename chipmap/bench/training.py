"""Pre-training with judges beside it (figure 4 of the ring paper): this process trains, others judge its checkpoints.

A judge (:mod:`chipmap.bench.judges`) says of each checkpoint, the untrained policy's among them, what it is worth as it
is, and after learning on each validation graph. The best by the latter is copied to ``best.pt``, with its card.
``validation.csv`` keeps what was judged. A run that was killed goes on: checkpoints without a verdict are judged again,
training continues from the last whole pass.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import NamedTuple

from chipmap.bench.judges import LOOK_S, Judges, LocalJudges
from chipmap.deadline import Deadline, Stop
from chipmap.learned.passes import Passed, Passes
from chipmap.learned.ring.judging import Judged
from chipmap.records import InputError, csv_text
from chipmap.records.files import write_whole

COLUMNS = ("pass", "samples", "zero_shot", "tuned")
Told = Callable[["Passed | Verdict"], None]


class Verdict(NamedTuple):
    """What the judge says of the checkpoint after pass ``number``."""

    number: int
    judged: Judged


def pretrain(
    work: Passes,
    passes: int,
    every: int,
    samples: int,
    seed: int = 0,
    judges: Judges | None = None,
    deadline: Deadline = Deadline(),
    told: Told = lambda _: None,
) -> list[Verdict]:
    """Train up to so many passes; have each ``every``-th checkpoint and the last judged by ``samples`` samples a graph.

    Where the deadline falls, the pass under way and judgements under way are given up. Returns all verdicts, in the
    order of their passes; the files say the same. ``judges`` (one process of this machine where none are given) are
    closed at the end. ``told`` hears of every pass and verdict.
    """
    verdicts = {one.number: one for one in read_verdicts(work.folder)}
    waiting: dict[int, Future[Judged]] = {}
    pool = judges or LocalJudges(1)

    def ask(number: int, last: bool = False) -> None:
        due = number % every == 0 or last
        if due and number not in verdicts and number not in waiting and work.path(number).exists():
            waiting[number] = pool.submit(work.path(number), samples, seed, deadline)

    def hear(futures: Iterable[Future[Judged]]) -> None:
        """Note verdicts that came in, and write all of them."""
        numbers = {future: number for number, future in waiting.items()}
        for future in futures:
            number = numbers[future]
            del waiting[number]
            verdicts[number] = Verdict(number, future.result())
            _write(work, list(verdicts.values()))
            told(verdicts[number])

    work.begin()
    try:
        for number in range(len(work.curve) + 1):
            ask(number)
        while len(work.curve) < passes:
            told(work.next_pass(deadline))
            ask(len(work.curve))
            hear([future for future in waiting.values() if future.done()])
        ask(len(work.curve), last=True)
        while waiting:
            hear(wait(waiting.values(), LOOK_S, FIRST_COMPLETED).done)
            deadline.check()
    except Stop:
        pass
    finally:
        pool.close()
        work.close()
    return sorted(verdicts.values())


def best(verdicts: list[Verdict]) -> Verdict | None:
    """The checkpoint that is best after learning on the validation graphs; of equal ones the first."""
    return max(verdicts, key=lambda one: (one.judged.tuned, -one.number), default=None)


def read_verdicts(folder: Path) -> list[Verdict]:
    """What ``validation.csv`` says. Raises :class:`InputError` where it isn't such a table."""
    path = folder / "validation.csv"
    if not path.exists():
        return []
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return [_verdict(row) for row in csv.DictReader(lines)]
    except (KeyError, ValueError, TypeError, UnicodeDecodeError, csv.Error):
        raise InputError("isn't a table of verdicts", str(path), "Delete it: checkpoints are judged again.") from None


def _verdict(row: dict[str, str]) -> Verdict:
    figures = Judged(samples=int(row["samples"]), zero_shot=float(row["zero_shot"]), tuned=float(row["tuned"]))
    return Verdict(int(row["pass"]), figures)


def _write(work: Passes, verdicts: list[Verdict]) -> None:
    rows = [(one.number, one.judged.samples, one.judged.zero_shot, one.judged.tuned) for one in sorted(verdicts)]
    write_whole(work.folder / "validation.csv", csv_text(COLUMNS, rows).encode())
    first = best(verdicts)
    assert first is not None
    source = work.path(first.number)
    for suffix in (".pt", ".json"):  # a card that isn't of these weights is refused when it is read
        write_whole(work.folder / f"best{suffix}", source.with_suffix(suffix).read_bytes())
