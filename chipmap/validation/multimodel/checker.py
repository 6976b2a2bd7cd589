"""The independent checker of family ``multimodel``: what ``docs/families/multimodel.md`` says, label by label.

Plain loops over the records. It imports no cost function, model or heuristic, so that nothing judges itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, pairwise

from chipmap.certificate import Certificate
from chipmap.instances.multimodel.instance import Chiplet, Model, MultiInstance, MultiSolution
from chipmap.records import counted
from chipmap.validation.certify import Finding, certify
from chipmap.validation.decimals import written
from chipmap.validation.multimodel import frames


@dataclass(frozen=True)
class Segment:
    """Layers ``first`` to ``last`` of a model on a chiplet."""

    first: int
    last: int
    chiplet: Chiplet


#: For each window: model (position) -> its segments, in the order of their first layers.
Windows = list[dict[int, list[Segment]]]


def check(instance: MultiInstance, solution: MultiSolution) -> Certificate:
    """The certificate of ``solution`` for a valid ``instance``; a violation of C0 or C1 leaves the terms undefined."""
    broken: dict[str, Iterable[Finding]] = {"C0": list(c0_domain(instance, solution))}
    if broken["C0"]:
        return certify(instance, solution, broken)
    windows = _windows(instance, solution)
    broken["C1"] = list(c1_chain(instance, windows))
    broken |= {"C3": c3_path(instance, windows), "C5": c5_memory(instance, windows)}
    runs = {} if broken["C1"] else _runs(instance, solution, windows)
    broken["C2"] = c2_apart(instance, windows, runs)
    if broken["C1"]:
        return certify(instance, solution, broken)
    broken |= {"C6": c6_pins(instance, windows), "C7": c7_order(instance, runs), "C8": c8_follow(instance, runs)}
    terms = {"T2": t2_energy(instance, windows, runs)}
    figures: dict[str, float] = {"windows": len(windows)}
    if instance.task.objective == "frames":
        terms["T3"] = t3_dropped(instance, runs)
        figures |= {"frames": sum(frames.period(instance)[1]), "frames_met": len(runs)}
    else:
        terms = {"T1": t1_latency(instance, windows), **terms}
        figures["edp_js"] = terms["T1"] * terms["T2"] * 1e-21
    broken["C4"] = c4_limits(instance, windows, terms, runs)
    return certify(instance, solution, broken, objective=_objective(instance, terms), terms=terms, figures=figures)


def _windows(instance: MultiInstance, solution: MultiSolution) -> Windows:
    """The used windows, by model."""
    models = {model.name: m for m, model in enumerate(instance.models)}
    chiplets = {chiplet.name: chiplet for chiplet in instance.module.chiplets}
    found: Windows = []
    for window in solution.windows:
        ranges: dict[int, list[Segment]] = {}
        for piece in sorted(window, key=lambda piece: (piece.first, piece.last)):
            segment = Segment(piece.first, piece.last, chiplets[piece.chiplet])
            ranges.setdefault(models[piece.model], []).append(segment)
        if ranges:
            found.append(ranges)
    return found


def _runs(instance: MultiInstance, solution: MultiSolution, windows: Windows) -> frames.Runs:
    """What the frames of a solution run where, and for how long; none without rates."""
    names = [model.name for model in instance.models]
    found: frames.Runs = {}
    for one in solution.frames:
        m = names.index(one.model)
        times = spans(instance, instance.models[m], windows[0][m])
        pairs = zip(one.starts, windows[0][m], times, strict=True)
        found[m, one.frame] = [frames.Run(m, one.frame, seg.chiplet.name, start, time) for start, seg, time in pairs]
    return found


def _objective(instance: MultiInstance, terms: dict[str, int]) -> int:
    if instance.task.objective == "frames":
        return terms["T3"]
    time, energy = terms["T1"], terms["T2"]
    if instance.task.objective == "latency":
        return time
    if instance.task.objective == "energy":
        return energy
    if instance.task.objective == "weighted":
        return math.ceil(Fraction(round(written(instance.task.watts) * 10**6), 1000) * time) + energy
    return math.ceil(Fraction(time * energy, edp_tick(instance)))


def edp_tick(instance: MultiInstance) -> int:
    """A tick of EDP in ns · pJ, by the models whole on one chiplet each. Where the product of their least is 10^13 or
    more: the first of 10^9, 10^10, … with fewer than 10^18 ticks in that of their most; else of 1, 10, … with 10^15."""
    least, most = (0, 0), (0, 0)
    for model in instance.models:
        whole = [[Segment(0, len(model.layers) - 1, chiplet)] for chiplet in instance.module.chiplets]
        times = [latency(instance, model, one) for one in whole]
        energies = [energy(instance, model, one) for one in whole]
        least = max(least[0], min(times)), least[1] + min(energies)
        most = most[0] + max(times), most[1] + max(energies)
    least, most = ((time, amount + static(instance, time)) for time, amount in (least, most))
    first, ticks = (9, 18) if least[0] * least[1] >= 10**13 else (0, 15)
    return next(10**k for k in count(first) if most[0] * most[1] < 10 ** (ticks + k))


def c0_domain(instance: MultiInstance, solution: MultiSolution) -> Iterator[Finding]:
    """Names and layers exist, first <= last, at most W windows, no empty one before a used one; frames likewise."""
    if instance.task.objective == "frames":
        yield from frames.wrong_frames(instance, solution)
    elif solution.frames:
        yield "frames", len(solution.frames), "frames", "there are frames, and the objective isn't frames"
    layers = {model.name: len(model.layers) for model in instance.models}
    chiplets = {chiplet.name for chiplet in instance.module.chiplets}
    used = [w for w, window in enumerate(solution.windows) if window]
    if used and used[-1] >= instance.task.windows and instance.task.objective != "frames":
        many = used[-1] + 1
        yield (
            "windows",
            many - instance.task.windows,
            "windows",
            f"{counted(many, 'window')}, at most {instance.task.windows} allowed",
        )
    for w in range(used[-1] if used else 0):
        if not solution.windows[w]:
            yield f"windows[{w}]", 1, "windows", f"window {w} is empty, but window {used[-1]} is used"
    for w, window in enumerate(solution.windows):
        for i, piece in enumerate(window):
            here = f"windows[{w}][{i}]"
            if piece.model not in layers:
                yield here, 1, "segments", f"no model is called {piece.model!r}"
            elif not 0 <= piece.first <= piece.last < layers[piece.model]:
                last = layers[piece.model] - 1
                what = f"layers {piece.first} to {piece.last} of {piece.model!r}, which has layers 0 to {last}"
                yield here, 1, "segments", what
            if piece.chiplet not in chiplets:
                yield here, 1, "segments", f"no chiplet is called {piece.chiplet!r}"


def c1_chain(instance: MultiInstance, windows: Windows) -> Iterator[Finding]:
    """Each model's layers once each, in the order of its chain."""
    for m, model in enumerate(instance.models):
        following = 0
        for w, ranges in enumerate(windows):
            for segment in ranges.get(m, []):
                if segment.first != following:
                    what = f"{model.name!r} goes on with layer {segment.first} in window {w}"
                    yield model.name, abs(segment.first - following), "layers", f"{what}, but layer {following} is next"
                following = segment.last + 1
        if following != len(model.layers):
            left = len(model.layers) - following
            yield (
                model.name,
                abs(left),
                "layers",
                f"{model.name!r} ends before layer {following} of {len(model.layers)}",
            )


