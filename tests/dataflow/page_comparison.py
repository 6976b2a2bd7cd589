"""The checker held against the page's own brute force (:mod:`tests.dataflow.page`), for tests and the benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance, DataflowSolution
from chipmap.validation.brute_force import brute_force
from chipmap.validation.dataflow.checker import check
from chipmap.validation.dataflow.mapping import mapping_of as taken_apart
from chipmap.validation.dataflow.times import held
from tests.dataflow.page.cost import judged, mapping_of
from tests.dataflow.page.mappings import best, mappings
from tests.dataflow.page.memory import sram


def none_differ(make: Callable[[Random], DataflowInstance], seeds: int) -> None:
    """Labels, terms and objective of random mappings are those of the brute force that is written from the pages."""
    for seed in range(seeds):
        random = Random(seed)
        wrong, _, _ = differences(make(random), random, 80, 8)
        assert not wrong, (seed, wrong[:3])


def differences(instance: DataflowInstance, random: Random, most: int, tried: int) -> tuple[list[str], int, bool]:
    """(what differs, mappings compared one by one, whether all were enumerated).

    ``tried`` mappings, each as it is and tampered with, get the same labels, terms, objective, SRAM and DRAM. Where
    there are at most ``most``, both brute forces have the same optimum.
    """
    found, compared = list[str](), 0
    some = [*islice(mappings(instance), 4 * most)]
    for mapping in random.sample(some, min(len(some), tried)):
        for one in (mapping, tampered(mapping, instance, random)):
            found += _differ(instance, one)
            compared += 1
    ours = best(instance, most) if len(some) <= most else None
    if ours is not None:
        theirs = brute_force(instance, check)[0]
        if theirs != ours[0]:
            found.append(f"the optimum: {ours[0]} by the page, {theirs} by the checker")
    return found, compared, ours is not None


def _differ(instance: DataflowInstance, mapping: DataflowSolution) -> Iterator[str]:
    page, certificate = judged(instance, mapping), check(instance, mapping)
    labels = frozenset(one.label for one in certificate.violations)
    said = f"{mapping.degrees.dimensions} {mapping.schemes} {mapping.partitions} {mapping.stages} {mapping.keep}"
    if labels != page.broken:
        yield f"labels: {sorted(page.broken)} by the page, {sorted(labels)} by the checker: {said}"
    if page.objective is None:
        return
    ours: dict[str, Any] = {**page.terms, "objective": page.objective, "dram_bytes": page.dram}
    theirs: dict[str, Any] = {**certificate.terms, "objective": certificate.objective}
    theirs["dram_bytes"] = certificate.figures.get("dram_bytes")
    ours["SRAM"] = {p: size for p, size in sram(mapping_of(instance, mapping)).items() if size}
    theirs["SRAM"] = {p: size for p, size in held(taken_apart(instance, mapping)).items() if size}
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            yield f"{name}: {ours.get(name)} by the page, {theirs.get(name)} by the checker: {said}"


def tampered(mapping: DataflowSolution, instance: DataflowInstance, random: Random) -> DataflowSolution:
    """``mapping`` with one thing changed, so that some constraint may break."""
    partitions = list(mapping.partitions)
    what = random.randrange(8)
    if what == 7:
        return mapping.replace(keep=random.choice((None, "none", "phase", "step")))
    if what < 3:
        partitions[random.randrange(len(partitions))] = random.randrange(len(partitions))
        return mapping.replace(partitions=tuple(partitions), stages=_stages(mapping, partitions, random))
    if what == 3:
        return mapping.replace(partitions=tuple(reversed(partitions)))
    if what == 4:
        schemes = list(mapping.schemes)
        schemes[random.randrange(len(schemes))] = random.choice(("M", "N", "K", "NONE", "OUTER", "E"))
        return mapping.replace(schemes=tuple(schemes))
    if what == 5:
        return mapping.replace(micro_batch=random.choice((None, 1, 2, 3, 5)), chunks=random.choice((None, 1, 2)))
    dimensions = list(mapping.degrees.dimensions)
    random.shuffle(dimensions)
    shard = random.choice((None, "none", "optimizer", "weights"))
    return mapping.replace(degrees=mapping.degrees.replace(dimensions=tuple(dimensions)), shard=shard)


def _stages(mapping: DataflowSolution, partitions: list[int], random: Random) -> tuple[int, ...]:
    if not mapping.stages:
        return ()
    stages = [*mapping.stages, *mapping.stages[-1:] * len(partitions)][: max(partitions) + 1]
    if random.random() < 0.3:
        random.shuffle(stages)
    return tuple(stages)
