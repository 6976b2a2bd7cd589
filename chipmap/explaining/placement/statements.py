"""What is said of a placement: where its time goes, what holds its devices up, what they hold, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from chipmap.explaining.driver import statement
from chipmap.explaining.placement.changes import all_bytes, memory_may_bind
from chipmap.explaining.placement.spent import StepTimeSpent, path_of_data, spent
from chipmap.explanation import Statement
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.loads import Load, loads
from chipmap.instances.placement.offload import fetch_times
from chipmap.instances.placement.problem import PlacementProblem
from chipmap.instances.placement.timeline import Piece, Timeline
from chipmap.records import counted, listed
from chipmap.records.quantities import duration, share, size

#: Of operations, kinds, transfers and devices that are named, the largest ones.
NAMED, DEVICES = 3, 8


def schedule(line: Timeline) -> Iterator[Statement]:
    """Where the time of a schedule goes: the critical chain, the path of data, devices and channels."""
    if not line.total:
        return
    yield from _chain(line)
    yield _path(line)
    yield from _devices(line)


def _chain(line: Timeline) -> Iterator[Statement]:
    chain, names = line.chain, line.problem.device_names
    sums = spent(chain)
    work = [piece for piece in chain if piece.kind == "compute"]
    sent = [piece for piece in chain if piece.kind == "transfer"]
    parts = {"computing": sums.compute, "transfers": sums.transfer, "rests of devices and channels": sums.rest,
             "waits without a cause that is seen": sums.idle}  # fmt: skip
    text = f"The critical chain, each piece of which holds up the next, has {counted(len(work), 'operation')} and "
    text += f"{counted(len(sent), 'transfer')}: {_sum(parts, line.total)}"
    yield statement("chain", text, "T1", **_figures(sums))
    yield from _causes(Counter((piece.kind, piece.behind) for piece in (*work, *sent)))
    yield _contributors(line, work)
    if sent:
        largest = sorted(sent, key=lambda piece: (-piece.time, piece.start))[:NAMED]
        each = [f"{line.name(line.moves[p.move])!r} from {names[line.moves[p.move].source]!r} to "
                f"{names[line.moves[p.move].target]!r} {duration(p.time)}" for p in largest]  # fmt: skip
        yield statement("chain", f"Its longest transfers: {', '.join(each)}", "T1", longest_ns=largest[0].time)


#: What the pieces of a chain waited for, in words.
CAUSES = {
    "compute": {
        "input": "when its input was made on the same device",
        "transfer": "when a transfer had brought it",
        "device": "when its device was done with another operation",
    },
    "transfer": {"input": "when its tensor was made", "channel": "when its channel was free again"},
}


def _causes(counts: Counter[tuple[str, str]]) -> Iterator[Statement]:
    """How often the pieces of the chain waited for what."""
    told, figures = [], dict[str, int]()
    for kind, noun in (("compute", "an operation"), ("transfer", "a transfer")):
        each = [
            f"{counts[kind, behind]:,} times {text}" for behind, text in CAUSES[kind].items() if counts[kind, behind]
        ]
        told += [f"{noun} began {', '.join(each)}"] if each else []
        figures |= {f"{kind}_behind_{behind}": counts[kind, behind] for behind in CAUSES[kind]}
    if told:
        yield statement("chain", f"On it {'; '.join(told)}", "T1", **figures)


def _contributors(line: Timeline, work: list[Piece]) -> Statement:
    """The devices, kinds and operations that compute most on the chain."""
    problem = line.problem
    kinds, devices = Counter[str](), Counter[str]()
    for piece in work:
        kinds[problem.instance.graph.operations[int(problem.position[piece.operation])].kind] += piece.time
        devices[problem.device_names[line.device[piece.operation]]] += piece.time
    total = sum(kinds.values())
    longest = sorted(work, key=lambda piece: (-piece.time, piece.start))[:NAMED]
    text = f"Its computing is on {_most(devices, total)}; by kind of operation {_most(kinds, total)}"
    text += f"; the longest are {', '.join(f'{problem.names[p.operation]!r} {duration(p.time)}' for p in longest)}"
    return statement("chain", text, "T1", **{f"{name}_ns": ns for name, ns in devices.items()})


def _most(sums: Mapping[str, int], total: int) -> str:
    ordered = sorted(sums.items(), key=lambda one: (-one[1], one[0]))
    return listed((f"{name!r} {share(ns, total)}" for name, ns in ordered), NAMED)


def _path(line: Timeline) -> Statement:
    path = path_of_data(line)
    sums = spent(path)
    last = line.problem.names[line.last]
    work, sent = (sum(one.kind == kind for one in path) for kind in ("compute", "transfer"))
    parts = {"computing": sums.compute, "transfers": sums.transfer, "waiting for a busy device": sums.device,
             "waiting for a busy channel": sums.channel, "waiting for one that rests": sums.rest,
             "waiting without a cause that is seen": sums.idle}  # fmt: skip
    text = f"Followed back along the input that came last, the data of {last!r}, which ends last, went through "
    text += f"{counted(work, 'operation')} and {counted(sent, 'transfer')}: {_sum(parts, line.total)}"
    return statement("path", text, "T1", operation=last, **_figures(sums))


def _sum(parts: dict[str, int], total: int) -> str:
    each = [f"{words} {duration(ns)} ({share(ns, total)})" for words, ns in parts.items() if ns]
    return f"{', '.join(each)}; together T1 = {duration(total)}"


def _figures(sums: StepTimeSpent) -> dict[str, int]:
    return {"compute_ns": sums.compute, "transfer_ns": sums.transfer, "device_ns": sums.device,
            "channel_ns": sums.channel, "rest_ns": sums.rest, "idle_ns": sums.idle}  # fmt: skip


def _devices(line: Timeline) -> Iterator[Statement]:
    names, total = line.problem.device_names, line.total
    busy = dict(zip(names, line.busy, strict=True))
    text = f"The device computes {share(sum(line.busy), total)} of the step"
    if len(names) > 1:
        each = (f"{name!r} {share(ns, total)}" for name, ns in sorted(busy.items(), key=lambda one: -one[1]))
        text = f"Devices compute {share(sum(line.busy), total * len(names))} of the step on average"
        text += f": {listed(each, DEVICES)}"
    yield statement("device", text, "T1", **{f"busy_ns {name}": ns for name, ns in busy.items()})
    held = {line.channel_names[c]: sum(line.moves[i].free - line.moves[i].start for i in moves)
            for c, moves in line.channels.items()}  # fmt: skip
    if held:
        most = max(held, key=lambda name: held[name])
        yield statement("channel", f"Of {counted(len(held), 'used channel')} the busiest is {most!r}, held for "
                        f"{share(held[most], total)} of the step; {counted(len(line.moves), 'transfer')} in all",
                        "T1", channel=most, held_ns=held[most], transfers=len(line.moves))  # fmt: skip


def throughput(problem: PlacementProblem, solution: PlacementSolution) -> Iterator[Statement]:
    """Which device sets the pace, and what the others do."""
    found, names = loads(problem, solution), problem.device_names
    order = sorted(range(len(found)), key=lambda d: (-found[d].total, d))
    most = found[order[0]]
    overlap = problem.instance.task.overlap
    text = f"Device {names[order[0]]!r} sets the pace with {duration(most.total)} per sample: {_load(problem, most)}"
    text += ". It computes and transfers side by side, so that the larger sum counts" if overlap else ""
    yield statement("load", text, "T2", device=names[order[0]], work_ns=most.work, sent_ns=most.sent,
                    operations=most.operations)  # fmt: skip
    rest = [f"{names[d]!r} {duration(found[d].total)} ({duration(found[d].work)} of it computing)" for d in order[1:]]
    if rest:
        idle = sum(one.operations == 0 for one in found)
        text = f"The others: {listed(rest, DEVICES)}"
        text += (
            f". {counted(idle, 'device')} of {len(found)} {'has' if idle == 1 else 'have'} nothing to do"
            if idle
            else ""
        )
        yield statement("load", text, "T2", **{f"total_ns {names[d]}": found[d].total for d in order[1:]})


def _load(problem: PlacementProblem, load: Load) -> str:
    text = f"{counted(load.operations, 'operation')} compute {duration(load.work)} ({share(load.work, load.total)})"
    text += f", transfers take {duration(load.sent)}"
    if load.largest is not None:
        cost, u = load.largest
        text += f", the largest {duration(cost)} for the output of {problem.names[u]!r}"
    return text


def fetched(problem: PlacementProblem, solution: PlacementSolution) -> Statement:
    """The weights that live on the host: how many, their bytes, and the time of fetching them."""
    times, chosen = fetch_times(problem), set(solution.fetched)
    here = [v for v, name in enumerate(problem.names) if name in chosen]
    count, held, time = len(here), int(problem.weights[here].sum()), int(times[here].sum())
    text = f"{counted(count, 'operation')} fetch{'es' if count == 1 else ''} weights from the host"
    text = f"{text}: {size(held)} in {duration(time)}, which is a part of their time"
    return statement("fetched", text, "C6", operations=count, bytes=held, ns=time)


def memory(problem: PlacementProblem, figures: Mapping[str, float]) -> Iterator[Statement]:
    """The fullest device by the checker's ``figures``, or that memory can't bind at all."""
    if problem.instance.task.memory == "none":
        return
    if not memory_may_bind(problem):
        text = f"Memory (C6) never binds: everything together, {size(all_bytes(problem))}, fits on each device"
        yield statement("memory", text, "C6", all_bytes=all_bytes(problem))
        return
    limits = dict(zip(problem.device_names, problem.memory.tolist(), strict=True))
    peaks = {name: int(figures[f"peak_bytes {name}"]) for name, limit in limits.items()
             if limit > 0 and f"peak_bytes {name}" in figures}  # fmt: skip
    if peaks:
        fullest = max(peaks, key=lambda name: peaks[name] / limits[name])
        text = f"The fullest device, {fullest!r}, holds {size(peaks[fullest])} of {size(limits[fullest])} at its peak "
        text += f"({share(peaks[fullest], limits[fullest])})"
        yield statement("memory", text, "C6", device=fullest, peak_bytes=peaks[fullest], memory_bytes=limits[fullest])
