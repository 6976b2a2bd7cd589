"""Tiny instances with what exchanges follow from: heads of rows, statistics of columns, operands of updates,
kernels that add up copies of tokens."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance, Degrees, Kernel
from chipmap.instances.dataflow.plans import allowed_degrees
from tests.dataflow.parallel_instances import parallel_instance, tokens_instance
from tests.dataflow.random_instances import made, mixed_instance, split_instance, with_little_dram


def exchange_instance(random: Random) -> DataflowInstance:
    """A random instance in mode ``physical``, whose kernels state such fields more often than not, on several chips
    where that can be; half of them are a few kernels of one rule."""
    if random.random() < 0.5:
        return rule_instance(random)
    instance = random.choice((mixed_instance, split_instance, tokens_instance, parallel_instance))(random)
    memory = instance.system.memory.replace(capacity_bytes=None)
    instance = with_exchanges(_with_backward(instance), random).replace(
        system=instance.system.replace(memory=memory),
        task=instance.task.replace(schemes={}, degrees=None),
        mode="physical",
    )
    choices = [one for one in allowed_degrees(instance) if one.tensor > 1]
    if choices:
        instance = instance.replace(task=instance.task.replace(degrees=random.choice(choices)))
    return with_little_dram(instance, random) if choices and random.random() < 0.3 else instance


def rule_instance(random: Random) -> DataflowInstance:
    """A weight update, the gradient of keys, copies of tokens or heads of samples, with a maker and a reader."""
    columns, tokens = random.choice((1, 5, 64)), 64
    flat: dict[str, Any] = {"kind": "elementwise", "N": columns, "M": random.choice((12, 64, 301))}
    back = {"phase": "backward"}

    def some(*known: str) -> dict[str, Any]:
        return {"schemes": [*dict.fromkeys(random.sample(known, random.choice((1, 2, 2))))]}

    def element(**fields: Any) -> dict[str, Any]:
        return {**flat, **some("M", "N", "NONE"), "statistics": random.choice((0, 0, 1, 2)), **fields}

    rule = random.choice(("update", "keys", "copies", "samples"))
    if rule == "update":
        update = {"kind": "gemm", "M": flat["M"], "K": columns, "N": random.choice((12, 301)), "update": True, **back}
        kernels = {"a": element(M=update["N"]), "b": element(**back)}
        kernels["c"] = {**update, "operand": random.choice("aab"), **some("M", "N", "K_N", "NONE")}
        edges = "ac bc"
    elif rule == "keys":
        outer, heads = random.choice(((4, 2), (8, 4), (6, 3), (12, 4), (8, 1), (6, 1), (9, 3), (6, 2), (9, 6)))
        rows = 6 if outer * 5 % heads else 5
        product = {"kind": "gemm", "outer": outer, "heads": heads, "M": rows, "K": 7, "N": columns}
        kernels = {"a": element(heads=random.choice((0, 1, 2, 4)), M=12 * outer), "b": {**product, **back}}
        kernels["b"] |= {"output_bytes": heads * 5 * columns * 2, **some("OUTER", "OUTER", "N", "NONE")}
        kernels["c"] = {**element(outer=heads), **back, **some("OUTER", "M", "N", "NONE")}
        edges = "ab bc"
    elif rule == "copies":
        experts, active = random.choice(((4, 2), (8, 4), (8, 8), (5, 1)))
        product = {"kind": "gemm", "weights": True, "M": 8, "K": 8, "N": active * columns}
        kernels = {"a": element(), "b": {**product, "experts": experts, "active": active, "schemes": ["E", "N"]}}
        kernels["c"] = element()
        edges = random.choice(("ab bc", "ab bc ac"))
    else:
        attention = {"kind": "gemm", "outer": 12, "heads": random.choice((1, 2, 3, 4, 6)), "M": 5, "K": 7, "N": columns}
        product = {"kind": "gemm", "weights": True, "M": 9, "K": random.choice((5, 30, 60)), "N": columns}
        kernels = {"a": {**attention, **some("OUTER", "OUTER", "NONE")}, "b": {**product, **some("K", "K_RS", "M")}}
        kernels["c"] = {**flat, "outer": 12, "M": 5, **some("OUTER", "M", "NONE")}
        edges = "ab ac"
    sizes = random.choice(([2], [3], [4], [4], [6], [8], [2, 2]))
    one = Degrees(tensor=sizes[0], dimensions=("tensor",))
    degrees = one if len(sizes) == 1 else Degrees(tensor=2, data=2, dimensions=("tensor", "data"))
    return made(
        kernels,
        edges,
        mode="physical",
        sizes=sizes,
        degrees=degrees,
        topology=random.choice(("ring", "switch", "full")),
        latency_ns=random.choice((0.0, 50.0)),
        link_gbps=random.choice((0.05, 1.0, 25.0)),
        sram_bytes=10**7,
        batch=2,
        tokens=tokens,
        fused=random.random() < 0.6,
        layers=random.choice((1, 2)),
    )


def _with_backward(instance: DataflowInstance) -> DataflowInstance:
    """The instance, the last kernels of which are backward ones where all are forward ones, if nothing leads back."""
    workload = instance.workload
    some = workload.kernels[len(workload.kernels) // 2 :]
    if any(kernel.phase == "backward" for kernel in workload.kernels) or instance.task.across_layers:
        return instance
    if instance.task.purpose == "decode" or instance.task.together or workload.carries:
        return instance
    kernels = [one.replace(phase="backward") if one in some else one for one in workload.kernels]
    return instance.replace(workload=workload.replace(kernels=kernels))


def with_exchanges(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """The instance with such fields."""
    workload = instance.workload
    before = {kernel.name: kernel for kernel in workload.kernels}
    kernels = []
    for kernel in workload.kernels:
        makers = sorted({u for u, v in (*workload.edges, *workload.carries) if v == kernel.name})
        fields = _fields(kernel, [before[name] for name in makers], random)
        kernels.append(kernel.replace(**fields) if random.random() < 0.8 else kernel)
    return instance.replace(workload=workload.replace(kernels=kernels))


def _fields(kernel: Kernel, makers: list[Kernel], random: Random) -> dict[str, Any]:
    if kernel.kind == "opaque":
        return {}
    if kernel.kind == "elementwise":
        copies = [one.N // one.active for one in makers if one.active and one.N % one.active == 0]
        fields: dict[str, Any] = {"N": random.choice(copies)} if copies and random.random() < 0.8 else {}
        schemes: dict[str, Any] = {"schemes": random.choice((["M"], ["M", "N"], ["M", "NONE"]))}
        schemes = {} if random.random() < 0.5 or "E" in kernel.schemes or kernel.outer > 1 else schemes
        return {**fields, **schemes, "statistics": random.choice((0, 1, 2))}
    if kernel.update:
        known = random.sample(["M", "N", "K_N", "NONE"], random.choice((1, 2, 3)))
        operand = random.choice(makers).name if makers and random.random() < 0.8 else ""
        return {"weights": False, "operand": operand, **({} if random.random() < 0.2 else {"schemes": known})}
    if kernel.weights:
        return {"heads": random.choice([one for one in (1, 2, 4, 8) if kernel.outer * kernel.M % one == 0])}
    outer, heads = random.choice(((4, 2), (8, 4), (6, 3), (12, 4), (8, 1), (6, 1), (6, 0), (9, 6), (6, 2)))
    rows = kernel.M * (1 if heads == 0 or outer * kernel.M % heads == 0 else 2)
    known = [] if random.random() < 0.5 else ["OUTER", random.choice(("N", "NONE", "M"))]
    return {"outer": outer, "heads": heads, "M": rows, "fetch_outer": 0, "schemes": known}
