"""Tiny dataflow instances for the conformance suite and for random tests."""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.generators import explicit
from chipmap.instances.dataflow.plans import allowed_degrees
from chipmap.validation.dataflow.candidates import candidates
from chipmap.validation.dataflow.checker import check
from chipmap.validation.dataflow.facts import allowed

TENSOR = {"tensor": 2, "dimensions": ["tensor"]}
ROW = {"pipeline": 2, "dimensions": ["pipeline"]}
OUTSIDE = (
    None,
    {"tensor": 2, "pipeline": 2, "dimensions": ["tensor", "pipeline"]},
    {"tensor": 2, "data": 2, "dimensions": ["tensor", "data"]},
    {"pipeline": 2, "data": 2, "dimensions": ["pipeline", "data"]},
)
LIGHT: dict[str, Any] = {"flop": 40_000_000, "output_bytes": 60_000, "weight_bytes": 90_000, "schemes": ["M", "NONE"]}
HEAVY: dict[str, Any] = {"flop": 200_000_000, "output_bytes": 30_000, "weight_bytes": 200_000, "schemes": ["M", "NONE"]}
BACK: dict[str, Any] = {**HEAVY, "phase": "backward"}
ELEMENT = {"kind": "elementwise", "M": 512, "N": 64, "flop_per_element": 3}
GEMM = {"kind": "gemm", "M": 512, "K": 256, "N": 64, "weights": True}
CACHED = {**LIGHT, "fetch_bytes": 300_000}
SENT = {**LIGHT, "exchange": "all_to_all", "exchange_bytes": 900_000}
HEADS = {"kind": "gemm", "outer": 4, "M": 64, "K": 256, "N": 64, "weights": True}


def made(kernels: dict[str, dict[str, Any]], edges: str, **parameters: Any) -> DataflowInstance:
    """An instance on two small chips, one sample at a time; ``edges``, ``carries`` and groups as ``ab bc``."""
    small = {"sizes": [2], "memory_gbps": 100.0, "sram_bytes": 400_000, "batch": 4, "tokens": 64, "name": "variant"}
    small["micro_batch"] = 1
    given = {**small, **parameters}
    given["together"] = [list(group) for group in given.get("together", ())]
    given["carries"] = [list(pair) for pair in given.get("carries", "").split()]
    return explicit(kernels=kernels, edges=[list(pair) for pair in edges.split()], **given)


def on_tiles(instance: DataflowInstance, tiles: int) -> DataflowInstance:
    """``instance`` without a utilisation, on so many tiles."""
    chip = instance.system.chip.replace(tiles=tiles)
    task = instance.task.replace(utilisation=None, overlap=True)
    return instance.replace(system=instance.system.replace(chip=chip), task=task)


