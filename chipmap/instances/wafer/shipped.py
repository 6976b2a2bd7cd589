"""The shipped instances: a name, the generator that makes it, and its parameters.

``wafer/ispd2020-A`` to ``T`` are the inputs of the ISPD 2020 contest: ten graphs with two weightings each.
"""

from __future__ import annotations

from typing import Any

Entry = tuple[str, dict[str, Any]]

#: Letters of the two weightings -> the graph.
_GRAPHS: dict[str, Entry] = {
    "AE": ("wafer-resnet", {}),
    "BF": ("wafer-resnet", {"stages": [5, 7, 11, 5], "channels": 256}),
    "CG": ("wafer-resnet", {"stages": [5, 7, 11, 5], "channels": 256, "level": "convolution"}),
    "DH": ("wafer-resnet", {"level": "convolution"}),
    "IO": ("wafer-resnet", {"stages": [4, 5, 8, 4], "first": "keeps"}),
    "JP": ("wafer-resnet", {"stages": [4, 5, 8, 4], "first": "keeps", "level": "convolution"}),
    "KQ": ("wafer-resnet", {"filters": 16, "channels": 8}),
    "LR": ("wafer-resnet", {"filters": 16, "channels": 8, "level": "convolution"}),
    "MS": ("wafer-unet", {}),
    "NT": ("wafer-fc", {}),
}
#: Letter -> the weights of wires and adapters, and the contest's own name.
_CASES: dict[str, tuple[int, int, str]] = {
    "A": (1, 0, "compact-balanced-router"),
    "B": (1, 0, "2x-compact-balanced-router"),
    "C": (1, 0, "2x-full-balanced-router"),
    "D": (1, 0, "full-balanced-router"),
    "E": (10, 100, "compact-adapter-router-limited"),
    "F": (10, 100, "2x-compact-adapter-router-limited"),
    "G": (10, 100, "2x-full-adapter-router-limited"),
    "H": (10, 100, "full-adapter-router-limited"),
    "I": (4, 0, "resnet75-totem-deltat"),
    "J": (4, 0, "resnet75-conv-deltat"),
    "K": (4, 0, "resnet50-lean-totem-deltat"),
    "L": (4, 0, "resnet50-lean-conv-deltat"),
    "M": (4, 0, "unet-conv-deltat-t"),
    "N": (4, 0, "fcnet-lite-deltat"),
    "O": (40, 400, "resnet75-totem-balanced"),
    "P": (40, 400, "resnet75-conv-balanced"),
    "Q": (40, 400, "resnet50-lean-totem-balanced"),
    "R": (40, 400, "resnet50-lean-conv-balanced"),
    "S": (400, 400, "unet-conv-balanced"),
    "T": (40, 400, "fcnet-lite-balanced"),
}


def _contest() -> dict[str, Entry]:
    found = {}
    for letter, (wire, adapter, title) in _CASES.items():
        generator, parameters = next(graph for letters, graph in _GRAPHS.items() if letter in letters)
        weights = {"wire_weight": wire, "adapter_weight": adapter}
        found[f"ispd2020-{letter}"] = (generator, {**parameters, **weights, "notes": f"ISPD 2020 {letter}: {title}"})
    return found


_LARGE: dict[str, Entry] = {
    "bert-large": ("wafer-bert", {}),
    "bert-large-heads": ("wafer-bert", {"split": "heads"}),
    "gpt2": ("wafer-gpt2", {"split": "attention"}),
    "resnet-1000": ("wafer-resnet", {"stages": [40, 60, 180, 48], "level": "convolution", "filters": 64}),
}

_THREE = {
    "a": {"H": 4, "W": 4, "C": 4, "K": 4},
    "b": {"H": 2, "W": 2, "C": 8, "K": 2},
    "c": {"H": 1, "W": 1, "C": 16, "K": 4},
}
_TWO = {name: _THREE[name] for name in "ab"}


def _tiny(width: int, height: int, edges: str, kernels: dict[str, dict[str, Any]], **parameters: Any) -> Entry:
    given = {"kernels": kernels, "edges": [list(pair) for pair in edges.split()], "width": width, "height": height}
    return "wafer-explicit", {**given, **parameters}


_TINY: dict[str, Entry] = {
    # time against wires
    "tiny-chain": _tiny(9, 3, "ab bc", _THREE, wire_weight=20),
    # a also feeds c, past b
    "tiny-skip": _tiny(8, 3, "ab bc ac", _THREE, wire_weight=20),
    # upright, kernel a would be twice as slow
    "tiny-rotation": _tiny(8, 3, "ab", _TWO),
    # the fastest floorplan has adapters that cost more than the time they save
    "tiny-adapters": _tiny(6, 5, "ab", _TWO, wire_weight=2, adapter_weight=100),
    # three convolutions in one kernel, each with its own c and k
    "tiny-block": _tiny(12, 3, "ab", {"a": {"kind": "dblock", "H": 2, "W": 2, "F": 4}, "b": _THREE["a"]}),
    # C3: wherever kernel a fits on the fabric it needs more words than a tile has
    "tiny-memory": _tiny(8, 3, "ab", _TWO, memory_words=4),
    # C2: each kernel fits, both don't
    "tiny-fabric": _tiny(5, 2, "ab", _TWO),
}

#: Name of the instance -> (name of its generator in the family's list, its parameters).
SHIPPED: dict[str, Entry] = {
    f"wafer/{name}": (generator, {"name": f"wafer/{name}", **parameters})
    for name, (generator, parameters) in (_contest() | _LARGE | _TINY).items()
}
