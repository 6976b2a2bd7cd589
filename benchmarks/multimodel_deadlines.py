"""Deadlines on modules of three classes: gaps of `multimodel/auto` on thirty generated instances that nobody tuned to.

    python -m benchmarks.multimodel_deadlines [--seeds 700 730] > benchmarks/results/multimodel-deadlines.md

Each seed is an instance of two or three models of 10 to 100 layers in all, on seven or eight chiplets of three classes
with random links: one class is fast, one takes little energy, one lies between. Every model has a deadline: 1.2 to 2.2
times an ideal latency. That is the model's own latency as a pipeline of three equal segments, with each layer on its
fastest class, weights read and no other transfer. Objectives take turns: EDP, latency, weighted, energy. The limit is
120 s on one thread (`--time-limit`); seconds are those of the processor.
"""

from __future__ import annotations

from random import Random

from benchmarks.multimodel_runs import OBJECTIVES, table
from chipmap.instances.multimodel.instance import Chiplet, Layer, Model, Module, MultiInstance, Task

#: Class -> factors of a layer's time and energy.
CLASSES = {"fast": (1.0, 3.0), "middle": (2.0, 1.5), "frugal": (5.0, 1.0)}


def module(random: Random) -> Module:
    """Seven or eight chiplets in two rows, each next to at least one other; a fifth of the grid's links are missing."""
    count = random.choice((7, 8))
    kinds = [*CLASSES, *random.choices(list(CLASSES), k=count - len(CLASSES))]
    random.shuffle(kinds)
    places = [(y, x) for y in range(2) for x in range(4)][:count]
    chiplets = tuple(
        Chiplet(name=f"c{y}{x}", kind=kind, hops=min(x, 3 - x) + 1, x=x, y=y)
        for (y, x), kind in zip(places, kinds, strict=True)
    )
    pairs = [(a, b) for a in places for b in places if a < b and abs(a[0] - b[0]) + abs(a[1] - b[1]) == 1]
    links = [
        (f"c{a[0]}{a[1]}", f"c{b[0]}{b[1]}")
        for a, b in pairs
        if (a[0] == 0 and b[0] == 0) or (a[0] != b[0] and b[1] == 0) or random.random() < 0.8
    ]
    return Module(chiplets=chiplets, links=tuple(links), dram_bytes_per_ns=random.choice((16.0, 64.0, 256.0)))


def instance(seed: int) -> MultiInstance:
    """The instance of a seed."""
    random = Random(seed)
    chips = module(random)
    count = random.choice((2, 3))
    layers = round(10 * 10 ** random.random())
    cuts = sorted(random.sample(range(1, layers), count - 1))
    models = []
    for m, (low, high) in enumerate(zip((0, *cuts), (*cuts, layers), strict=True)):
        batch = random.choice((1, 2, 4, 8))
        made = tuple(_layer(random, k) for k in range(high - low))
        model = Model(name=f"m{m}", batch=batch, mini_batch=1, layers=made)
        models.append(
            model.replace(deadline_ns=round(ideal(model, chips.dram_bytes_per_ns) * random.uniform(1.2, 2.2)))
        )
    task = Task.make(objective=OBJECTIVES[seed % 4], windows=random.randint(1, 4))
    return MultiInstance.make(name=f"deadlines-{seed}", task=task, models=models, module=chips)


def ideal(model: Model, rate: float) -> float:
    """Latency in ns of three equal segments in a pipeline: a sample through all, the weights, the samples behind it."""
    times = [min(time for time, _ in layer.costs.values()) for layer in model.layers]
    weights = sum(layer.weight_bytes for layer in model.layers) / rate
    return sum(times) + weights + (model.batch - 1) * max(*times, sum(times) / 3)


def _layer(random: Random, number: int) -> Layer:
    time, energy = random.randint(2_000, 20_000), random.randint(100_000, 2_000_000)
    costs = {
        kind: (round(time * slow * random.uniform(0.5, 1.5)), round(energy * much * random.uniform(0.5, 1.5)))
        for kind, (slow, much) in CLASSES.items()
    }
    sizes = {name: random.randint(0, most) for name, most in SIZES.items()}
    return Layer(name=f"l{number}", costs=costs, **sizes)


#: Field -> its greatest value, bytes.
SIZES = {"in_bytes": 60_000, "weight_bytes": 200_000, "out_bytes": 60_000}


if __name__ == "__main__":
    raise SystemExit(table("Deadlines on three classes of chiplets", __doc__ or "", instance, (700, 730), 120.0))
