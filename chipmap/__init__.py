"""Machine-learning workloads on multi-chip accelerators, with proven optimality gaps.

>>> result = chipmap.solve("ring/bert-large-36", time_limit=60)  # doctest: +SKIP
>>> result.status, result.gap  # doctest: +SKIP
('optimal', 0.0)

make and read: read, generate, from_edges, from_networkx, from_pandas, read_solution, load
solve and judge: solve, bound, check, explain, adopt; each has a help of its own: help(chipmap.solve)
what comes back: Result, Certificate, Prediction, Violation, Bound, Infeasibility, Explanation, Archive, TraceEvent
errors: ChipmapError, InputError, SolverUnavailableError, ContradictionError
"""

# ruff: isort: skip_file
# No `__all__`: with one, help(chipmap) prints every class in full. `A as A` exports a name for type checkers.
import contextlib as _contextlib
import os as _os
import signal as _signal
import sys as _sys

try:
    import fcntl as _fcntl  # noqa: F401 (locks on archives and on compiled functions; Windows has none)
except ImportError:
    raise ImportError(
        "chipmap needs a POSIX system (Linux, macOS, or Windows' WSL), whose file locks it uses"
    ) from None

# While the command is imported, Ctrl-C ends it in a word; then chipmap.cli takes over. (Until `python -m` has found its
# module, sys.argv begins with "-m".)
if "chipmap" in (_os.path.basename("".join(_sys.argv[:1])), *(_sys.orig_argv if _sys.argv[:1] == ["-m"] else ())):

    def _interrupted(*_: object) -> None:
        """Nothing has begun that would have to end in order."""
        _os.write(2, b"chipmap: interrupted\n")
        _os._exit(130)

    with _contextlib.suppress(ValueError):  # not in the main thread
        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            _signal.signal(_signal.SIGINT, _interrupted)

from chipmap.archive import Archive as Archive
from chipmap.certificate import Certificate as Certificate, Prediction as Prediction, Violation as Violation
from chipmap.deadline import Stop as Stop
from chipmap.explain import explain as explain
from chipmap.explanation import (
    Change as Change,
    Difference as Difference,
    Explanation as Explanation,
    Statement as Statement,
)
from chipmap.family import (
    FAMILY_NAMES as FAMILY_NAMES,
    Family as Family,
    Formulation as Formulation,
    Generator as Generator,
    Method as Method,
    Model as Model,
    Standing as Standing,
    family_of as family_of,
    get_family as get_family,
)
from chipmap.inputs.graphs import from_edges as from_edges, from_networkx as from_networkx, from_pandas as from_pandas
from chipmap.inputs.reading import generate as generate, read as read
from chipmap.inputs.results import load as load
from chipmap.inputs.solutions import read_solution as read_solution
from chipmap.oracle import Verdict as Verdict
from chipmap.provenance import __version__ as __version__
from chipmap.records import (
    ChipmapError as ChipmapError,
    ContradictionError as ContradictionError,
    InputError as InputError,
    Record as Record,
    SolverUnavailableError as SolverUnavailableError,
)
from chipmap.plans.adoption import Adoption as Adoption, adopt as adopt
from chipmap.result import (
    Bound as Bound,
    Infeasibility as Infeasibility,
    Result as Result,
    Termination as Termination,
    TraceEvent as TraceEvent,
)
from chipmap.run import Run as Run, SolveOptions as SolveOptions

# `chipmap.solve` is the function; the module of that name stays importable as `from chipmap.solve import …` as …`
from chipmap.solve import bound as bound, check as check, solve as solve
