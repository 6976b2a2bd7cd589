"""Tiny multimodel instances for the conformance suite and for random tests."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.generators import random_instance

#: Bytes of SRAM that hold each layer of an instance of seed 5, but no two of one model.
SMALL = 450_000


def made(seed: int, objective: str = "edp", windows: int = 2, task: dict[str, Any] | None = None, **rest: Any) -> Any:
    """An instance of that objective and so many windows."""
    asked = {"objective": objective, "windows": windows, **(task or {})}
    return random_instance(seed=seed, task=asked, name="variant", **rest)


def variants() -> dict[str, MultiInstance]:
    """Each feature of the problem in a tiny instance."""
    return {
        "a deadline": made(1, "energy", deadline_ns=150_000),
        "a limit on latency": made(2, "energy", task={"latency_limit_ns": 150_000}),
        "a limit on energy": made(3, "latency", task={"energy_limit_pj": 600_000_000}),
        "memory binds": made(4, "latency", sram_bytes=700_000),
        "both ends pay": made(5, "latency", 1, layers=(4,), columns=3, task={"charge": "both"}),
        "a single layer": made(6, "edp", 1, layers=(1,)),
        "no watts": made(7, "weighted", task={"watts": 0.0}),
        "many watts": made(8, "weighted", task={"watts": 12.5}),
        "no links needed": made(9, "edp", 3, layers=(1, 1, 1), columns=1),
    }


def infeasible() -> dict[str, tuple[tuple[str, ...], MultiInstance]]:
    """(labels that can't hold together, instance); without one of them there would be schedules."""
    split = made(5, "latency", 1, sram_bytes=SMALL, layers=(2, 2))
    one = split.replace(models=split.models[:1])
    return {
        "latency below the least": (("C1", "C4"), made(1, "energy", task={"latency_limit_ns": 10})),
        "energy below the least": (("C1", "C4"), made(2, "latency", task={"energy_limit_pj": 10})),
        "a deadline nobody keeps": (("C1", "C4"), made(3, "energy", deadline_ns=5_000)),
        "a layer larger than any SRAM": (("C1", "C5"), made(4, "latency", sram_bytes=1_000)),
        "two segments without a link": (("C0", "C1", "C3", "C5"), one.replace(module=one.module.replace(links=()))),
        "four segments on two chiplets": (("C0", "C1", "C2", "C5"), split),
    }


def tiny_instance(random: Random) -> MultiInstance:
    """A random instance of one to three models on one to four chiplets."""
    count = random.choice((1, 2, 2, 3))
    rows, columns = random.choice(((1, 1), (1, 2), (1, 2), (1, 3), (2, 2)))
    windows = random.choice((1, 2)) if rows * columns > 1 else 3
    windows = max(windows, -(-count // (rows * columns)))
    objective = random.choice(("latency", "energy", "weighted", "edp"))
    return made(
        random.randrange(10**6),
        objective,
        windows,
        layers=tuple(random.choice((1, 2, 2, 3)) for _ in range(count)),
        rows=rows,
        columns=columns,
        batch=4,
        mini_batch=random.choice((1, 2, 4)),
        topology=random.choice(("mesh", "triangular")),
        sram_bytes=random.choice((None, None, 600_000, 900_000)),
        deadline_ns=random.choice((None, None, 200_000)),
        task={
            "charge": random.choice(("sender", "both")),
            "latency_limit_ns": random.choice((None, None, 250_000)),
            "watts": random.choice((0.5, 3.0)),
        },
    )
