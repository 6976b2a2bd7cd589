"""Tiny dataflow instances whose kernels exchange: tensors with several readers, parameters that backward kernels use,
and sums that are shared; and what their mappings take by the methods' own arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from random import Random
from typing import Any

from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow.batch_time import total_ticks
from chipmap.instances.dataflow.dram import dram_bytes
from chipmap.instances.dataflow.loads import often, sram_bytes, times
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees, allowed_plans
from chipmap.instances.dataflow.problem import DataflowProblem
from tests.dataflow.random_instances import made

#: Mappings of an instance at most, kernel by kernel.
MOST = 3000
PRODUCTS = ("M", "N", "K", "K_RS", "K_N", "NONE")
UPDATES = ("M", "N", "K_N", "NONE")
ELEMENTS = ("M", "N", "NONE")


def exchange_instance(random: Random, fused: bool = False) -> DataflowInstance:
    """An instance of three to six kernels in mode ``physical``, on two to four chips that share a layer.

    DRAM, where it is limited, is what some mapping takes, or a byte less.
    """
    while True:
        instance = _made(random, fused)
        if allowed_degrees(instance) and 1 < count(instance) <= MOST:
            return _limited(instance, random)


def problems(instance: DataflowInstance) -> Iterator[DataflowProblem]:
    """The problem of each choice of degrees and plan that the task allows."""
    for degrees in allowed_degrees(instance):
        for plan in allowed_plans(instance, degrees):
            yield dataflow_problem(instance, degrees, *plan)


def count(instance: DataflowInstance) -> int:
    """Mappings of an instance whose kernels are a partition each."""
    total = 0
    for degrees in allowed_degrees(instance):
        plans = allowed_plans(instance, degrees)
        total += len(plans) * _choices(dataflow_problem(instance, degrees, *plans[0]))
    return total


def batch_time(
    problem: DataflowProblem, chosen: Sequence[int], partitions: Sequence[int], below: int | None = None
) -> int | None:
    """Picoseconds of the batch of a mapping, by the numbers of its options; None where it breaks C2 or C6, or takes
    ``below`` or more.

    Partitions are numbered 0, 1, … in the order in which they run.
    """
    layers = problem.instance.mapped_layers
    options = [problem.options[i % problem.n][o] for i, o in enumerate(chosen)]
    solution = problem.mapping([one.scheme for one in options], partitions, ())
    layer, again = 0, often(problem, solution)
    for p, one in times(problem, solution).items():
        taken = one.compute, one.memory, one.network
        layer += again[p] * (problem.launch + (max(taken) if problem.instance.task.overlap else sum(taken)))
    assert layers * problem.n == len(chosen)
    ticks = total_ticks(problem, layer, chosen)
    if below is not None and ticks >= below:
        return None
    if any(sum(taken) > problem.sram for taken in sram_bytes(problem, solution).values()):
        return None
    capacity = problem.instance.system.memory.capacity_bytes
    if capacity is not None and max(dram_bytes(problem, chosen, partitions)) > capacity:
        return None
    return ticks


def least(mappings: Iterable[tuple[DataflowProblem, Sequence[int], Sequence[int]]]) -> int | None:
    """Picoseconds of the best of these mappings; None where each breaks C2 or C6. Those that take longer than one that
    fits needn't fit."""
    best = None
    for one in mappings:
        ticks = batch_time(*one, below=best)
        best = best if ticks is None else ticks
    return best


def one_by_one(problem: DataflowProblem) -> Iterator[tuple[tuple[int, ...], int | None]]:
    """The options of every mapping whose kernels run in the order of their places, a partition each, and its time."""
    sizes = [range(len(options)) for options in problem.options] * problem.instance.mapped_layers
    for chosen in product(*sizes):
        yield chosen, batch_time(problem, chosen, problem.places)


def _choices(problem: DataflowProblem) -> int:
    total = 1
    for options in problem.options:
        total *= len(options) ** problem.instance.mapped_layers
    return total


