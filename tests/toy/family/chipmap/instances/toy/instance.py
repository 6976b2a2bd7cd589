"""The records of family ``toy``, what makes instances, and the units of their objectives."""

from __future__ import annotations

from random import Random
from typing import Any, Literal

from chipmap.records import InputError, Record, Unit, Units


class Task(Record, frozen=True, kw_only=True):
    """What a task takes on machine 0 and on machine 1: ticks of time (1 ms) and of energy (1 mJ)."""

    name: str
    time: tuple[int, int]
    energy: tuple[int, int]


class ToyInstance(Record, frozen=True, kw_only=True):
    """Tasks, and pairs of them (positions) that must not share a machine."""

    schema: Literal["toy/1"] = "toy/1"
    name: str
    tasks: tuple[Task, ...]
    apart: tuple[tuple[int, int], ...] = ()
    objective: Literal["time", "product"] = "time"

    def check(self) -> None:
        """Raise :class:`InputError` for what the types alone don't exclude."""
        for i, pair in enumerate(self.apart):
            if not all(0 <= task < len(self.tasks) for task in pair):
                raise InputError("names a task that doesn't exist", f"apart[{i}]", f"Tasks: {len(self.tasks)}.")
        for task in self.tasks:
            if min(*task.time, *task.energy) < 1:
                raise InputError("must be 1 or more", f"task {task.name}", "Give whole ticks.")


class ToySolution(Record, frozen=True, kw_only=True):
    """The machine of each task."""

    schema: Literal["toy-solution/1"] = "toy-solution/1"
    instance: str = ""
    machines: tuple[int, ...]


def generate(tasks: int = 5, pairs: int = 1, seed: int = 0, objective: Any = "time", name: str = "toy") -> ToyInstance:
    """Random tasks; machine 1 tends to be slower and to take less energy."""
    random = Random(seed)
    made = [
        Task(
            name=f"task{i}",
            time=(random.randint(1, 9), random.randint(3, 12)),
            energy=(random.randint(5, 20), random.randint(1, 9)),
        )
        for i in range(tasks)
    ]
    apart = {tuple(sorted(random.sample(range(tasks), 2))) for _ in range(pairs)}
    return ToyInstance.make(name=name, tasks=made, apart=sorted(apart), objective=objective)


SHIPPED = {
    f"toy/tiny-{seed}": (
        "toy-random",
        {"tasks": 3 + seed % 4, "seed": seed, "objective": ("time", "product")[seed % 2], "name": f"toy/tiny-{seed}"},
    )
    for seed in range(12)
}


def from_graphs(graphs: list[tuple[Any, str]]) -> ToyInstance:
    """One task for each graph: a millisecond for each operation, twice as long on machine 1."""
    counts = [len(imported.graph.operations) for imported, _ in graphs]
    tasks = [Task(name=name, time=(n, 2 * n), energy=(2 * n, n)) for (_, name), n in zip(graphs, counts, strict=True)]
    return ToyInstance(name="+".join(name for _, name in graphs), tasks=tuple(tasks))


def units(instance: ToyInstance) -> Units:
    """Seconds or joule-seconds; the terms in seconds and joules."""
    time, energy = Unit(name="s", per_tick=1e-3), Unit(name="J", per_tick=1e-3)
    product = Unit(name="J s", per_tick=1e-6)
    return Units(objective=product if instance.objective == "product" else time, terms={"T1": time, "T2": energy})
