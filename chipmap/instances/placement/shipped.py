"""The shipped instances of family ``placement``: name -> (generator, parameters)."""

from __future__ import annotations

from typing import Any


def _tiny(seed: int, objective: str = "step_time", rule: str = "none", **rest: Any) -> tuple[str, dict[str, Any]]:
    task = {"objective": objective, "memory": rule, **rest.pop("task", {})}
    return "placement-random", {"seed": seed, "task": task, **rest}


_TINY = {
    "tiny-pair": _tiny(1),
    "tiny-none": _tiny(2, links="none"),
    "tiny-bus": _tiny(3, links="bus", gap_ns=2),
    "tiny-duplex": _tiny(4, links="duplex", operations=3, devices=3),
    "tiny-host": _tiny(5, links="host"),
    "tiny-classes": _tiny(6, classes=2),
    "tiny-live": _tiny(7, rule="live", operations=3, memory=0.8),
    "tiny-variable": _tiny(8, weights=2, task={"weights": "variable"}),
    "tiny-throughput": _tiny(9, "throughput", operations=5),
    "tiny-contiguous": _tiny(10, "throughput", operations=5, task={"contiguous": True}),
}

#: name -> (generator, parameters).
SHIPPED: dict[str, tuple[str, dict[str, Any]]] = {
    f"placement/{name}": (generator, {**parameters, "name": f"placement/{name}"})
    for name, (generator, parameters) in _TINY.items()
}