def variants() -> dict[str, DataflowInstance]:
    """Each feature of the problem in a tiny instance."""
    chain = {"a": LIGHT, "b": HEAVY, "c": LIGHT}
    layer = {"a": ELEMENT, "b": GEMM, "c": GEMM}
    narrow = {"sram_bytes": 150_000}
    staged = {"sizes": [2, 2], "layers": 2, "degrees": OUTSIDE[1]}
    return {
        "one kernel": made({"a": HEAVY}, ""),
        "kernel by kernel": made(chain, "ab bc", fused=False),
        "chips that don't fuse": made(chain, "ab bc", chip="h100"),
        "exactly two": made(chain, "ab bc", partitions=2, exactly=True),
        "at most two": made({**chain, "d": LIGHT}, "ab bc cd", partitions=2, sram_bytes=250_000),
        "together": made({**chain, "d": LIGHT}, "ab bc cd", together=["ab", "d"]),
        "pins": made(chain, "ab bc", pins=[{"kernel": "b", "partition": 1}], apart=[["b", "c"]]),
        "forbidden": made(chain, "ab ac", forbidden=[{"kernel": "c", "partitions": [0]}]),
        "dfmodel, sums twice": made(layer, "ab bc ac", mode="dfmodel", all_reduce_factor=2, degrees=TENSOR),
        "physical, narrow": made(layer, "ab bc ac", degrees=TENSOR, **narrow),
        "physical, a switch": made(layer, "ab bc", topology="switch", latency_ns=100.0, link_gbps=4.0),
        "fully connected": made(layer, "ab bc", topology="full", mode="dfmodel", sizes=[4], sram_bytes=200_000),
        "heads": made({"a": ELEMENT, "b": HEADS, "c": GEMM}, "ab bc", degrees=TENSOR, mode="dfmodel"),
        "two phases": made({"a": LIGHT, "b": HEAVY, "x": BACK, "y": BACK}, "ab bx xy ay", degrees=TENSOR, **narrow),
        "two phases, exactly": made({"a": LIGHT, "b": HEAVY, "x": BACK}, "ab bx", partitions=1, exactly=True),
        "across two layers": made(
            {"a": LIGHT, "b": HEAVY}, "ab", layers=2, carries="ba", across_layers=True, sram_bytes=300_000
        ),
        "across two layers, two phases": made(
            {"a": LIGHT, "x": {**BACK, "output_bytes": 90_000}},
            "ax",
            layers=2,
            carries="aa xx",
            sram_bytes=300_000,
            across_layers=True,
            mode="dfmodel",
        ),
        "across two layers, pins": made(
            {"a": LIGHT, "b": HEAVY}, "ab", layers=2, carries="ba", across_layers=True, together=["b"], mode="dfmodel"
        ),
        "across two layers, each with its schemes": made(
            {"a": {**GEMM, "M": 64}, "b": {**HEADS, "weights": False}},
            "ab",
            **{"layers": 2, "carries": "ba", "across_layers": True, "degrees": TENSOR},
        ),
        "across two layers, backward": made(
            {"a": BACK, "b": {**BACK, "output_bytes": 90_000}}, "ab", layers=2, carries="ba", across_layers=True
        ),
        "one kernel, not fused": made({"a": HEAVY}, "", fused=False, partitions=2, exactly=True, memory_gbps=1.0),
        "two dimensions": made(chain, "ab bc", sizes=[2, 3], layers=6, batch=12, **narrow),
        "three dimensions": made({"a": LIGHT, "b": HEAVY}, "ab", sizes=[2, 1, 2], layers=2, batch=4, mode="dfmodel"),
        "micro-batches": made(chain, "ab bc", batch=8, micro_batch=2, tile_tokens=8, sizes=[2, 2], layers=2),
        "a fork in dfmodel": made({"a": LIGHT, "b": HEAVY, "c": HEAVY}, "ab ac", mode="dfmodel", **narrow),
        "tiles": on_tiles(made(layer, "ab bc ac", degrees=TENSOR, mode="dfmodel"), 7),
        "tiles, narrow": on_tiles(
            made({**layer, "d": LIGHT}, "ab bc cd", degrees=TENSOR, tile_tokens=16, sram_bytes=350_000), 40
        ),
        "fewer tiles than kernels": on_tiles(made({**layer, "d": HEADS}, "ab bc bd", degrees=TENSOR), 2),
        "tiles, two phases": on_tiles(
            made({"a": GEMM, "b": GEMM, "x": {**GEMM, "phase": "backward"}}, "ab bx", degrees=TENSOR), 11
        ),
        "what is kept": made(
            {"a": ELEMENT, "b": GEMM, "x": {**GEMM, "phase": "backward"}, "y": {**ELEMENT, "phase": "backward"}},
            "ab bx xy ay",
            **{**staged, "sram_bytes": 200_000, "memory_gbps": 1000.0, "link_gbps": 100.0, "dram_bytes": 1_245_183},
        ),
        "what waits": made(
            {"a": LIGHT, "b": {**HEAVY, "output_bytes": 90_000, "weight_bytes": 60_000}, "c": LIGHT, "d": HEAVY},
            "ab bc ad cd",
            **{**staged, "sram_bytes": 200_000, "memory_gbps": 1000.0, "dram_bytes": 1_819_999},
        ),
        "transfers longer than a stage": made(chain, "ab bc", carries="ca", link_gbps=1.0, **staged),
        "gradients": made({"a": LIGHT, "x": {**BACK, "update": True}}, "ax", sizes=[2, 2], batch=4),
        "state shared out, a step": made(
            {"a": LIGHT, "x": BACK, "u": {**BACK, "weight_bytes": 0, "update": True}},
            "ax xu",
            **{"sizes": [2], "layers": 2, "degrees": {"data": 2, "dimensions": ["data"]}, "mode": "physical"},
            **{"purpose": "training", "shard": "optimizer", "optimizer_step": True, "partitions": 2},
        ),
        "experts divided": made(
            {"a": LIGHT, "b": {**GEMM, "experts": 4, "active": 1, "schemes": ["E", "N"]}},
            "ab",
            **{"sizes": [2], "degrees": {"expert": 2, "data": 2, "dimensions": ["expert"]}, "mode": "physical"},
        ),
        "recomputed": made(
            {
                **{"a": ELEMENT, "b": {**GEMM, "schemes": ["M", "K"]}},
                **{"x": {**BACK, "output_bytes": 90_000, "weight_bytes": 60_000}, "y": BACK},
            },
            "ab bx xy ay",
            **{**staged, "sram_bytes": 200_000, "memory_gbps": 1000.0, "link_gbps": 25.0, "dram_bytes": 1_212_415},
            carries="bb",
            recompute=True,
        ),
        "weights stay": made({"a": LIGHT, "b": LIGHT}, "ab", memory_gbps=1.0),
        "weights stay, a cache doesn't": made({"a": LIGHT, "b": CACHED}, "ab", memory_gbps=1.0),
        "decode in dfmodel": made({"a": CACHED, "b": GEMM}, "ab", mode="dfmodel", purpose="decode", layers=2),
        "no overlap": made({**chain, "b": CACHED}, "ab bc", overlap=False, purpose="decode", sram_bytes=250_000),
        "no overlap, schemes": made(layer, "ab bc ac", overlap=False, degrees=TENSOR, **narrow),
        "stages of kernels": made(
            layer, "ab bc ac", stages="kernels", sizes=[2, 2], degrees=OUTSIDE[1], mode="dfmodel", **narrow
        ),
        "stages of kernels that keep their weights": made(
            {**chain, "d": HEAVY},
            "ab bc ad",
            stages="kernels",
            sizes=[2],
            degrees=ROW,
            memory_gbps=5.0,
        ),
        "stages of kernels, a long transfer": made(
            chain, "ab ac", stages="kernels", sizes=[2], degrees=ROW, link_gbps=100.0
        ),
        "stages of kernels, little DRAM": made(
            {"a": LIGHT, "b": HEAVY},
            "ab",
            **{"stages": "kernels", "layers": 2, "across_layers": True, "carries": "ba"},
            **{"sizes": [2], "degrees": ROW, "memory_gbps": 1000.0, "dram_bytes": 2_410_000, "sram_bytes": 250_000},
        ),
        "an all-to-all": made({"a": LIGHT, "b": SENT}, "ab", sizes=[2, 3], batch=12, topology="switch"),
        "a broadcast": made({"a": {**SENT, "exchange": "broadcast"}}, "", sizes=[2, 2], layers=2, latency_ns=50.0),
    }


