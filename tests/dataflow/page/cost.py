"""What a mapping breaks and what it costs: ``docs/families/dataflow.md``, "Constraints", "Cost modes" and "Objective",
with the pages that these name."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution
from chipmap.instances.dataflow.workload import Kernel
from tests.dataflow.page import amounts, exchanges, memory, network, pairs, tiles
from tests.dataflow.page.amounts import PageCase, ticks
from tests.dataflow.page.memory import Mapped


@dataclass(frozen=True)
class Verdict:
    """Labels of the constraints that a mapping breaks, its terms and objective in ticks (None: C0 or C7 is broken, so
    that some have no value), and the most bytes that a chip's DRAM holds."""

    broken: frozenset[str]
    terms: dict[str, int]
    objective: int | None
    dram: int


def judged(instance: DataflowInstance, solution: DataflowSolution) -> Verdict:
    """The page's verdict on a mapping."""
    if not in_domain(instance, solution):
        return Verdict(frozenset({"C0"}), {}, None, 0)
    mapped = mapping_of(instance, solution)
    rules = {"C1": _order, "C2": _sram, "C3": _phases, "C4": _partitions, "C5": _together, "C7": _tiles, "C8": _stages}
    broken = {label for label, rule in rules.items() if not rule(mapped)}
    held, limit = max(memory.dram(mapped).values()), instance.system.memory.capacity_bytes
    if limit is not None and held > limit:
        broken.add("C6")
    if "C7" in broken:
        return Verdict(frozenset(broken), {}, None, held)
    terms, layer = _terms(mapped)
    return Verdict(frozenset(broken), terms, _batch(mapped, terms, layer), held)