def c2_apart(instance: MultiInstance, windows: Windows, runs: frames.Runs) -> Iterator[Finding]:
    """At most one segment per chiplet and window. With frames: at most one per chiplet and model, and runs in turn."""
    rated = instance.task.objective == "frames"
    for w, ranges in enumerate(windows):
        count: dict[tuple[str, int], int] = {}
        for m, segments in ranges.items():
            for segment in segments:
                key = segment.chiplet.name, m if rated else 0
                count[key] = count.get(key, 0) + 1
        for (name, m), number in count.items():
            if number > 1:
                of = f" of {instance.models[m].name!r}" if rated else ""
                what = f"chiplet {name!r} runs {number} segments{of} in window {w}"
                yield f"window {w}, {name}", number - 1, "segments", what
    yield from frames.overlaps(instance, runs) if runs else ()


def c3_path(instance: MultiInstance, windows: Windows) -> Iterator[Finding]:
    """A link between the chiplets of a model's consecutive segments in a window."""
    links = {frozenset(link) for link in instance.module.links}
    for w, ranges in enumerate(windows):
        for m, segments in ranges.items():
            for a, b in pairwise(segments):
                if frozenset((a.chiplet.name, b.chiplet.name)) not in links:
                    ends = f"{a.chiplet.name!r} to {b.chiplet.name!r}"
                    what = f"{instance.models[m].name!r} goes from {ends} in window {w}, which no link joins"
                    yield f"window {w}, {instance.models[m].name}", 1, "links", what


