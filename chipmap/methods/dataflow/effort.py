"""How much the exact programs of family ``dataflow`` may do, in labels of their search instead of seconds.

Labels are counted alike on every machine, so that runs can be repeated.
"""

from __future__ import annotations

from chipmap.run import Run

#: Labels of a first try, before any mapping is known.
FIRST_TRY = 12_000_000
#: Labels that the program makes in a second or so, and seconds given to it where there is no time limit.
LABELS_PER_SECOND, SECONDS = 1_500_000, 3600.0


def most_labels(run: Run, share: float) -> int:
    """The labels that a program may make in this share of the time limit."""
    return int(LABELS_PER_SECOND * share * (run.options.time_limit or SECONDS))
