"""C6 of family ``multimodel`` as the page says it, and all schedules of tiny instances that obey it.

Nothing here comes from the models, the programs or the checker's reading of C6: schedules are listed, judged by the
checker without C6, and kept where this reading of it says so.
"""

from __future__ import annotations

from random import Random

from chipmap.instances.multimodel.instance import Forbidden, MultiInstance, MultiSolution, Pin, small
from chipmap.records import InputError
from chipmap.validation.multimodel.candidates import candidates, count
from chipmap.validation.multimodel.checker import check
from tests.multimodel.random_instances import varied_instance

FIELDS = ("pins", "forbidden", "together", "apart")
#: Schedules that brute force tries at most.
MOST = 1_500


def names(instance: MultiInstance) -> list[str]:
    """The layers, as C6 calls them."""
    return [f"{model.name}/{layer.name}" for model in instance.models for layer in model.layers]


def obeys(instance: MultiInstance, solution: MultiSolution) -> bool:
    """C6: pinned layers run on their chiplet, no layer on one forbidden to it; layers together on the same one, layers
    apart on different ones, whatever their windows."""
    where = {}
    for window in solution.windows:
        for piece in window:
            model = next(one for one in instance.models if one.name == piece.model)
            for k in range(piece.first, piece.last + 1):
                where[f"{model.name}/{model.layers[k].name}"] = piece.chiplet
    if any(where[pin.layer] != pin.chiplet for pin in instance.pins):
        return False
    if any(where[one.layer] in one.chiplets for one in instance.forbidden):
        return False
    if any(where[a] != where[b] for group in instance.together for a in group for b in group):
        return False
    return not any(where[a] == where[b] for group in instance.apart for a in group for b in group if a != b)


def optimum(instance: MultiInstance) -> int | None:
    """The least objective of all schedules that obey the page; None where there is none."""
    free = instance.replace(**dict.fromkeys(FIELDS, ()))
    judged = ((check(free, one), one) for one in candidates(free))
    found = [
        judge.objective
        for judge, one in judged
        if judge.feasible and judge.objective is not None and obeys(instance, one)
    ]
    return min(found, default=None)


def pinned_instance(random: Random, objective: str) -> MultiInstance:
    """A random tiny instance with pins, forbidden chiplets and groups at random; bad ones are drawn again."""
    while True:
        base = varied_instance(random, limits=random.random() < 0.4)
        if not small(base) or count(base) > MOST:
            continue
        base = base.replace(task=base.task.replace(objective=objective))
        layers, chiplets = names(base), [chiplet.name for chiplet in base.module.chiplets]

        def some(least: int, most: int, layers: list[str] = layers) -> tuple[str, ...]:
            return tuple(random.sample(layers, min(len(layers), random.randint(least, most))))

        asked = {
            "pins": tuple(Pin(layer=one, chiplet=random.choice(chiplets)) for one in some(0, 1)),
            "forbidden": tuple(Forbidden(layer=one, chiplets=(random.choice(chiplets),)) for one in some(0, 2)),
            "together": tuple(some(2, 3) for _ in range(random.choice((0, 1, 1)))),
            "apart": tuple(some(2, 3) for _ in range(random.choice((0, 1, 1)))),
        }
        try:
            made = base.replace(**asked)
            made.check()
        except InputError:
            continue
        if any(asked.values()):
            return made
