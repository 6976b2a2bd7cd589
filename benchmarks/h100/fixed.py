"""What a kernel costs that does nothing: launched one by one, in a CUDA graph, and with the host waiting for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.h100.rows import Row
from benchmarks.h100.timer import Spread, Timer

CALLS = 500


def fixed_rows(timer: Timer, tiny: bool) -> Iterator[Row]:
    """Microseconds per launch: an empty kernel, a sum of one number, a product of 64 × 64."""
    torch = timer.torch
    one = torch.zeros(1, device=timer.device)
    small = torch.zeros(64, 64, dtype=torch.bfloat16, device=timer.device)
    out = torch.empty_like(small)
    calls: dict[str, Any] = {
        "empty": lambda i: torch.cuda._sleep(0) if timer.cuda else None,
        "add_one": lambda i: one.add_(1.0),
        "product_64": lambda i: torch.mm(small, small, out=out),
    }
    for name, call in calls.items():
        many = 1 if tiny else CALLS
        for mode, spread in (
            ("eager", timer.eager(call, many)),
            ("queued", timer.queued(call, many)),
            ("graph", timer.graph(call, many)),
            ("awaited", timer.eager(_awaited(timer, call), many)),
        ):
            yield Row("fixed", name, mode, **spread._asdict())
    yield Row("fixed", "graph_of_one", "awaited", **_replayed(timer, 1)._asdict())
    yield Row("fixed", "graph_of_500", "awaited", **_replayed(timer, 1 if tiny else CALLS)._asdict())


def _awaited(timer: Timer, call: Any) -> Any:
    """The call, and the host waits until it has ended."""

    def waits(i: int) -> None:
        call(i)
        if timer.cuda:
            timer.torch.cuda.synchronize()

    return waits


def _replayed(timer: Timer, nodes: int) -> Spread:
    """A graph of so many empty kernels, replayed and awaited, by the host's clock."""
    torch = timer.torch
    if not timer.cuda:
        return Spread(1.0, 0.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(nodes):
            torch.cuda._sleep(0)
    return timer.eager(_awaited(timer, lambda i: graph.replay()), 50)