def infeasible() -> dict[str, tuple[tuple[str, ...], DataflowInstance]]:
    """(labels that can't hold together, instance); without one of them there would be mappings.

    One choice of degrees each: a model of one choice says nothing of the others. Kernel by kernel is C4, but the MIP's
    partitions are then constants, so that C5 clashes with none of its rows.
    """

    def pinned(*args: Any, **parameters: Any) -> DataflowInstance:
        return made(*args, **parameters, degrees=TENSOR)

    chain = {"a": LIGHT, "b": HEAVY, "c": LIGHT}
    back = {"a": LIGHT, "x": BACK}
    torus = {"sizes": [2, 2], "layers": 3, "batch": 1}
    return {
        "neither layers nor batch divide": (("C0",), made(chain, "ab bc", **torus)),
        "across layers on a torus": (
            ("C0",),
            made({"a": LIGHT}, "", sizes=[2, 2], layers=4, batch=3, across_layers=True),
        ),
        "a kernel larger than SRAM": (("C2",), pinned(chain, "ab bc", sram_bytes=50_000)),
        "weights larger than DRAM": (("C6",), pinned(chain, "ab bc", dram_bytes=10**6)),
        "too few partitions": (("C2", "C4"), pinned(chain, "ab bc", sram_bytes=120_000, partitions=1)),
        "more partitions than kernels": (("C4",), pinned(chain, "ab bc", partitions=5, exactly=True)),
        "pins round a pin": (("C1", "C5"), pinned(chain, "ab bc", together=["ac", "b"])),
        "pins of both phases": (("C3", "C5"), pinned(back, "ax", together=["ax"])),
        "pins on chips that don't fuse": (("C5",), pinned(chain, "ab bc", together=["ab"], fused=False)),
        "pins larger than SRAM": (("C2", "C5"), pinned(chain, "ab bc", together=["ab"], sram_bytes=120_000)),
        "more kernels than tiles": (("C4", "C7"), on_tiles(pinned(chain, "ab bc", partitions=1), 2)),
        "more pins than partitions": (("C4", "C5"), pinned(chain, "ab bc", together=["a", "b"], partitions=1)),
    }