def c4_limits(instance: MultiInstance, windows: Windows, terms: dict[str, int], runs: frames.Runs) -> Iterator[Finding]:
    """T1 and T2 within their limits, each model (with rates: each frame that is run) done by its deadline."""
    task = instance.task
    for term, limit, unit in (("T1", task.latency_limit_ns, "ns"), ("T2", task.energy_limit_pj, "pJ")):
        if limit is not None and terms[term] > limit:
            over = terms[term] - limit
            yield term, over, unit, f"{term} is {terms[term]} {unit}, {over} above its limit of {limit}"
    if task.objective == "frames":
        yield from frames.late(instance, runs)
        return
    for m, model in enumerate(instance.models):
        if model.deadline_ns is not None:
            last = max(w for w, ranges in enumerate(windows) if m in ranges)
            done = sum(_slowest(instance, ranges) for ranges in windows[:last])
            done += max(latency(instance, model, windows[last][m]), shared(instance, windows[last]))
            if done > model.deadline_ns:
                what = f"{model.name!r} is done after {done} ns, its deadline is {model.deadline_ns} ns"
                yield model.name, done - model.deadline_ns, "ns", what


def c5_memory(instance: MultiInstance, windows: Windows) -> Iterator[Finding]:
    """Weights + b · max (in + out) <= SRAM, where a chiplet has a limit."""
    for w, ranges in enumerate(windows):
        for m, segments in ranges.items():
            model = instance.models[m]
            for segment in segments:
                layers = model.layers[segment.first : segment.last + 1]
                need = sum(layer.weight_bytes for layer in layers)
                need += model.mini_batch * max(layer.in_bytes + layer.out_bytes for layer in layers)
                limit = segment.chiplet.sram_bytes
                if limit is not None and need > limit:
                    name = segment.chiplet.name
                    what = f"layers {segment.first} to {segment.last} of {model.name!r} need {need} bytes on {name!r}, "
                    yield f"window {w}, {name}", need - limit, "bytes", f"{what}which has {limit}"


