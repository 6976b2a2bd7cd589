"""What compiling a family costs, function by function, by numba's compile events.

    python -m benchmarks.compiling [FAMILY ...] [--solve INSTANCE METHOD] [--out benchmarks/results/compiling.md]

A process per family does what `chipmap doctor --warm` does, on one thread, with an empty folder for compiled
functions. Seconds are those of the processor. A function's *own* seconds leave out the functions that are compiled for
it, as it is the first to call them; *with callees* counts them. A function called with several types of arguments is
compiled as many times; ``--types`` lists these. With ``--solve`` one instance is solved by one method instead.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from chipmap.family import FAMILY_NAMES, get_family

#: Functions a family of which the page has a row of their own.
ROWS = 30
#: numba's passes that find types, and those that write and optimise machine code.
TYPING, LOWERING = "nopython_type_inference", "native_lowering"

EXPLAINED = (
    "Seconds of the processor, in one process a family, of all that `chipmap doctor --warm` compiles. *Own* seconds of "
    "a function leave out the functions compiled for it, as it is the first to call them; *with callees* counts "
    "them. *Repeated*: compilations of a function beyond its first, for other types of its arguments."
)


class Compiled(NamedTuple):
    """A function compiled once: its module and name, its argument types, processor seconds without and with callees."""

    function: str
    types: str
    own: float
    whole: float


class Function(NamedTuple):
    """A function, for all types together: how many times it was compiled, and the seconds."""

    name: str
    times: int
    own: float
    whole: float


class Costs(NamedTuple):
    """What a family's compiling took: every function, seconds of numba's passes by name, seconds of the process."""

    compiled: list[Compiled]
    passes: dict[str, float]
    process: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="all of them, unless some are named")
    parser.add_argument("--solve", nargs=2, metavar=("INSTANCE", "METHOD"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--types", action="store_true", help="say for which types a function is compiled repeatedly")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        print(json.dumps(measured(json.loads(given.child))))
        return 0
    load, found = os.getloadavg()[0], dict[str, Costs]()
    wanted = {given.solve[0]: [given.solve]} if given.solve else {f: [] for f in given.families or FAMILY_NAMES}
    for name, solves in wanted.items():
        found[name] = in_child(solves or [list(one) for one in get_family(name).warm])
        print(f"{name}: {total(found[name]):.1f} s, {len(found[name].compiled)} functions", file=sys.stderr, flush=True)
        if given.types:
            tell_types(found[name])
    text = page(found, load)
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    else:
        print(text)
    return 0


def in_child(solves: list[list[str]]) -> Costs:
    """What these solves (an instance and a method each) compile in a process of their own that finds nothing."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.compiling", "--child", json.dumps(solves)],
            env=os.environ | {"NUMBA_CACHE_DIR": folder},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    compiled, passes, process = json.loads(done.stdout)
    return Costs([Compiled(*one) for one in compiled], passes, process)


def measured(solves: list[list[str]]) -> Costs:
    """What these solves compile in this process."""
    from chipmap.process.compiling import main as solve

    with listening() as (compiled, passes), redirect_stdout(sys.stderr):
        for instance, method in solves:
            solve(instance, method)
    return Costs(compiled, passes, time.process_time())


@contextmanager
def listening() -> Iterator[tuple[list[Compiled], dict[str, float]]]:
    """Within it, numba's compile events fill the list, in the order of their ends, and the seconds of its passes."""
    from numba.core import event

    compiled, passes, local = list[Compiled](), dict[str, float](), threading.local()

    class Listener(event.Listener):  # type: ignore[misc]
        def stack(self) -> list[list[float]]:
            """[began, seconds of what is inside] of this thread's open events of this kind."""
            stacks: dict[int, list[list[float]]] = local.__dict__.setdefault("stacks", {})
            return stacks.setdefault(id(self), [])

        def on_start(self, event: Any) -> None:
            """A compilation or pass begins."""
            self.stack().append([time.thread_time(), 0.0])

        def on_end(self, event: Any) -> None:
            """It ends; what is around it doesn't count its seconds as its own."""
            stack = self.stack()
            began, inside = stack.pop()
            whole = time.thread_time() - began
            if stack:
                stack[-1][1] += whole
            if "dispatcher" in event.data:
                function = event.data["dispatcher"].py_func
                name = f"{function.__module__.removeprefix('chipmap.')}.{function.__qualname__}"
                compiled.append(Compiled(name, str(event.data["args"]), whole - inside, whole))
            else:
                name = str(event.data["name"]).partition(" [")[0].removeprefix("record_")  # the kernels' own lowering
                passes[name] = passes.get(name, 0.0) + whole - inside

    both = {"numba:compile": Listener(), "numba:run_pass": Listener()}
    for kind, listener in both.items():
        event.register(kind, listener)
    try:
        yield compiled, passes
    finally:
        for kind, listener in both.items():
            event.unregister(kind, listener)


def total(costs: Costs) -> float:
    """Processor seconds of all compilations."""
    return sum(one.own for one in costs.compiled)


def functions(costs: Costs) -> list[Function]:
    """The functions by falling own seconds."""
    found = dict[str, Function]()
    for one in costs.compiled:
        _, times, own, whole = found.get(one.function, Function(one.function, 0, 0.0, 0.0))
        found[one.function] = Function(one.function, times + 1, own + one.own, whole + one.whole)
    return sorted(found.values(), key=lambda one: -one.own)


def tell_types(costs: Costs) -> None:
    """The argument types of each function that is compiled for several."""
    for function in functions(costs):
        for one in costs.compiled if function.times > 1 else ():
            if one.function == function.name:
                print(f"{one.function} {one.own:.2f}: {one.types}", file=sys.stderr)


def page(found: dict[str, Costs], load: float) -> str:
    """The tables, and what they were made on."""
    import numba

    lines = [
        "# What compiling costs, function by function",
        "",
        f"Made by `python -m benchmarks.compiling` on {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}, numba {numba.__version__}; load {load:.1f} before, "
        f"{os.getloadavg()[0]:.1f} after. {EXPLAINED}",
        "",
        "| family | compiling | functions | repeated | finding types | machine code | process in all |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, costs in found.items():
        once = functions(costs)
        lines.append(
            f"| `{name}` | {total(costs):.1f} | {len(once)} | {len(costs.compiled) - len(once)} "
            f"| {costs.passes.get(TYPING, 0.0):.1f} | {costs.passes.get(LOWERING, 0.0):.1f} | {costs.process:.1f} |"
        )
    whole = [*found.values()]
    lines.append(
        f"| all | {sum(map(total, whole)):.1f} | {sum(len(functions(one)) for one in whole)} "
        f"| {sum(len(one.compiled) - len(functions(one)) for one in whole)} "
        f"| {sum(one.passes.get(TYPING, 0.0) for one in whole):.1f} "
        f"| {sum(one.passes.get(LOWERING, 0.0) for one in whole):.1f} | {sum(one.process for one in whole):.1f} |"
    )
    for name, costs in found.items():
        lines += ["", f"## `{name}`", "", "| function | times | own | with callees |", "|---|---:|---:|---:|"]
        once = functions(costs)
        lines += [f"| `{one.name}` | {one.times} | {one.own:.2f} | {one.whole:.2f} |" for one in once[:ROWS]]
        if len(once) > ROWS:
            rest = once[ROWS:]
            times, own = sum(one.times for one in rest), sum(one.own for one in rest)
            lines.append(f"| {len(rest)} others | {times} | {own:.2f} | |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
