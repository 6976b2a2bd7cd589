"""How much of a time limit the exact programs of family ``dataflow`` may take, in labels instead of seconds."""

from __future__ import annotations

from chipmap.run import Run

#: Labels of a first try, before any mapping is known.
FIRST = 12_000_000
#: Labels that the program makes in a second or so, and seconds given to it where there is no time limit.
LABELS, SECONDS = 1_500_000, 3600.0


def labels(run: Run, share: float) -> int:
    """The labels that a program may make in this share of the time limit: no clock, so that runs can be repeated."""
    return int(LABELS * share * (run.options.time_limit or SECONDS))