def _made(random: Random, fused: bool) -> DataflowInstance:
    kernels, edges = random.choice((_readers, _added, _trained, _trained, _both))(random)
    names = list(kernels)
    training = any(kernel.get("update") for kernel in kernels.values())
    experts = any("E" in kernel["schemes"] for kernel in kernels.values())
    sizes = random.choice(([2], [2], [3], [4], [2, 2])) if not experts else random.choice(([2], [2, 2]))
    dimensions = ["tensor"]
    if len(sizes) > 1:
        dimensions = ["tensor", random.choice(("data", "pipeline", *(["expert"] * 3 if experts else [])))]
    elif experts and random.random() < 0.5:
        dimensions = ["expert"]
    held = {one: size for size, one in zip(sizes, dimensions, strict=True)}
    if "expert" in held:
        held["data"] = held["expert"]
    carries = [u + v for u in names[-1:] for v in names[:2] if kernels[u]["phase"] == kernels[v]["phase"]]
    backward = any(kernel["phase"] == "backward" for kernel in kernels.values())
    keeps: list[str | None] = ["none", None]
    if not fused:
        keeps += ["phase", None] + (["step"] * 3 if backward else [])
    replicas = training and "data" in dimensions and random.random() < 0.7
    instance = made(
        kernels,
        " ".join(edges),
        layers=random.choice((2, 4) if "pipeline" in held else (1, 2, 4)),
        carries=random.choice(("", *carries[:1])),
        mode="physical",
        sizes=sizes,
        degrees={**held, "dimensions": dimensions},
        topology=random.choice(("ring", "switch", "full")),
        latency_ns=random.choice((0.0, 0.0, 500.0)),
        link_gbps=random.choice((2.0, 10.0, 40.0)),
        memory_gbps=random.choice((10.0, 40.0, 200.0)),
        sram_bytes=random.choice((250_000, 600_000, 10**6, 10**7)),
        batch=random.choice((4, 8)),
        tile_tokens=random.choice((1, 16, 64)),
        fused=fused,
        purpose="training" if training else random.choice(("training", "prefill")),
        overlap=random.random() < 0.7,
        shard=random.choice(("optimizer", "gradients", "weights", None)) if replicas else "none",
        optimizer_bytes=random.choice((None, 4)),
        partitions=random.choice((None, None, 2)) if fused else None,
    )
    return instance.replace(task=instance.task.replace(keep=random.choice(keeps)))


def _schemes(random: Random, known: Sequence[str], most: int) -> list[str]:
    return random.sample(known, random.randint(min(2, most), most))


def _product(random: Random, most: int = 3, /, **fields: Any) -> dict[str, Any]:
    size = {"M": random.choice((64, 201, 256)), "K": random.choice((64, 150, 256)), "N": random.choice((32, 50, 64))}
    base = {"kind": "gemm", **size, "weights": True, "phase": "forward", "schemes": _schemes(random, PRODUCTS, most)}
    return {**base, **fields}


def _element(random: Random, most: int = 2, /, **fields: Any) -> dict[str, Any]:
    base = {"kind": "elementwise", "M": random.choice((64, 256, 1024)), "N": random.choice((32, 64))}
    return {**base, "phase": "forward", "schemes": _schemes(random, ELEMENTS, most), **fields}


def _readers(random: Random) -> tuple[dict[str, Any], list[str]]:
    """A tensor with two to four readers, some of them backward kernels; the last one may read it, too."""
    count, late = random.randint(2, 4), random.randint(0, 2)
    kernels: dict[str, Any] = {"a": _element(random, 3, M=random.choice((256, 1024)))}
    edges = []
    for i, name in enumerate("bcde"[:count]):
        phase = "backward" if i >= count - late else "forward"
        maker = _product if random.random() < 0.6 else _element
        kernels[name] = maker(random, phase=phase)
        edges.append(f"a{name}")
        if i and random.random() < 0.4:
            edges.append(f"{'bcde'[i - 1]}{name}")
    return kernels, edges