def in_domain(instance: DataflowInstance, solution: DataflowSolution) -> bool:
    """C0."""
    task, workload, degrees = instance.task, instance.workload, solution.degrees
    sizes, uses = [one.size for one in instance.system.network], degrees.dimensions
    if len(uses) != len(sizes) or uses.count("tensor") > task.tensor_dimensions or uses.count("pipeline") > 1:
        return False
    held = {use: prod(s for s, u in zip(sizes, uses, strict=True) if u == use) for use in ("tensor", "pipeline")}
    expert = prod(s for s, u in zip(sizes, uses, strict=True) if u == "expert")
    data = expert * prod(s for s, u in zip(sizes, uses, strict=True) if u == "data")
    if (degrees.tensor, degrees.pipeline, degrees.data) != (held["tensor"], held["pipeline"], data):
        return False
    if degrees.expert != expert or (task.degrees is not None and degrees != task.degrees):
        return False
    if "expert" in uses and not any("E" in kernel.schemes for kernel in workload.kernels):
        return False
    layered = task.stages == "layers"
    if layered and (workload.layers % degrees.pipeline or (task.across_layers and degrees.pipeline > 1)):
        return False
    b = solution.micro_batch if solution.micro_batch is not None else task.micro_batch
    if b is None or b < 1 or task.micro_batch not in (None, b) or task.batch % (degrees.data * b):
        return False
    copies = len(workload.kernels) * (workload.layers if task.across_layers else 1)
    if len(solution.schemes) != copies or len(solution.partitions) != copies or min(solution.partitions) < 0:
        return False
    for i, scheme in enumerate(solution.schemes):
        kernel = workload.kernels[i % len(workload.kernels)]
        if scheme not in amounts.allowed(kernel, instance.mode) or task.schemes.get(kernel.name, scheme) != scheme:
            return False
    paired = pairs.in_domain(instance, degrees, task.batch // (degrees.data * b))
    return paired and _plan_in_domain(instance, solution, b) and _stages_in_domain(instance, solution)


def _plan_in_domain(instance: DataflowInstance, solution: DataflowSolution, b: int) -> bool:
    task, stages = instance.task, solution.degrees.pipeline
    if task.schedule == "interleaved":
        v = solution.chunks if solution.chunks is not None else task.chunks
        if v is None or v < 1 or task.chunks not in (None, v) or instance.workload.layers % (stages * v):
            return False
        if v > 1 and task.batch // (solution.degrees.data * b) % stages:
            return False
    elif solution.chunks not in (None, 1):
        return False
    asked = task.recompute if isinstance(task.recompute, str) else "full" if task.recompute else "none"
    if task.recompute is None:
        if solution.recompute is None or (solution.recompute == "selective" and not task.selective):
            return False
    elif solution.recompute not in (None, asked):
        return False
    shard = task.shard if isinstance(task.shard, str) else "weights" if task.shard else "none"
    shared = solution.shard is not None if task.shard is None else solution.shard in (None, shard)
    return shared and _kept_in_domain(instance, solution)


def _kept_in_domain(instance: DataflowInstance, solution: DataflowSolution) -> bool:
    """C0 of ``keep``."""
    task, kernels = instance.task, instance.workload.kernels
    if task.keep is not None and solution.keep not in (None, task.keep):
        return False
    keep = solution.keep or task.keep or "none"
    backward = [one.phase == "backward" for one in kernels]
    if keep == "none":
        return True
    if instance.mode != "physical" or (task.fused and instance.system.chip.fused) or task.across_layers:
        return False
    if task.stages != "layers" or task.schedule in pairs.LATE or (keep == "step" and True not in backward):
        return False
    if solution.recompute not in (None, "none") or task.recompute not in (None, False, "none"):
        return False
    at = {kernel.name: i for i, kernel in enumerate(kernels)}
    listed = exchanges.list_of_places(backward, [(at[u], at[v]) for u, v in instance.workload.edges])
    numbers = [solution.partitions[i] for i in listed]
    return all(a < b for a, b in pairwise(numbers))


def _stages_in_domain(instance: DataflowInstance, solution: DataflowSolution) -> bool:
    if instance.task.stages == "layers":
        return not solution.stages
    pipeline = solution.degrees.pipeline
    if not solution.stages and pipeline == 1:
        return True
    return len(solution.stages) == max(solution.partitions) + 1 and all(0 <= s < pipeline for s in solution.stages)


def mapping_of(instance: DataflowInstance, solution: DataflowSolution) -> Mapped:
    """A solution in the domain, taken apart."""
    task, workload = instance.task, instance.workload
    recompute = solution.recompute or (
        task.recompute if isinstance(task.recompute, str) else "full" if task.recompute else "none"
    )
    shard = solution.shard or (task.shard if isinstance(task.shard, str) else "weights" if task.shard else "none")
    chunks = (solution.chunks or task.chunks or 1) if task.schedule == "interleaved" else 1
    b = solution.micro_batch or task.micro_batch
    assert b is not None
    case = PageCase(instance, solution.degrees, b, chunks, recompute, shard, solution.keep or task.keep or "none")
    n, at = len(workload.kernels), {kernel.name: i for i, kernel in enumerate(workload.kernels)}
    copies = tuple(
        (i // n, workload.kernels[i % n], scheme, p)
        for i, (scheme, p) in enumerate(zip(solution.schemes, solution.partitions, strict=True))
    )
    layers, handed = len(copies) // n, list[tuple[int, int]]()
    edges = [(layer * n + at[u], layer * n + at[v]) for layer in range(layers) for u, v in workload.edges]
    for u, v in workload.carries:
        if task.across_layers:
            steps = [(here, here + 1) for here in range(layers - 1)]
            if workload.kernels[at[u]].phase == "backward":
                steps = [(there, here) for here, there in steps]
            edges += [(here * n + at[u], there * n + at[v]) for here, there in steps]
        elif case.physical and workload.layers > 1:
            handed.append((at[u], at[v]))
    return Mapped(case, copies, tuple(edges), tuple(handed), solution.stages)


def _order(mapped: Mapped) -> bool:
    return all(mapped.copies[u][3] <= mapped.copies[v][3] for u, v in mapped.edges)


def _sram(mapped: Mapped) -> bool:
    return max(memory.sram(mapped).values()) <= mapped.case.instance.system.chip.sram_bytes


def _phases(mapped: Mapped) -> bool:
    again = mapped.case.again
    return all(len({(k.phase, k.name in again) for k, _ in one}) == 1 for one in mapped.partitions.values())


def _partitions(mapped: Mapped) -> bool:
    task, case = mapped.case.instance.task, mapped.case
    if not (task.fused and case.instance.system.chip.fused):
        return all(len(one) == 1 for one in mapped.partitions.values())
    used: dict[object, int] = defaultdict(int)
    if case.staged:
        used |= dict.fromkeys(range(case.degrees.pipeline), 0)
    for p, kernels in mapped.partitions.items():
        for what in {mapped.stage(p)} if case.staged else {kernel.phase for kernel, _ in kernels}:
            used[what] += 1
    if task.partitions is None:
        return True
    return all(one == task.partitions or (one < task.partitions and not task.exactly) for one in used.values())


def _together(mapped: Mapped) -> bool:
    group = {name: g for g, names in enumerate(mapped.case.instance.task.together) for name in names}
    where: dict[tuple[int, int], set[int]] = defaultdict(set)
    for layer, kernel, _, p in mapped.copies:
        if kernel.name in group:
            where[layer, group[kernel.name]].add(p)
    lies = [p for found in where.values() for p in found]
    whole = all(len(found) == 1 for found in where.values()) and len(set(lies)) == len(lies)
    return whole and _apart(mapped) and _pinned(mapped)


def _apart(mapped: Mapped) -> bool:
    inside = [[kernel.name for kernel, _ in one] for one in mapped.partitions.values()]
    return all(
        sum(name in group for name in names) <= 1 for group in mapped.case.instance.task.apart for names in inside
    )


def _pinned(mapped: Mapped) -> bool:
    task, running = mapped.case.instance.task, defaultdict[str, list[int]](list)
    for p in sorted(mapped.partitions):
        for phase in {kernel.phase for kernel, _ in mapped.partitions[p]}:
            running[phase].append(p)
    places = {kernel.name: running[kernel.phase].index(p) for _, kernel, _, p in mapped.copies}
    meant = all(places[pin.kernel] == pin.partition for pin in task.pins)
    return meant and not any(places[one.kernel] in one.partitions for one in task.forbidden)


def _tiles(mapped: Mapped) -> bool:
    case = mapped.case
    if case.instance.task.utilisation is not None:
        return True
    return all(len(one) <= case.instance.system.chip.tiles for one in mapped.partitions.values())


def _stages(mapped: Mapped) -> bool:
    return all(a <= b for a, b in pairwise(mapped.stages))


def _terms(mapped: Mapped) -> tuple[dict[str, int], Fraction]:
    """All terms, from the times of the partitions, and T4 unrounded."""
    case, found = mapped.case, dict[str, int]()
    kinds = {"T1": _compute(mapped), "T2": _memory(mapped), "T3": _network(mapped)}
    runs = {p: 1 + any(k.name in case.again for k, _ in one) for p, one in mapped.partitions.items()}
    for label, times in kinds.items():
        found[label] = sum(runs[p] * times[p] for p in runs)
    launch, join = (
        ticks(amounts.written(case.instance.system.chip.launch_ns)),
        (max if case.instance.task.overlap else sum),
    )
    each = {p: runs[p] * (launch + join([times[p] for times in kinds.values()])) for p in runs}
    layer = Fraction(sum(each.values()))
    if pairs.paired(case.instance, case.degrees):
        own = {p: launch + kinds["T1"][p] + kinds["T2"][p] for p in runs}
        forward = {p for p, some in mapped.partitions.items() if some[0][0].phase == "forward"}
        layer = pairs.layer(case, runs, own, kinds["T3"], forward)
    found["T4"] = math.ceil(layer)
    of_stage: dict[int, int] = defaultdict(int)
    for p, time in each.items():
        of_stage[mapped.stage(p)] += time
    found["T7"] = case.layers * max(of_stage.values())
    found["T5"] = _transfers(mapped, found["T7"])
    found["T6"] = _after(mapped)
    found["T8"] = sum(_step(case, kernel, scheme) for _, kernel, scheme, _ in mapped.copies)
    found["T8"] += ticks(amounts.written(case.instance.system.step_ns)) * int(case.m)
    return found, layer


def _compute(mapped: Mapped) -> dict[int, int]:
    case, found = mapped.case, dict[int, int]()
    for p, kernels in mapped.partitions.items():
        if case.instance.task.utilisation is None:
            found[p] = tiles.compute(case, kernels) or 0
        else:
            found[p] = sum(amounts.computed(case, *one) for one in kernels)
    return found


def _memory(mapped: Mapped) -> dict[int, int]:
    """T2 by partition."""
    case, found = mapped.case, dict.fromkeys(mapped.partitions, 0)
    system, decode = case.instance.system, case.instance.task.purpose == "decode"
    rate, seen = amounts.written(system.memory.bytes_per_ns, system.memory.efficiency), set[tuple[int, int]]()
    for u, v in mapped.edges:
        if mapped.crosses(u, v):
            for p in (mapped.copies[u][3], mapped.copies[v][3]) if (u, v) not in mapped.elsewhere else ():
                if not case.physical or (u, p) not in seen:
                    found[p] += ticks(mapped.output(u) / rate)
                seen.add((u, p))
    for one in mapped.copied:
        for i in (one.supplier, *one.readers):
            found[mapped.copies[i][3]] += ticks(one.size / rate)
    of_stage: dict[int, int] = defaultdict(int)
    for p in mapped.partitions:
        of_stage[mapped.stage(p)] += 1
    rests = {p for p in found if case.physical and not system.chip.streams and case.layers == 1}
    rests = {p for p in rests if of_stage[mapped.stage(p)] == 1}
    cache = decode and not case.staged and len(rests) == len(found) and memory.cached(mapped)
    for _, kernel, scheme, p in mapped.copies:
        if (case.physical or decode) and p not in rests:
            found[p] += ticks(amounts.read_weights(case, kernel, scheme) / rate)
        if not cache:
            fetched = amounts.fetched(case, kernel, scheme) * case.b
            found[p] += ticks(fetched / rate / amounts.cache_share(case, kernel, fetched))
    return found


def _network(mapped: Mapped) -> dict[int, int]:
    """T3 by partition."""
    case, found = mapped.case, dict.fromkeys(mapped.partitions, 0)
    members = [u for makers in mapped.added.values() for u in makers]
    for i, (_, kernel, scheme, p) in enumerate(mapped.copies):
        found[p] += network.exchange(case, kernel)
        if i not in members or scheme not in exchanges.PARTIAL_SUMS:
            found[p] += network.sums(case, kernel, scheme)
        if i in mapped.parameters and not kernel.update:
            found[p] += exchanges.used_weights(mapped, i, mapped.parameters[i])
        else:
            found[p] += network.each_run(case, kernel, scheme)
    for i, time in exchanges.shared_sums(mapped):
        found[mapped.copies[i][3]] += time
    free = {*mapped.suppliers, *exchanges.lie_as_another(mapped)}
    for u, v in [*(edge for edge in mapped.edges if edge not in free), *mapped.handed]:
        found[mapped.copies[v][3]] += mapped.change(u, v)
    return found


def _hand_over(mapped: Mapped) -> int:
    """h in ticks, where stages are layers."""
    case, workload, total = mapped.case, mapped.case.instance.workload, 0
    backward = {kernel.name for kernel in workload.kernels if kernel.phase == "backward"}
    returns = bool(backward) and not any(u in backward for u, _ in workload.carries)
    for _, kernel, scheme, _ in mapped.copies:
        edges = sum(u == kernel.name for u, _ in workload.carries)
        times = (edges if not case.physical else min(edges, 1)) * (2 if returns else 1)
        total += ticks(times * network.sent(case, amounts.output(case, kernel, scheme)))
    return total


def _longest_transfer(mapped: Mapped) -> int:
    """h in ticks, where stages share out kernels."""
    case, longest = mapped.case, 0
    for s in range(case.degrees.pipeline - 1):
        total, seen = 0, set[int]()
        for u, v in mapped.edges:
            if mapped.stage(mapped.copies[u][3]) <= s < mapped.stage(mapped.copies[v][3]):
                if not (case.physical and u in seen):
                    total += ticks(network.sent(case, mapped.output(u)))
                seen.add(u)
        longest = max(longest, total)
    return longest


def _transfers(mapped: Mapped, slowest: int) -> int:
    """T5."""
    case, stages = mapped.case, mapped.case.degrees.pipeline
    if case.staged:
        return (case.m + stages - 1) * max(0, _longest_transfer(mapped) - slowest)
    h, v = _hand_over(mapped) if stages > 1 else 0, case.chunks
    backward = any(kernel.phase == "backward" for kernel in case.instance.workload.kernels)
    if stages > 1 and case.physical and backward and v == 1:
        more = stages - 1 if pairs.paired(case.instance, case.degrees) else 0
        return (stages + case.m - 2 - math.ceil(Fraction(case.m - 1, stages)) + more) * h
    return (stages * v - 1) * h + case.m * max(0, v * h - slowest)


def _after(mapped: Mapped) -> int:
    """T6."""
    case, kernels = mapped.case, mapped.case.instance.workload.kernels
    behind = case.instance.task.overlap_gradients
    sums = gathers = 0
    for _, kernel, scheme, _ in mapped.copies:
        if kernel.update:
            sums += network.gradients(case, kernel, scheme, 1 if behind else case.layers)
        elif kernel.phase == "forward":
            gathers += network.updated(case, kernel, scheme)
    gathers += sum(
        exchanges.back_to_rest(mapped, u, f) for u, f in mapped.parameters.items() if mapped.copies[u][1].update
    )
    if behind:
        least = 0
        if case.degrees.expert == 1 and all(one.exchange == "none" for one in kernels):
            late = case.instance.task.schedule == "zb-h1"
            back = [one for one in kernels if one.phase == "backward" and (one.update or not late)]
            least = amounts.least_computed(case, back)
        sums += (case.layers - 1) * max(0, sums - least)
    return sums + gathers


def _step(case: PageCase, kernel: Kernel, scheme: str) -> int:
    """T8 of a kernel."""
    task, system = case.instance.task, case.instance.system
    if not task.optimizer_step or kernel.phase == "backward":
        return 0
    word = Fraction(amounts.bits(case, case.instance.workload.weight_format), 8)
    state = 12 if task.optimizer_bytes is None else task.optimizer_bytes
    moved = amounts.parameters(case, kernel, scheme) / word * case.layers * (2 * word + 2 * state)
    if network.shared_out(case, scheme) != "none":
        moved /= case.degrees.data // (case.degrees.expert if scheme == "E" else 1)
    return ticks(moved / amounts.written(system.memory.bytes_per_ns, system.memory.efficiency))


def _batch(mapped: Mapped, terms: dict[str, int], layer: Fraction) -> int:
    """The objective."""
    case, stages = mapped.case, mapped.case.degrees.pipeline
    if case.staged:
        return (case.m + stages - 1) * terms["T7"] + terms["T5"]
    if case.physical:
        bubble = Fraction(stages - 1, case.m * case.chunks)
    else:
        of_stage = case.instance.workload.layers // stages
        bubble = Fraction(stages - 1, case.m * max(of_stage - 1, 1))
    found = math.ceil(layer * case.layers * (1 + bubble) * case.m)
    return found - pairs.filled(case) + terms["T5"] + terms["T6"] + terms["T8"]