def tiny_instance(random: Random) -> DataflowInstance:
    """A random instance of two to four kernels."""
    names = "abcd"[: random.choice((2, 3, 3, 4))]
    phases = sorted(random.choice(("backward", "forward", "forward", "forward")) for _ in names)[::-1]
    kernels = {name: _kernel(random) | {"phase": phase} for name, phase in zip(names, phases, strict=True)}
    pairs = [a + b for a in names for b in names if a < b and random.random() < 0.5]
    layers = random.choice((1, 1, 2))
    across = layers == 2 and len(names) == 2 and len(set(phases)) == 1
    partitions = random.choice((None, None, 1, 2))
    return made(
        kernels,
        " ".join(pairs),
        layers=layers,
        carries=names[-1] + names[0] if across and random.random() < 0.7 else "",
        across_layers=across,
        mode=random.choice(("dfmodel", "physical")),
        sizes=random.choice(([2], [2], [3], [2, 2], [2, 3])),
        topology=random.choice(("ring", "switch", "full")),
        link_gbps=random.choice((2.0, 25.0)),
        memory_gbps=random.choice((20.0, 200.0)),
        sram_bytes=random.choice((80_000, 160_000, 300_000, 10**6)),
        batch=random.choice((2, 6)),
        all_reduce_factor=random.choice((1, 2)),
        tile_tokens=random.choice((1, 1, 16)),
        partitions=partitions,
        exactly=partitions is not None and random.random() < 0.4,
        fused=random.random() < 0.9,
        together=random.choice(([], [], [], [names[:2]], [names[0], names[1]], [names[0] + names[-1]])),
        purpose=random.choice(("training", "prefill", "decode")),
        overlap=(overlap := random.random() < 0.7),
        utilisation=random.choice((0.9, 0.9, None)) if overlap else 0.9,
    )


