"""What the nodes of a model's graph are called, so that each name means one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx


def node_keys(nodes: Sequence[onnx.NodeProto]) -> list[str]:
    """Each node's own name; its first result's, of which there is one, where it has none or shares it with others."""
    names = Counter(node.name for node in nodes)
    results = {name for node in nodes for name in node.output}
    keys = []
    for node in nodes:
        made = next((name for name in node.output if name), node.op_type)
        # a name that is another node's result would mean two of them
        alone = node.name and names[node.name] == 1 and (node.name not in results or node.name in node.output)
        keys.append(node.name if alone else made)
    return keys
