"""The shipped instances of family ``multimodel``: name -> (generator, parameters)."""

from __future__ import annotations

from typing import Any


def _tiny(seed: int, objective: str, windows: int = 2, **parameters: Any) -> tuple[str, dict[str, Any]]:
    return "multimodel-random", {"seed": seed, "task": {"objective": objective, "windows": windows}, **parameters}


_TINY = {
    "tiny-pipeline": _tiny(1, "latency", 1, layers=[4], columns=3, batch=8),
    "tiny-two": _tiny(2, "edp"),
    "tiny-latency": _tiny(3, "latency"),
    "tiny-energy": _tiny(4, "energy"),
    "tiny-weighted": _tiny(5, "weighted"),
    "tiny-square": _tiny(6, "edp", 1, layers=[2, 2], rows=2),
    "tiny-triangular": _tiny(7, "latency", 1, layers=[3, 1], rows=2, topology="triangular"),
    "tiny-three": _tiny(8, "edp", 2, layers=[2, 1, 2]),
    "tiny-whole-batch": _tiny(9, "edp", 2, batch=4, mini_batch=4),
    "tiny-one-chiplet": _tiny(10, "edp", 3, layers=[2, 2], columns=1),
    "tiny-memory": _tiny(11, "edp", 2, sram_bytes=700_000),
    "tiny-both-ends": ("multimodel-random", {"seed": 12, "task": {"objective": "edp", "windows": 1, "charge": "both"}}),
}


def _scenario(number: int, how: str, **parameters: Any) -> tuple[str, dict[str, Any]]:
    return "multimodel-scenario", {"number": number, "pipelined": how == "pipelined", **parameters}


_SCAR = {f"scar-{number}-{how}": _scenario(number, how) for number in range(1, 11) for how in ("whole", "pipelined")}
_SCAR |= {f"scar-{number}-whole-cb": _scenario(number, "whole", pattern="checkerboard") for number in range(6, 11)}
_SCAR |= {
    f"scar-4-{how}-cross-6x6-{count}": _scenario(4, how, rows=6, columns=6, pattern="cross", task={"windows": count})
    for how in ("whole", "pipelined")
    for count in (3, 4)
}
_NETWORKS: dict[str, tuple[str, dict[str, Any]]] = {
    "resnet50-unet": ("multimodel-networks", {"models": {"resnet50": 32, "unet": 1}, "mini_batch": 1}),
    "four-models": (
        "multimodel-networks",
        {"models": {"gpt2-small": 8, "bert-base": 24, "unet": 1, "resnet50": 32}, "mini_batch": 1},
    ),
}

#: name -> (generator, parameters).
SHIPPED: dict[str, tuple[str, dict[str, Any]]] = {
    f"multimodel/{name}": (generator, {**parameters, "name": f"multimodel/{name}"})
    for name, (generator, parameters) in {**_SCAR, **_NETWORKS, **_TINY}.items()
}

#: Of a front: instance, its least latency known and that of an energy-optimal schedule in ns, and how much denser the
#: limits are where latency is short.
_FRONTS = {
    "front-8-pipelined": ("scar-8-pipelined", 540_656_652, 3_955_640_007, 3),
    "front-8-whole": ("scar-8-whole", 2_948_141_611, 4_034_374_983, 2),
}
_POINTS = 16


def _front(instance: str, first: int, last: int, power: int) -> dict[str, Any]:
    """The least energy within limits on latency from a thousandth above ``first`` to ``last``, with steps that grow."""
    steps = _POINTS - 1
    limits = [first + (last - first) * i**power // steps**power for i in range(_POINTS)]
    limits[0] += first // 1000
    choices = [{"label": f"{limit / 1e9:.4f} s", "set": {"task.latency_limit_ns": limit}} for limit in limits]
    return {
        "schema": "sweep/1",
        "notes": f"the least energy of {instance} within a limit on latency",
        "instance": f"multimodel/{instance}",
        "set": {"task.objective": "energy"},
        "axes": [{"name": "latency limit", "choices": choices}],
        "time_limit_s": 120.0,
    }


#: name -> fields of a sweep.
SWEEPS: dict[str, dict[str, Any]] = {f"multimodel/{name}": _front(*given) for name, given in _FRONTS.items()}
