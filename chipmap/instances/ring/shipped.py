"""The shipped instances: a name, the generator that makes it, and its parameters.

They are made when they are asked for; a test pins their content hashes. The tiny ones are small enough to try every
mapping.
"""

from __future__ import annotations

from typing import Any

_US = 4_000_000  # FLOP of one microsecond at the default peak
_KIB = 1024

_NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-large-36": ("bert-large", {"sequence": 512, "batch": 1, "word_bytes": 2, "sram_mib": 64.0}),
    "bert-base-36": ("bert-large", {"layers": 12, "hidden": 768, "heads": 12}),
    "gpt2-36": ("gpt2", {"sequence": 512}),
    "resnet50-36": ("resnet50", {"word_bytes": 2}),
    "resnet18-12": ("resnet50", {"depth": 18, "chips": 12}),
    "resnet152-36": ("resnet50", {"depth": 152}),
    "densenet121-36": ("densenet121", {}),
    "unet-12": ("unet", {"chips": 12}),
    "rnn-36": ("rnn", {"vocabulary": 1000}),
    "chain-36": ("chain", {"operations": 200}),
    "random-12": ("random", {"operations": 60, "chips": 12, "seed": 1}),
}

_CHAIN = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
_DIAMOND = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e")]


def _tiny(work_us: dict[str, int], edges: list[tuple[str, str]], **parameters: Any) -> tuple[str, dict[str, Any]]:
    given = {"chips": 3, "tensor_bytes": 32 * _KIB, **parameters}
    return "explicit", {"flop": {name: us * _US for name, us in work_us.items()}, "edges": edges, **given}


_FIVE = {"a": 3, "b": 5, "c": 4, "d": 2, "e": 3}

_TINY: dict[str, tuple[str, dict[str, Any]]] = {
    # nothing but balance
    "tiny-chain": _tiny(_FIVE, _CHAIN),
    # the branches may lie side by side, on chips that don't talk to each other
    "tiny-diamond": _tiny(_FIVE, _DIAMOND, chips=4),
    # C3: all that lies under the skip a -> e shares two chips
    "tiny-skip": _tiny(_FIVE, [*_CHAIN, ("a", "e")]),
    # the best cut by work carries a tensor that keeps its link busy for 20 us
    "tiny-links": _tiny(_FIVE, _CHAIN, sizes={"b": 640_000}),
    # C4: a and b, together on the best chip by work, don't fit there
    "tiny-memory": _tiny(
        _FIVE, _CHAIN, sram_mib=1.0, weight_bytes={"a": 600 * _KIB, "b": 500 * _KIB, "c": 300 * _KIB, "d": 200 * _KIB}
    ),
    # pins, keep-together groups and forbidden chips
    "tiny-pinned": _tiny(
        _FIVE,
        _DIAMOND,
        pins=[{"operation": "d", "chip": 1}],
        together=[["b", "c"]],
        forbidden=[{"operation": "e", "chips": [1]}],
    ),
    # C4: operation c fits on no chip
    "tiny-infeasible": _tiny(_FIVE, _CHAIN, sram_mib=1.0, weight_bytes={"c": 2048 * _KIB}),
}

#: Name of the instance -> (name of its generator in the family's list, its parameters).
SHIPPED: dict[str, tuple[str, dict[str, Any]]] = {
    f"ring/{name}": (generator, {"name": f"ring/{name}", **parameters})
    for name, (generator, parameters) in (_NETWORKS | _TINY).items()
}
