"""Room that a network makes for its results is no stored data: ``new_empty`` and ``zeros`` that are written to."""

from __future__ import annotations

from typing import Any

import pytest

from chipmap.networks.graph import OperationGraph
from chipmap.networks.importers.torch_program import import_exported


def network(body: Any) -> OperationGraph:
    """A network of one product, 8 x 8 numbers of weights, and what ``body`` does with its result."""
    torch = pytest.importorskip("torch", reason="needs the extra learned")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8, bias=False)

        def forward(self, x: Any) -> Any:
            return body(torch, self.layer(x))

    return import_exported(torch.export.export(Net(), (torch.randn(4, 8),)), "net", decompose=False).graph


def stored(body: Any) -> int:
    """Bytes that rest of :func:`network` beside its weights."""
    graph = network(body)
    return graph.stored_bytes(graph.constants_read()) - 256


def halves(make: str) -> Any:
    def body(torch: Any, y: Any) -> Any:
        room = getattr(y, make)((4, 16))
        room[:, :8], room[:, 8:] = y, y * 2
        return room.relu()

    return body


@pytest.mark.parametrize("make", ["new_empty", "new_zeros", "new_ones"])
def test_room_that_is_written_in_parts(make: str) -> None:
    """Keys of DeepSeek-V3: the part with positions and the part without are copied into one tensor."""
    assert stored(halves(make)) == 0


def test_room_to_which_rows_are_added() -> None:
    def body(torch: Any, y: Any) -> Any:
        return torch.zeros_like(y).index_add_(0, torch.tensor([1, 0, 3, 2]), y).relu()

    assert stored(body) == 32  # four places


def test_what_is_read_is_stored() -> None:
    """A table by a formula, and zeros to which something is added."""
    assert stored(lambda torch, y: y * torch.arange(8.0)) == 32
    assert stored(lambda torch, y: torch.cat((y.new_zeros((2, 8)), y)).relu()) == 64


def test_a_cache_that_is_written_in_part_has_all_of_its_bytes_in_the_run() -> None:
    def body(torch: Any, y: Any) -> Any:
        cache = y.new_zeros((16, 8))
        cache[:4] = y
        return cache.relu()

    graph = network(body)
    assert graph.stored_bytes(graph.constants_read()) == 256
    read = [one.bytes for one in graph.tensors if any(graph.operations[v].kind == "relu" for v in one.readers)]
    assert read == [512]