def outside_instance(random: Random) -> DataflowInstance:
    """A random instance with a choice of what its chips keep, send to the next stage and sum over replicas.

    DRAM, where it is limited, is that of some mapping, or a byte less.
    """
    names = "abcd"[: random.choice((2, 3, 3, 4))]
    forward = random.randint(1, len(names))
    phases = ["forward"] * forward + ["backward"] * (len(names) - forward)
    kernels = {name: _kernel(random) | {"phase": phase} for name, phase in zip(names, phases, strict=True)}
    for name in names[forward:]:
        kernels[name] |= {"update": random.random() < 0.6, "schemes": ["M", "NONE"]}
    pairs = [a + b for a in names for b in names if a < b and random.random() < 0.6]
    carries = [u + v for part in (names[:forward], names[forward:]) for u in part for v in part]
    degrees, partitions = random.choice(OUTSIDE), random.choice((None, None, 2))
    across = len(names) < 4 and degrees in (None, OUTSIDE[2]) and random.random() < 0.3
    instance = made(
        kernels,
        " ".join(pairs),
        layers=2 if across else random.choice((2, 4)),
        across_layers=across,
        carries=" ".join(random.sample(carries, random.randint(0, min(2, len(carries))))),
        mode=random.choice(("dfmodel", "physical")),
        sizes=[2, 2],
        degrees=degrees,
        topology=random.choice(("ring", "switch", "full")),
        latency_ns=random.choice((0.0, 50.0)),
        link_gbps=random.choice((0.05, 1.0, 25.0)),
        memory_gbps=random.choice((20.0, 200.0)),
        sram_bytes=random.choice((80_000, 160_000, 300_000, 10**6)),
        batch=random.choice((4, 8)),
        all_reduce_factor=random.choice((1, 2)),
        partitions=partitions,
        exactly=partitions is not None and random.random() < 0.3,
        fused=random.random() < 0.9,
        recompute=0 < forward < len(names) and random.random() < 0.3,
        optimizer_bytes=random.choice((None, None, 4)),
    )
    mapping = random.choice([*islice(candidates(instance), 500)])
    limit = round(check(instance, mapping).figures["dram_bytes"]) - random.choice((0, 0, 1))
    limited = random.random() < 0.7 and limit > 0
    memory = instance.system.memory.replace(capacity_bytes=limit if limited else None)
    return instance.replace(system=instance.system.replace(memory=memory))


def mixed_instance(random: Random) -> DataflowInstance:
    """A random instance with any features side by side. DRAM, where it is limited, is that of some mapping, or a byte
    less."""
    names = "abcde"[: random.choice((1, 2, 3, 3, 4, 4, 5))]
    n = len(names)
    forward = random.choice((n, n, random.randint(0, n), random.randint(0, n)))
    kernels = {name: _kernel(random) | {"phase": ("forward", "backward")[i >= forward]} for i, name in enumerate(names)}
    for name in names:
        if random.random() < 0.4:
            kernels[name] |= {"schemes": random.choice((["M", "NONE"], ["NONE"]))}
        if kernels[name]["phase"] == "backward":
            kernels[name] |= {"update": random.random() < 0.5}
    dense, overlap = random.choice((0.2, 0.5, 0.8)), random.random() < 0.75
    pairs = [u + v for u in names for v in names if u < v and random.random() < dense]
    carries = [u + v for part in (names[:forward], names[forward:]) for u in part for v in part]
    across, partitions = n <= 3 and random.random() < 0.2, random.choice((None, None, None, 1, 2, 3))
    sizes = random.choice(([2], [2], [3], [4], [2, 2], [2, 2], [2, 3], [2, 1, 2], [2, 2, 2]))
    groups: Any = [], [], [], [names[:2]], [one for one in (names[0], names[1:]) if one], [names[:1] + names[1:][-1:]]
    instance = made(
        kernels,
        " ".join(pairs),
        layers=2 if across else random.choice((1, 2, 3, 4, 4)),
        across_layers=across,
        carries=" ".join(random.sample(carries, min(len(carries), random.choice((0, 1, 1, 2, 3))))),
        mode=random.choice(("dfmodel", "physical")),
        sizes=sizes,
        topology=[random.choice(("ring", "switch", "full")) for _ in sizes],
        latency_ns=random.choice((0.0, 50.0, 3000.0)),
        link_gbps=random.choice((0.05, 1.0, 25.0)),
        memory_gbps=random.choice((5.0, 20.0, 200.0)),
        sram_bytes=random.choice((80_000, 160_000, 300_000, 300_000, 10**6, 10**6)),
        batch=random.choice((2, 6, 8, 12)),
        micro_batch=random.choice((1, 1, 2)),
        all_reduce_factor=random.choice((1, 2)),
        tile_tokens=random.choice((1, 1, 16)),
        partitions=partitions,
        exactly=partitions is not None and random.random() < 0.35,
        fused=random.random() < 0.88,
        together=random.choice(groups),
        purpose=random.choice(("training", "training", "prefill", "decode")),
        overlap=overlap,
        utilisation=random.choice((0.9, 0.4, None)) if overlap else 0.9,
        recompute=0 < forward < n and random.random() < 0.5,
        optimizer_bytes=random.choice((None, None, 4)),
    )
    pins = {
        kernel.name: random.choice(sorted(allowed(kernel, instance.mode)))
        for kernel in instance.workload.kernels
        if random.random() < 0.12
    }
    choices = allowed_degrees(instance)
    degrees = random.choice(choices) if choices and random.random() < 0.5 else None
    instance = instance.replace(task=instance.task.replace(schemes=pins, degrees=degrees))
    if instance.task.utilisation is None:
        instance = on_tiles(instance, random.choice((1, 2, 3, 5, 7, 11, 40, 640)))
    return with_little_dram(instance, random) if choices and random.random() < 0.55 else instance


