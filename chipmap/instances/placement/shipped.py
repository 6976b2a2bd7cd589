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

#: The workloads of GDP's comparison: network, its parameters, devices.
_WORKLOADS: dict[str, tuple[str, dict[str, int], int]] = {
    "rnnlm-2": ("rnnlm", {"layers": 2}, 2),
    "rnnlm-4": ("rnnlm", {"layers": 4}, 4),
    "gnmt-2": ("gnmt", {"layers": 2}, 2),
    "gnmt-4": ("gnmt", {"layers": 4}, 4),
    "gnmt-8": ("gnmt", {"layers": 8}, 8),
    "transformer-xl-2": ("transformer-xl", {"layers": 2}, 2),
    "transformer-xl-4": ("transformer-xl", {"layers": 4}, 4),
    "transformer-xl-8": ("transformer-xl", {"layers": 8}, 8),
    "inception-2": ("inception", {}, 2),
    "amoebanet-4": ("amoebanet", {}, 4),
    "wavenet-2": ("wavenet", {"stacks": 2, "layers": 18}, 2),
    "wavenet-4": ("wavenet", {"stacks": 4, "layers": 36}, 4),
    "gnmt-8-50k": ("gnmt", {"layers": 8, "steps": 144}, 8),
}


def _training(name: str, links: str) -> tuple[str, dict[str, Any]]:
    network, parameters, devices = _WORKLOADS[name]
    fields = {"network": network, "parameters": parameters, "devices": devices, "system": f"p100-{links}"}
    fields["saved"] = "operands"  # as their published results have it
    return "placement-training", fields


_TRAINING = {f"{name}-{links}": _training(name, links) for name in _WORKLOADS for links in ("pcie", "nvlink")}
del _TRAINING["gnmt-8-50k-nvlink"]

#: name -> (generator, parameters).
SHIPPED: dict[str, tuple[str, dict[str, Any]]] = {
    f"placement/{name}": (generator, {**parameters, "name": f"placement/{name}"})
    for name, (generator, parameters) in {**_TRAINING, **_TINY}.items()
}

#: The workloads of the sweep over devices and links: name -> (network, its parameters).
_SCALED: dict[str, tuple[str, dict[str, int]]] = {
    "rnnlm-4": ("rnnlm", {"layers": 4}),
    "transformer-xl-4": ("transformer-xl", {"layers": 4}),
    "inception": ("inception", {}),
    "wavenet-2": ("wavenet", {"stacks": 2, "layers": 18}),
}

#: name -> fields of a sweep.
SWEEPS: dict[str, dict[str, Any]] = {
    "placement/scaling": {
        "schema": "sweep/1",
        "notes": "training steps of four networks on 1 to 8 P100, PCIe and NVLink: step time, bound, where time goes",
        "generator": "placement-training",
        "parameters": {"saved": "operands"},
        "axes": [
            {
                "name": "workload",
                "choices": [
                    {"label": name, "parameters": {"name": name, "network": network, "parameters": parameters}}
                    for name, (network, parameters) in _SCALED.items()
                ],
            },
            {
                "name": "links",
                "choices": [
                    {"label": label, "parameters": {"system": f"p100-{name}"}}
                    for name, label in (("pcie", "PCIe"), ("nvlink", "NVLink"))
                ],
            },
            {"name": "devices", "parameter": "devices", "values": [1, 2, 4, 8]},
        ],
        "time_limit_s": 60.0,
    }
}
