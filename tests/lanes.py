"""How many random cases a test draws: as many as a change needs in ``make test``, more in ``make long``.

``make long`` (``CHIPMAP_TESTS=long``) takes all of them: before a release, or after a change of a rule. The first cases
are the same in both.
"""

from __future__ import annotations

import os

#: Whether all cases are drawn.
LONG = os.environ.get("CHIPMAP_TESTS") == "long"


def of_all(cases: int, few: int) -> int:
    """The number of cases: ``cases`` in the long lane, else ``few``.

    >>> of_all(100, 30) in (30, 100)
    True
    """
    if not 0 < few <= cases:
        raise ValueError(f"few is {few}: 1 to {cases}")
    return cases if LONG else few