def c6_pins(instance: MultiInstance, windows: Windows) -> Iterator[Finding]:
    """Pinned layers on their chiplets, none on a forbidden one, those together on one chiplet, those apart on several.

    A layer is called by its model and its own name, with a slash between."""
    on: dict[str, str] = {}
    for ranges in windows:
        for m, segments in ranges.items():
            for segment in segments:
                for layer in instance.models[m].layers[segment.first : segment.last + 1]:
                    on[f"{instance.models[m].name}/{layer.name}"] = segment.chiplet.name
    for pin in instance.pins:
        if on[pin.layer] != pin.chiplet:
            yield pin.layer, 1, "layers", f"{pin.layer!r} is pinned to {pin.chiplet!r}, it runs on {on[pin.layer]!r}"
    for one in instance.forbidden:
        if on[one.layer] in one.chiplets:
            yield one.layer, 1, "layers", f"{one.layer!r} runs on {on[one.layer]!r}, which is forbidden to it"
    for group in instance.together:
        for name in group[1:]:
            if on[name] != on[group[0]]:
                both = f"{group[0]!r} runs on {on[group[0]]!r}, {name!r} on {on[name]!r}"
                yield name, 1, "layers", f"{both}: they are to be together"
    for group in instance.apart:
        for i, name in enumerate(group):
            for other in group[:i]:
                if on[name] == on[other]:
                    yield name, 1, "layers", f"{other!r} and {name!r} run on {on[name]!r}: they are to be apart"


def c7_order(instance: MultiInstance, runs: frames.Runs) -> Iterator[Finding]:
    """A frame begins at its release at the earliest, each segment when the one before it has ended."""
    yield from frames.early(instance, runs)


def c8_follow(instance: MultiInstance, runs: frames.Runs) -> Iterator[Finding]:
    """A frame of a model that comes after another begins when that one's frame of its number has ended."""
    yield from frames.not_followed(instance, runs)


def t1_latency(instance: MultiInstance, windows: Windows) -> int:
    """The windows one after the other, each as long as its slowest model, in ns."""
    return sum(_slowest(instance, ranges) for ranges in windows)


def _slowest(instance: MultiInstance, ranges: dict[int, list[Segment]]) -> int:
    own = max(latency(instance, instance.models[m], segments) for m, segments in ranges.items())
    return max(own, shared(instance, ranges))


def shared(instance: MultiInstance, ranges: dict[int, list[Segment]]) -> int:
    """V of a window: its bytes from and to DRAM at the shared rate, and those of the busiest link and direction."""
    module, total = instance.module, 0
    if module.shared_dram_bytes_per_ns is None and module.shared_link_bytes_per_ns is None:
        return 0
    loads: dict[tuple[str | None, str | None], int] = {}
    for m, segments in ranges.items():
        model = instance.models[m]
        for i, segment in enumerate(segments):
            layers = model.layers[segment.first : segment.last + 1]
            read = sum(layer.weight_bytes for layer in layers) + (model.batch * layers[0].in_bytes if i == 0 else 0)
            out, way = model.batch * layers[-1].out_bytes, [*_way(instance, segment.chiplet), None]
            last = i == len(segments) - 1
            total += read + (out if last else 0)
            for link in pairwise(way if last else (segment.chiplet.name, segments[i + 1].chiplet.name)):
                loads[link] = loads.get(link, 0) + out
            for a, b in pairwise(way):
                loads[b, a] = loads.get((b, a), 0) + read
    times = [0]
    if module.shared_dram_bytes_per_ns is not None:
        times.append(math.ceil(total / written(module.shared_dram_bytes_per_ns)))
    if module.shared_link_bytes_per_ns is not None:
        times.append(math.ceil(max(loads.values()) / written(module.shared_link_bytes_per_ns)))
    return max(times)


def _way(instance: MultiInstance, chiplet: Chiplet) -> list[str]:
    """The chiplets from this one to DRAM: the next one is linked and a hop nearer, in the same row if one is."""
    module, order = instance.module, {one.name: i for i, one in enumerate(instance.module.chiplets)}
    found, at = [chiplet.name], chiplet
    while True:
        near = [other for link in module.links if at.name in link for other in link if other != at.name]
        nearer = [one for one in module.chiplets if one.name in near and one.hops == at.hops - 1]
        if not nearer:
            return found
        at = min(nearer, key=lambda one: (one.y != at.y, order[one.name]))
        found.append(at.name)


