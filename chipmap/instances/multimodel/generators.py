"""Generators of family ``multimodel``."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.multimodel.instance import Layer, Model, MultiInstance, Task
from chipmap.instances.multimodel.modules import Pattern, Topology, grid


def random_instance(
    layers: tuple[int, ...] = (3, 2),
    rows: int = 1,
    columns: int = 2,
    pattern: Pattern = "checkerboard",
    topology: Topology = "mesh",
    batch: int = 4,
    mini_batch: int = 1,
    seed: int = 0,
    sram_bytes: int | None = None,
    deadline_ns: int | None = None,
    task: dict[str, Any] | None = None,
    name: str = "multimodel-random",
) -> MultiInstance:
    """Models with so many ``layers`` each, random costs on two classes; ``deadline_ns`` is that of the first model."""
    random, models = Random(seed), []
    for m, count in enumerate(layers):
        made = []
        for k in range(count):
            costs = {
                kind: (random.randint(1_000, 20_000), random.randint(100_000, 3_000_000))
                for kind in ("nvdla", "shidiannao")
            }
            in_bytes, weight_bytes, out_bytes = (random.randint(0, most) for most in (60_000, 400_000, 150_000))
            made.append(
                Layer(name=f"l{k}", in_bytes=in_bytes, weight_bytes=weight_bytes, out_bytes=out_bytes, costs=costs)
            )
        deadline = deadline_ns if m == 0 else None
        models.append(Model(name=f"m{m}", batch=batch, mini_batch=mini_batch, deadline_ns=deadline, layers=tuple(made)))
    module = grid(rows, columns, pattern, topology, sram_bytes=sram_bytes)
    return MultiInstance.make(name=name, task=Task(**(task or {"windows": 2})), models=models, module=module)
