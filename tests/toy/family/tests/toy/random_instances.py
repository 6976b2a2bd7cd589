"""Instances of family ``toy`` for the conformance suite."""

from __future__ import annotations

from random import Random

from chipmap.instances.toy.instance import ToyInstance, generate


def variants() -> dict[str, ToyInstance]:
    """Beside the shipped ones none."""
    return {}


def infeasible() -> dict[str, tuple[tuple[str, ...], ToyInstance]]:
    """(labels that can't hold, instance): three tasks, each apart from the others."""
    return {"triangle": (("C1",), generate(tasks=3).replace(apart=((0, 1), (1, 2), (0, 2))))}


def tiny_instance(random: Random) -> ToyInstance:
    """Up to six tasks."""
    objective = random.choice(("time", "product"))
    return generate(random.randint(2, 6), random.randint(0, 2), random.randrange(10**6), objective)