def _added(random: Random) -> tuple[dict[str, Any], list[str]]:
    """Two or three products that one kernel adds up, of one or two tensors."""
    members = "bcd"[: random.choice((2, 2, 3))]
    size = {"M": 256, "N": 64}
    kernels = {"a": _element(random, 3)}
    kernels |= {name: _product(random, 3, **size) for name in members}
    listed = random.sample(list(members), len(members))
    kernels["z"] = _element(random, 3, **size, adds=listed)
    edges = [f"a{name}" for name in members] + [f"{name}z" for name in members]
    return kernels, edges + (["az"] if random.random() < 0.4 else [])


def _trained(random: Random) -> tuple[dict[str, Any], list[str]]:
    """A product with its gradient and its update, which read one gradient, and what the product read."""
    experts: dict[str, Any] = {}
    if random.random() < 0.35:
        experts = {"experts": random.choice((2, 4)), "active": random.choice((1, 2))}
    few = (*(("E",) if experts else ()), "M", "N", "K", "K_RS", "K_N", "NONE")
    rows, inner, tokens = random.choice((64, 201, 256)), random.choice((64, 150, 256)), random.choice((32, 64))

    def some(known: Sequence[str], most: int) -> list[str]:
        found = _schemes(random, known, most)
        return found if not experts or "E" in found or random.random() < 0.3 else ["E", *found[1:]]

    back = {"phase": "backward", "parameters_of": "f", **experts}
    updates = ("E",) * bool(experts) + UPDATES
    kernels = {
        "a": _element(random, 2, M=inner, N=tokens),
        "f": _product(random, M=rows, K=inner, N=tokens, schemes=some(few, 4), **experts),
        "g": _element(random, 2, M=rows, N=tokens, phase="backward"),
        "x": _product(random, M=inner, K=rows, N=tokens, schemes=some(few, 4), **back),
    }
    edges = ["af", "fg", "gx"]
    if random.random() < 0.8:
        operand = "a" if random.random() < 0.8 else ""
        size = {"M": rows, "K": tokens, "N": inner, "weights": False, "update": True, "operand": operand}
        kernels["u"] = _product(random, schemes=some(updates, 3), **size, **back)
        edges += ["gu", "au"]
    return kernels, edges


def _both(random: Random) -> tuple[dict[str, Any], list[str]]:
    """Two products of one tensor, and their gradients, which one kernel adds up; one of them may have an update."""
    rows, inner, tokens = random.choice((64, 256)), 256, 64
    kernels: dict[str, Any] = {"a": _element(random, 2, M=inner, N=tokens)}
    edges, products = [], "fh" if random.random() < 0.5 else "f"
    for name in products:
        kernels[name] = _product(random, 2, M=rows, K=inner, N=tokens)
        edges.append(f"a{name}")
    more = random.choice(("p", "pq")) if products == "f" else "p"
    for name in ("x", *more):
        of = products[-1] if name == "x" else random.choice(products)
        size: dict[str, Any] = {"M": inner, "K": rows, "N": tokens, "phase": "backward", "parameters_of": of}
        kernels[name] = _product(random, 3, **size)
        edges.append(f"{of}{name}")
    kernels["z"] = _element(random, 2, M=inner, N=tokens, phase="backward", adds=["x", *more])
    edges += [f"{name}z" for name in ("x", *more)]
    return kernels, [*edges, "az"] if random.random() < 0.5 else edges


def _limited(instance: DataflowInstance, random: Random) -> DataflowInstance:
    """The instance, with the DRAM that some mapping of it takes, or a byte less, as often as not."""
    if random.random() < 0.5:
        return instance
    memory = instance.system.memory.replace(capacity_bytes=10**12)
    roomy = instance.replace(system=instance.system.replace(memory=memory))
    problem = random.choice(list(problems(roomy)))
    chosen = [random.randrange(len(options)) for options in problem.options] * roomy.mapped_layers
    limit = max(dram_bytes(problem, chosen, problem.places)) - random.choice((0, 0, 1))
    memory = instance.system.memory.replace(capacity_bytes=max(1, limit))
    return instance.replace(system=instance.system.replace(memory=memory))
