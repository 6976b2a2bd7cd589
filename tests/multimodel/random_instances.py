"""Tiny multimodel instances for the conformance suite and for random tests."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.generators import random_instance
from chipmap.instances.multimodel.instance import Chiplet, Layer, Model, Module, Pin, Task

#: Bytes of SRAM that hold each layer of an instance of seed 5, but no two of one model.
SMALL = 450_000
#: A schedule that runs no frame keeps these.
ALWAYS_KEPT = ("C7", "C8")


def made(seed: int, objective: str = "edp", windows: int = 2, task: dict[str, Any] | None = None, **rest: Any) -> Any:
    """An instance of that objective and so many windows."""
    asked = {"objective": objective, "windows": windows, **(task or {})}
    return random_instance(seed=seed, task=asked, name="variant", **rest)


def variants() -> dict[str, MultiInstance]:
    """Each feature of the problem in a tiny instance."""
    pinned = made(10, "latency", layers=(2, 1))
    first, chiplet = pinned.models[0], pinned.module.chiplets[-1]
    pin = Pin(layer=f"{first.name}/{first.layers[0].name}", chiplet=chiplet.name)
    pinned = pinned.replace(pins=(pin,))
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
        "pins": pinned,
        "frames": rated((2, 1), 2, None),
        "frames that follow": rated((1, 2), 1, "m0"),
        "frames within energy": rated((2, 1), 1, None, energy_limit_pj=800),
    }


def rated(layers: tuple[int, int], often: int, after: str | None, **task: Any) -> MultiInstance:
    """Two models on two linked chiplets, with transfers at no cost and a hyperperiod of 4 ns.

    Layers take 1 or 2 ns. The second model comes ``often`` times as often as the first, perhaps after it.
    """
    times = ({"N": (1, 100), "S": (2, 70)}, {"N": (2, 300), "S": (1, 200)})
    models = tuple(
        Model(
            name=f"m{m}",
            layers=tuple(Layer(name=f"l{k}", costs=times[(m + k) % 2]) for k in range(count)),
            frames_per_s=2.5e8 * (often if m else 1),
            frame_weight=2 - m,
            after=after if m else None,
        )
        for m, count in enumerate(layers)
    )
    chiplets = tuple(Chiplet(name=f"c{c}", kind=kind, hops=0) for c, kind in enumerate("NS"))
    free: dict[str, Any] = {"hop_ns": 0, "dram_ns": 0, "hop_pj_per_byte": 0.0, "dram_pj_per_byte": 0.0}
    module = Module(chiplets=chiplets, links=(("c0", "c1"),), **free)
    return MultiInstance.make(name="rated", task=Task(objective="frames", **task), models=models, module=module)


def infeasible() -> dict[str, tuple[tuple[str, ...], MultiInstance]]:
    """(labels that can't hold together, instance); without one of them there would be schedules."""
    split = made(5, "latency", 1, sram_bytes=SMALL, layers=(2, 2))
    one = split.replace(models=split.models[:1])
    two = made(11, "latency", 1, layers=(1, 1))
    names = tuple(f"{model.name}/{model.layers[0].name}" for model in two.models)
    return {
        "two models on a chiplet at once": (("C1", "C2", "C6"), two.replace(together=(names,))),
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


#: Modules of up to four chiplets: number, links.
SHAPES: dict[str, tuple[int, tuple[tuple[int, int], ...]]] = {
    "one": (1, ()),
    "pair": (2, ((0, 1),)),
    "apart": (2, ()),
    "line": (3, ((0, 1), (1, 2))),
    "triangle": (3, ((0, 1), (1, 2), (2, 0))),
    "pair and one": (3, ((0, 1),)),
    "square": (4, ((0, 1), (2, 3), (0, 2), (1, 3))),
    "triangular": (4, ((0, 1), (2, 3), (0, 2), (1, 3), (0, 3))),
    "line of four": (4, ((0, 1), (1, 2), (2, 3))),
    "two pairs": (4, ((0, 1), (2, 3))),
    "star": (4, ((0, 1), (0, 2), (0, 3))),
}


def varied_instance(random: Random, limits: bool = True) -> MultiInstance:
    """Two or three models on one to four chiplets in up to three windows, with what instances may differ in.

    Sizes of zero, equal costs on all classes, layers without cost, chiplets without hops or all as far away as each
    other, modules in several parts, batches whole or in mini-batches, SRAM of some chiplets, both charges; with
    ``limits`` perhaps limits and deadlines, near to what schedules take.
    """
    shape = random.choice(list(SHAPES))
    number, links = SHAPES[shape]
    models = tuple(_varied_model(random, m) for m in range(random.choice((2, 2, 2, 3))))
    far, sram = random.choice(((1,), (0,), (1, 2), (0, 1, 3))), random.choice((None, None, None, 500_000, 900_000))
    chiplets = tuple(
        Chiplet(
            name=f"c{c}",
            kind=random.choice("NS"),
            hops=random.choice(far),
            sram_bytes=random.choice((sram, sram, None)),
        )
        for c in range(number)
    )
    rates = random.choice(({}, {}, {"dram_bytes_per_ns": 3.7, "nop_bytes_per_ns": 0.9}, {"hop_ns": 0, "dram_ns": 0}))
    module = Module(chiplets=chiplets, links=tuple((f"c{a}", f"c{b}") for a, b in links), **rates)
    windows = max(random.choice((1, 2, 2, 3)), -(-len(models) // number))
    task = Task(windows=windows, charge=random.choice(("sender", "both")), watts=random.choice((0.0, 1.0, 2500.5)))
    made = MultiInstance.make(name=shape, task=task, models=models, module=module)
    return _limited(random, made) if limits else made


def _varied_model(random: Random, m: int) -> Model:
    """One to three layers; all that differs between instances."""
    layers, equal, free = [], random.random() < 0.2, random.random() < 0.1
    sizes = random.choice(((0, 60_000), (0, 0), (0, 400_000)))
    batch = random.choice((1, 2, 6, 12))
    for k in range(random.choice((1, 2, 2, 3))):
        pairs = [(random.randint(1_000, 20_000), random.randint(100_000, 3_000_000)) for _ in "NS"]
        pairs = [(0, 0)] * 2 if free and k == 0 else [pairs[0]] * 2 if equal else pairs
        in_bytes, weight_bytes, out_bytes = (random.randint(*random.choice((sizes, (0, 0), sizes))) for _ in range(3))
        costs = dict(zip("NS", pairs, strict=True))
        layers.append(
            Layer(name=f"l{k}", in_bytes=in_bytes, weight_bytes=weight_bytes, out_bytes=out_bytes, costs=costs)
        )
    mini = random.choice([b for b in range(1, batch + 1) if batch % b == 0])
    return Model(name=f"m{m}", batch=batch, mini_batch=mini, layers=tuple(layers))


def _limited(random: Random, instance: MultiInstance) -> MultiInstance:
    """Perhaps with limits: of latency, energy, of a model's time, between half and twice what one chiplet takes."""

    def most(model: Model, part: int) -> int:
        return sum(model.batch * max(pair[part] for pair in layer.costs.values()) for layer in model.layers)

    time, energy = (sum(most(model, part) for model in instance.models) for part in (0, 1))
    asked: dict[str, int] = {}
    if random.random() < 0.25:
        asked["latency_limit_ns"] = int(time * random.uniform(0.3, 2.0))
    if random.random() < 0.25:
        asked["energy_limit_pj"] = int(energy * random.uniform(0.8, 3.0))
    models = tuple(
        model.replace(deadline_ns=int(time * random.uniform(0.1, 1.5))) if random.random() < 0.25 else model
        for model in instance.models
    )
    return instance.replace(task=instance.task.replace(**asked), models=models)
