"""What the segments of a window share, over the variables of either model: bytes from and to DRAM and over channels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from chipmap.formulations.cpsat import LabelledModel
from chipmap.instances.multimodel.problem import MultiProblem
from chipmap.instances.multimodel.sharing import Sharing


class Flow(NamedTuple):
    """Variables of a model: ``x``, ``start`` and ``end`` by (m, l, w, c), ``move`` by (m, l, w, c, d)."""

    x: Mapping[Any, Any]
    start: Mapping[Any, Any]
    end: Mapping[Any, Any]
    move: Mapping[Any, Any]


def stated_loads(problem: MultiProblem, sharing: Sharing, flow: Flow, w: int) -> Iterator[tuple[str, Any, Fraction]]:
    """(name, linear sum of bytes, bytes per ns) of window w: all bytes of DRAM, then those of each channel in use."""
    read, written = [], []
    loads: dict[int, list[Any]] = {}
    for m, model in enumerate(problem.models):
        for k in range(model.layers):
            sent = int(sharing.sent[m][k])
            for c in range(problem.chiplets):
                key = m, k, w, c
                into = int(sharing.weights[m][k]) * flow.x[key] + int(sharing.read[m][k]) * flow.start[key]
                read.append(into)
                written.append(sent * flow.end[key])
                for channel in sharing.reads[c]:
                    loads.setdefault(channel, []).append(into)
                for channel in sharing.writes[c]:
                    loads.setdefault(channel, []).append(written[-1])
                for d in problem.neighbours[c] if k < model.layers - 1 else ():
                    loads.setdefault(sharing.channel[c, d], []).append(sent * flow.move[*key, d])
    if sharing.dram is not None:
        yield "dram", sum(read) + sum(written), sharing.dram
    if sharing.link is not None:
        for channel, load in sorted(loads.items()):
            yield str(channel), sum(load), sharing.link


def most_coefficient(problem: MultiProblem) -> int:
    """The largest sum in the rows of :func:`shared_in_cpsat`; 0 without any."""
    if (sharing := problem.sharing) is None:
        return 0
    return max(r.denominator * sharing.bytes + r.numerator * problem.most_time for r in sharing.rates)


def shared_in_cpsat(builder: LabelledModel, problem: MultiProblem, sharing: Sharing, flow: Flow, w: int) -> Any:
    """V[w] in ns, exactly: the bytes of the window at the rate of DRAM, and those of each channel at that of a link."""
    times = []
    for name, load, rate in stated_loads(problem, sharing, flow, w):
        time = builder.integer(0, problem.most_time, f"shared[{w},{name}]")
        rest = rate.numerator * time - rate.denominator * load  # what is left of the last ns
        builder.model.add(rest >= 0)
        builder.model.add(rest <= rate.numerator - 1)
        times.append(time)
    longest = builder.integer(0, problem.most_time, f"shared[{w}]")
    builder.model.add_max_equality(longest, times)
    return longest