def latency(instance: MultiInstance, model: Model, segments: list[Segment]) -> int:
    """Lat of a model's range in a window: Σ t + weights + (q - 1) · max t, in ns."""
    times, weights = _times(instance, model, segments), _weights(instance, model, segments)
    return sum(times) + sum(weights) + (model.batch // model.mini_batch - 1) * max(times)


def spans(instance: MultiInstance, model: Model, segments: list[Segment]) -> list[int]:
    """How long each segment of a frame takes, with the reading of its weights, in ns."""
    return list(map(sum, zip(_times(instance, model, segments), _weights(instance, model, segments), strict=True)))


def _weights(instance: MultiInstance, model: Model, segments: list[Segment]) -> list[int]:
    dram = written(instance.module.dram_bytes_per_ns)
    own = [model.layers[segment.first : segment.last + 1] for segment in segments]
    return [sum(math.ceil(layer.weight_bytes / dram) for layer in layers) for layers in own]


def _times(instance: MultiInstance, model: Model, segments: list[Segment]) -> list[int]:
    """t of each segment: its layers and the transfers that it pays for, for a mini-batch, in ns."""
    module, b = instance.module, model.mini_batch
    link, dram = written(module.nop_bytes_per_ns), written(module.dram_bytes_per_ns)
    times = []
    for i, segment in enumerate(segments):
        layers = model.layers[segment.first : segment.last + 1]
        far = segment.chiplet.hops * module.hop_ns + module.dram_ns
        time = sum(b * layer.costs[segment.chiplet.kind][0] for layer in layers)
        if i == 0:
            time += math.ceil(b * layers[0].in_bytes / dram + far)
        elif instance.task.charge == "both":
            before = model.layers[segment.first - 1]
            time += math.ceil(b * before.out_bytes / link + module.hop_ns)
        if i == len(segments) - 1:
            time += math.ceil(b * layers[-1].out_bytes / dram + far)
        else:
            time += math.ceil(b * layers[-1].out_bytes / link + module.hop_ns)
        times.append(time)
    return times


def t3_dropped(instance: MultiInstance, runs: frames.Runs) -> int:
    """The weights of all frames of a hyperperiod that aren't run."""
    _, counts = frames.period(instance)
    met = sum(instance.models[m].frame_weight for m, _ in runs)
    return sum(count * model.frame_weight for count, model in zip(counts, instance.models, strict=True)) - met


def t2_energy(instance: MultiInstance, windows: Windows, runs: frames.Runs) -> int:
    """Layers, transfers and weights, and static energy of all windows, in pJ; with rates, of all frames run."""
    if instance.task.objective == "frames":
        each = {m: energy(instance, instance.models[m], segments) for m, segments in windows[0].items()} if runs else {}
        return sum(each[m] for m, _ in runs)
    own = sum(energy(instance, instance.models[m], segments) for ranges in windows for m, segments in ranges.items())
    return own + (
        static(instance, sum(_slowest(instance, one) for one in windows)) if instance.module.static_watts else 0
    )


def static(instance: MultiInstance, time: int) -> int:
    """Static energy of ``time`` ns in pJ."""
    return math.ceil(Fraction(round(written(instance.module.static_watts) * 10**6), 1000) * time)


def energy(instance: MultiInstance, model: Model, segments: list[Segment]) -> int:
    """What a model's range in a window takes, in pJ."""
    module, total = instance.module, 0
    per_hop, per_access = (
        Fraction(round(100 * written(amount)), 100) for amount in (module.hop_pj_per_byte, module.dram_pj_per_byte)
    )
    for i, segment in enumerate(segments):
        layers = model.layers[segment.first : segment.last + 1]
        far = per_access + segment.chiplet.hops * per_hop
        sample = sum(layer.costs[segment.chiplet.kind][1] for layer in layers)
        if i == 0:
            sample += math.ceil(layers[0].in_bytes * far)
        sample += math.ceil(layers[-1].out_bytes * (far if i == len(segments) - 1 else per_hop))
        total += model.batch * sample + sum(math.ceil(layer.weight_bytes * far) for layer in layers)
    return total
