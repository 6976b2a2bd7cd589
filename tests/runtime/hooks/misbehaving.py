"""Methods that do what solvers do on a bad day. They are real methods of family ring, but only in the tests."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import replace
from typing import Any

from chipmap.family import Method
from chipmap.instances.ring import RingInstance, RingSolution
from chipmap.result import Infeasibility, Termination
from chipmap.run import Run


def install() -> None:
    """Add these methods to the family of this process; without the bounds at once, which end runs on these chains."""
    import chipmap.families.ring as ring

    ours = tuple(Method(f"ring/{name}", f"misbehaving:{name}", "a test") for name in NAMES)
    known = {method.name for method in ring.FAMILY.methods}
    extra = tuple(method for method in ours if method.name not in known)
    ring.FAMILY = replace(ring.FAMILY, methods=ring.FAMILY.methods + extra, at_once="")


def spread(instance: RingInstance, used: int) -> RingSolution:
    """A chain on ``used`` chips, in blocks of almost equal length: the more chips, the shorter the period."""
    count = len(instance.graph.operations)
    return RingSolution(instance=instance.name, chips=tuple(v * used // count for v in range(count)))


def improve(instance: RingInstance, run: Run) -> Termination:
    """A better solution and a better bound every few milliseconds, then done."""
    best = instance.package.chips
    for used in range(1, best + 1):
        run.checkpoint()
        run.solution(spread(instance, used), f"block {used}")
        run.bound(used, f"count {used}")
        time.sleep(0.01)
    return run.terminate()


def at_one_blow(instance: RingInstance, run: Run) -> Termination:
    """Solutions and bounds in turn, all at once."""
    for used in range(1, instance.package.chips + 1):
        run.solution(spread(instance, used), f"block {used}")
        run.bound(used, f"count {used}")
    return run.terminate()


def share_used_up(instance: RingInstance, run: Run) -> Termination:
    """A part of the work whose small share of the time has passed; the run's own limit is far."""
    run.solution(spread(instance, 1), "block 1")
    run.deadline.within(0.0).keep_going()
    return run.terminate()


def improve_then_hang(instance: RingInstance, run: Run) -> Termination:
    """A few solutions, then deaf to everything but SIGKILL, and in no Python code that could look at a clock."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for used in (1, 2, 3):
        run.solution(spread(instance, used), f"block {used}")
    run.bound(1, "trivial")
    re.match(r"(a+)+$", "a" * 64 + "b")  # holds the interpreter for years
    return run.terminate()


def wait(instance: RingInstance, run: Run) -> Termination:
    """One solution, then obedient waiting."""
    run.solution(spread(instance, 2), "block 2")
    while run.keep_going():
        time.sleep(0.01)
    return run.terminate("interrupted" if run.cancelled else "time")


def crash(instance: RingInstance, run: Run) -> Termination:
    """A solution, then a segmentation fault."""
    run.solution(spread(instance, 2), "block 2")
    os.kill(os.getpid(), signal.SIGSEGV)
    return run.terminate()


def vanish(instance: RingInstance, run: Run) -> Termination:
    """A solution, then the process ends without a word and leaves something behind that holds its pipes open."""
    run.solution(spread(instance, 2), "block 2")
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)


def fail(instance: RingInstance, run: Run) -> Termination:
    """A solution, then a defect."""
    run.solution(spread(instance, 2), "block 2")
    raise ZeroDivisionError("a defect")


def fail_at_once(instance: RingInstance, run: Run) -> Termination:
    """A defect, before anything was found."""
    raise ZeroDivisionError("a defect")


def endless_bounds(instance: RingInstance, run: Run) -> Termination:
    """A solution, and bounds that are no numbers."""
    run.solution(spread(instance, 2), "block 2")
    for value in (float("inf"), float("-inf"), float("nan")):
        run.bound(value, "division by 0")  # type: ignore[arg-type]
    return run.terminate()


def noise(instance: RingInstance, run: Run) -> Termination:
    """Solver chatter on standard output, from Python and from below it, some of it like the protocol."""
    print('{"type":"Ended"}')
    os.write(1, b"Coin0506I Presolve 0 (-3) rows\nno newline")
    run.solution(spread(instance, 3), "block 3")
    return run.terminate()


def hog(instance: RingInstance, run: Run) -> Termination:
    """A solution, then all the memory there is."""
    run.solution(spread(instance, 2), "block 2")
    held: list[Any] = []
    while True:
        held.append(bytearray(64 * 2**20))


def contradict(instance: RingInstance, run: Run) -> Termination:
    """A bound above a valid solution."""
    run.solution(spread(instance, 3), "block 3")
    assert run.upper is not None
    run.bound(2 * run.upper, "wrong")
    return run.terminate()


def deny(instance: RingInstance, run: Run) -> Termination:
    """A proof of infeasibility of an instance that the greedy start solves."""
    run.best = None
    run.infeasible(Infeasibility(label="C4", resource="SRAM", demand=2, limit=1, unit="bytes", message="too much"))
    return run.terminate()


def deny_openly(instance: RingInstance, run: Run) -> Termination:
    """A proof of infeasibility with a solution in hand, which the run itself objects to."""
    run.solution(spread(instance, 3), "block 3")
    run.infeasible(Infeasibility(label="C4", resource="SRAM", demand=2, limit=1, unit="bytes", message="too much"))
    return run.terminate()


def deny_without_reasons(instance: RingInstance, run: Run) -> Termination:
    """The same, and not a word about why."""
    run.solution(spread(instance, 3), "block 3")
    run.infeasible()
    return run.terminate()


def pretend(instance: RingInstance, run: Run) -> Termination:
    """An invalid solution, and the claim that it is optimal."""
    run.solution(RingSolution(chips=(0,)), "lie")
    return Termination(reason="optimal")


NAMES = (
    "improve",
    "improve_then_hang",
    "wait",
    "at_one_blow",
    "share_used_up",
    "crash",
    "vanish",
    "fail",
    "fail_at_once",
    "endless_bounds",
    "noise",
    "hog",
    "contradict",
    "deny",
    "deny_openly",
    "deny_without_reasons",
    "pretend",
)