def split_instance(random: Random) -> DataflowInstance:
    """A :func:`mixed_instance` whose kernels name any schemes of their kind, tokens (N) among them, and have sizes that
    few numbers of chips divide."""
    instance = mixed_instance(random)
    kernels = []
    for kernel in instance.workload.kernels:
        known = ["M", "N", "NONE"] + (["K", "K_RS"] if kernel.kind == "gemm" and kernel.weights else [])
        known = [*known[1:], "OUTER"] if kernel.outer > 1 else known
        schemes = random.sample(known, random.choice((1, 2, 2)))
        sizes = {"outer": random.choice((2, 3, 5, 8))} if kernel.outer > 1 else {"M": random.choice((3, 64, 301))}
        more = {"K": random.choice((3, 32, 201))} if kernel.kind == "gemm" else {}
        sizes |= more | {"N": random.choice((1, 5, 64))}
        kernels.append(kernel.replace(schemes=schemes, **({} if kernel.kind == "opaque" else sizes)))
    workload = instance.workload.replace(kernels=kernels)
    memory = instance.system.memory.replace(capacity_bytes=None)
    system = instance.system.replace(memory=memory)
    instance = instance.replace(workload=workload, system=system, task=instance.task.replace(schemes={}))
    return with_little_dram(instance, random) if allowed_degrees(instance) and random.random() < 0.4 else instance


def with_little_dram(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """``instance`` with the DRAM that some mapping takes (a feasible one, if a few tried are), or a byte less."""
    some = [*islice(candidates(instance), 400)]
    tried = [check(instance, mapping) for mapping in random.sample(some, min(len(some), 12))]
    mapping = random.choice([one for one in tried if one.feasible] or tried)
    limit = max(1, round(mapping.figures["dram_bytes"]) - random.choice((0, 0, 1)))
    memory = instance.system.memory.replace(capacity_bytes=limit)
    return instance.replace(system=instance.system.replace(memory=memory))


def _kernel(random: Random) -> dict[str, Any]:
    kind = random.choice(("gemm", "gemm", "gemm", "elementwise", "opaque"))
    moved: dict[str, Any] = {"fetch_bytes": random.choice((0, 0, 10**5))}
    if moved["fetch_bytes"] and kind == "opaque":  # a table, and parameters that no scheme divides
        moved |= {"table_bytes": 30_000, "whole_bytes": 5_000}
    if random.random() < 0.2:
        moved |= {"exchange": random.choice(("all_to_all", "broadcast")), "exchange_bytes": random.randint(1, 10**6)}
    if kind == "opaque":
        sizes = {"output_bytes": random.randint(1, 10**5), "weight_bytes": 7 * 10**4, "schemes": ["M", "NONE"]}
        return {"flop": random.randint(1, 10**8), **sizes, **moved}
    size = {**moved, "kind": kind, "M": random.choice((64, 300, 512)), "N": 64, "outer": random.choice((1, 1, 1, 3))}
    if kind == "elementwise":
        return size | {"flop_per_element": random.randint(0, 50)}
    return size | {"K": random.choice((32, 200)), "weights": random.random() < 0.8}
