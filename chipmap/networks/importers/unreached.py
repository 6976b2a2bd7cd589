"""Parameters that no gradient reaches, though they ask for one: all that is read of them is ``detach``-ed."""

from __future__ import annotations

from collections import defaultdict

from chipmap.networks.importers.steps import Program


def unreached(program: Program) -> set[str]:
    """The parameters that are read by way of detached steps alone.

    A parameter that is an output, or that a step could change in place, isn't one of them. Neither is one that nobody
    reads.
    """
    behind: dict[str, set[str]] = {name: {name} for name in program.parameters}  # value -> parameters that it is
    apart = defaultdict[str, set[str]](set)  # the same, where no gradient passes
    reached = {name for name in program.parameters if name in program.outputs}
    closed = set[str]()
    for step in program.steps:
        here = set[str]().union(*(behind.get(name, ()) for name in step.reads))
        there = set[str]().union(*(apart.get(name, ()) for name in step.reads))
        if step.kind.endswith("_"):
            reached |= here | there
        if step.detached:
            closed |= here
            here, there = set(), here | there
        if step.view:
            behind |= dict.fromkeys(step.makes, here)
            for name in step.makes:
                apart[name] |= there
        else:
            reached |= here
    return closed - reached
