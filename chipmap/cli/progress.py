"""Progress on standard error: a live line on a terminal, a plain line for each improvement elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from chipmap.cli.streams import OWN as _CLEAR
from chipmap.cli.streams import visible
from chipmap.family import Family, family_of
from chipmap.options import cores
from chipmap.process.demand import Compiling
from chipmap.process.warming import warm
from chipmap.records import counted
from chipmap.result import TraceEvent
from chipmap.run import Run

_REFRESH_SECONDS = 0.2
#: Characters of a bar.
_WIDTH = 20
#: What is said, once, where there is no bar: without a run, before one, beside one.
ONLY = "compiling the programs of family {}, once (a minute or two)"
BEFORE = "compiling the programs of family {}, once (a minute or two; --time-limit starts after it)"
MEANWHILE = "compiling what family {} needs, once, while it is solved without"


def bar(now: Compiling) -> str:
    """How far compiling has come, as a bar.

    >>> bar(Compiling("ring", 30, 10, 12.3))
    '[###############-----] 30 functions compiled, 10 to do, 12 s'
    """
    full = _WIDTH * now.done // max(1, now.done + now.left)
    drawn = "#" * full + "-" * (_WIDTH - full)
    return f"[{drawn}] {counted(now.done, 'function')} compiled, {now.left} to do, {now.seconds:.0f} s"


def compile_first(*families: Family, quiet: bool = False) -> None:
    """Compile what families need, as many side by side as there are cores: under one bar for all on a terminal, after
    a sentence for each elsewhere."""
    far: dict[str, Compiling] = {}
    live, over, alone = not quiet and sys.stderr.isatty(), threading.Event(), threading.Lock()

    def tell(now: Compiling) -> None:
        """Show how far they are: a bar that is drawn anew, or one sentence."""
        with alone:
            if not (live or quiet or now.family in far):
                print(ONLY.format(now.family), file=sys.stderr, flush=True)
            far[now.family] = now
            if live:
                every = far.values()
                sums = (
                    sum(one.done for one in every),
                    sum(one.left for one in every),
                    sum(one.seconds for one in every),
                )
                sys.stderr.write(f"{_CLEAR}{', '.join(far)}: {bar(Compiling('', *sums))}")
                sys.stderr.flush()

    with ThreadPoolExecutor(cores()) as pool:
        try:
            for _ in pool.map(lambda one: warm(one, tell, over.is_set), families):
                pass
        finally:
            over.set()
            if live:
                sys.stderr.write(_CLEAR)
                sys.stderr.flush()


class Progress:
    """Hears a run's improvements (it is a listener) and shows seconds, incumbent, bound, gap and who found the last.

    Of several instances a tqdm bar counts those that are done.
    """

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.live = not quiet and sys.stderr.isatty()
        self._started = time.monotonic()
        self._name = self._text = self._compiling = ""
        self._told = set[str]()
        self._bar: Any = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def over(self, names: Sequence[str]) -> Iterator[str]:
        """The names one by one, under a bar if there are several and a terminal."""
        shown: Iterable[str] = names
        if len(names) > 1 and self.live:
            from tqdm import tqdm

            shown = self._bar = tqdm(names, unit="instance", leave=False, file=getattr(sys.stderr, "raw", sys.stderr))
        for name in shown:
            self._begin(name, several=len(names) > 1)
            yield name
            self.pause()

    def __call__(self, event: TraceEvent, run: Run) -> None:
        """Show an improvement."""
        if self.quiet:
            return
        text = describe(event, run)
        with self._lock:
            self._text = text
        if self._bar is not None:
            self._bar.set_postfix_str(visible(text), refresh=True)
        elif not self.live:
            print(f"{self._name}{event.seconds:8.2f} s  {text}", file=sys.stderr, flush=True)

    def before(self, now: Compiling) -> None:
        """Show how far compiling has come before a run begins."""
        self._compiled(now, BEFORE)

    def meanwhile(self, now: Compiling) -> None:
        """Show how far compiling has come while a run goes on."""
        self._compiled(now, MEANWHILE)

    def _compiled(self, now: Compiling, sentence: str) -> None:
        """A bar behind the live line, a sentence elsewhere."""
        with self._lock:
            self._compiling = f"  {bar(now)}" if now.left else ""
        if not self.quiet and not self.live and now.family not in self._told:
            self._told.add(now.family)
            print(f"{self._name}{sentence.format(now.family)}", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Take all that is live away."""
        self.pause()
        if self._bar is not None:
            self._bar.close()

    def _begin(self, name: str, several: bool) -> None:
        self._started, self._text, self._compiling = time.monotonic(), "reading", ""
        self._name = f"{name}: " if several else ""
        if self.live and not several:
            self._stop.clear()
            self._thread = threading.Thread(target=self._refresh, daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Take the live line away, so that other output has a line of its own."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def _refresh(self) -> None:
        while not self._stop.wait(_REFRESH_SECONDS):
            with self._lock:
                text = self._text + self._compiling
            sys.stderr.write(f"{_CLEAR}{time.monotonic() - self._started:8.1f} s  {text}")
            sys.stderr.flush()
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


def describe(event: TraceEvent, run: Run) -> str:
    """One line about a run: incumbent, bound, gap, and who made the last improvement."""
    from chipmap.records.quantities import percent
    from chipmap.report.rows import amount

    unit = family_of(run.instance).units_of(run.instance).objective
    incumbent = "none yet" if run.upper is None else amount(run.upper, unit)
    bound = "none yet" if run.lower is None else amount(run.lower.value, unit)
    if run.evaluator is not None:
        cost = "n/a" if run.best is None or run.best.measured is None else f"{run.best.measured:.7g}"
        calls = len(run.evaluator.measurements)
        return f"measured {cost} after {calls} calls  analytic {incumbent}, bound {bound}  ({event.source})"
    what = "incumbent" if event.event == "solution" else "bound"
    return f"incumbent {incumbent}  bound {bound}  gap {percent(run.gap)}  ({what} by {event.source})"
