"""Models that need more chiplets than links join, against all schedules."""

from __future__ import annotations

from random import Random

from chipmap.instances.multimodel.generators import random_instance
from chipmap.instances.multimodel.problem import multi_problem
from chipmap.methods.multimodel.at_once import too_few_links, too_large
from chipmap.validation.brute_force import brute_force
from chipmap.validation.multimodel.checker import check


def test_too_few_links_is_a_proof() -> None:
    """On small SRAM, with and without links: what is named has no schedule."""
    random, proved = Random(4), 0
    for seed in range(150):
        columns = random.choice((1, 2, 3))
        instance = random_instance(
            seed=seed,
            layers=(random.choice((1, 2, 3)), random.choice((1, 2))) if columns > 1 else (3,),
            columns=columns,
            batch=2,
            task={"windows": random.choice((1, 1, 2))},
            sram_bytes=random.choice((300_000, 450_000, 600_000)),
        )
        if random.random() < 0.4:
            instance = instance.replace(module=instance.module.replace(links=[]))
        problem = multi_problem(instance)
        if not too_large(problem) and too_few_links(problem):
            proved += 1
            assert brute_force(instance, check)[0] is None
    assert proved > 10
