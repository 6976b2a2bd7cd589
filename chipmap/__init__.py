"""chipmap: machine-learning workloads on multi-chip accelerators, with proven optimality gaps.

>>> import chipmap
>>> instance = chipmap.read("ring/bert-large-36")  # doctest: +SKIP
>>> result = chipmap.solve(instance, time_limit=60)  # doctest: +SKIP
>>> result.status, result.gap  # doctest: +SKIP
('optimal', 0.0)
"""

import contextlib
import os
import signal
import sys

try:
    import fcntl  # noqa: F401 (locks on archives and on compiled functions; Windows has none)
except ImportError:
    raise ImportError(
        "chipmap needs a POSIX system (Linux, macOS, or Windows' WSL), whose file locks it uses"
    ) from None

# While the command is imported, Ctrl-C ends it in a word; then chipmap.cli takes over. (Until `python -m` has found its
# module, sys.argv begins with "-m".)
if "chipmap" in (os.path.basename("".join(sys.argv[:1])), *(sys.orig_argv if sys.argv[:1] == ["-m"] else ())):

    def _interrupted(*_: object) -> None:
        """Nothing has begun that would have to end in order."""
        os.write(2, b"chipmap: interrupted\n")
        os._exit(130)

    with contextlib.suppress(ValueError):  # not in the main thread
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupted)

from chipmap.archive import Archive
from chipmap.certificate import Certificate, Violation
from chipmap.deadline import Stop
from chipmap.explain import explain
from chipmap.explanation import Change, Difference, Explanation, Statement
from chipmap.family import FAMILY_NAMES, Family, Formulation, Generator, Method, Model, Standing, family_of, get_family
from chipmap.inputs.graphs import from_edges, from_networkx, from_pandas
from chipmap.inputs.reading import generate, read
from chipmap.inputs.results import load
from chipmap.inputs.solutions import read_solution
from chipmap.oracle import Verdict
from chipmap.provenance import __version__
from chipmap.records import ChipmapError, ContradictionError, InputError, Record, SolverUnavailableError
from chipmap.result import Bound, Infeasibility, Result, Termination, TraceEvent
from chipmap.run import Run, SolveOptions

# `chipmap.solve` is the function; the module of that name stays importable as `from chipmap.solve import …`
from chipmap.solve import bound, check, solve

__all__ = ["__version__", "bound", "check", "explain", "generate", "load", "read", "read_solution", "solve"]
__all__ += ["from_edges", "from_networkx", "from_pandas"]
__all__ += ["Archive", "Bound", "Infeasibility", "Record", "Result", "Termination", "TraceEvent"]
__all__ += ["Certificate", "Verdict", "Violation"]
__all__ += ["Change", "Difference", "Explanation", "Run", "SolveOptions", "Statement", "Stop"]
__all__ += ["FAMILY_NAMES", "Family", "Generator", "Method", "family_of", "get_family"]
__all__ += ["Formulation", "Model", "Standing"]
__all__ += ["ChipmapError", "ContradictionError", "InputError", "SolverUnavailableError"]
