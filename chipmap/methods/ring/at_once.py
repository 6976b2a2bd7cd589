"""What is known of a ring instance at next to no cost: two bounds, and the plainest proofs of infeasibility.

All of it takes time linear in the operations, straight from the arrays of the problem, so that every run has a bound
before anything larger begins, however large the graph is.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from chipmap.explanation import EXPLAIN
from chipmap.heuristics.ring.bounds.simple import average, largest
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import RingProblem, ring_problem
from chipmap.instances.ring.splitting import option_to_fit, option_to_split
from chipmap.methods.ring.text import times, us
from chipmap.records import counted
from chipmap.result import Infeasibility
from chipmap.run import Run

#: How an operation is split.
SPLIT = "chipmap convert INSTANCE --split"
#: How the owner of weights is called that is no single operation.
GROUP = "keep-together group"


def at_once(instance: RingInstance, run: Run) -> None:
    """Report both bounds, or why there is no mapping."""
    problem = ring_problem(instance)
    if reasons := plain_reasons(problem):
        run.infeasible(*reasons)
        return
    run.bound(average(problem), "average")
    run.bound(largest(problem), "largest operation")


def advice(instance: RingInstance, run: Run) -> None:
    """Where the longest operation alone is as long as the bound on the period: a note that names it and its split.

    Fewer parts than make it as short as all work / C wouldn't do for that; pins and keep-together groups hold it whole.
    Nothing is said of an operation that can't be split in so many.
    """
    problem = ring_problem(instance)
    longest = largest(problem)
    if run.lower is None or run.lower.value != longest or longest <= average(problem) or run.evaluator is not None:
        return
    v = int(problem.ticks.argmax())
    name = instance.graph.operations[v].name
    if any(pin.operation == name for pin in instance.pins) or any(name in group for group in instance.together):
        return
    others = int((problem.ticks == longest).sum()) - 1
    also = f" (and {counted(others, 'other')} like it)" if others else ""
    parts = -(-longest * problem.chips // problem.total_ticks)
    option = option_to_split(instance, v, parts)
    if not option:
        return
    command = f"{SPLIT} {quote(option)}"
    text = (
        f"{name}{also} takes {us(longest)} by itself, {times(longest, problem.total_ticks / problem.chips)} times all "
        f"work / chips: no mapping is faster. In parts it may be, which is another problem: {command}. "
        "`chipmap explain` says what changes like this gain, each solved and checked"
    )
    run.note("advice", text, operation=name, ticks=longest, parts=parts)


def plain_reasons(problem: RingProblem) -> list[Infeasibility]:
    """The reasons that need no search, none where nothing is plain.

    Pins and forbidden chips leave no chip for an operation, or operations can't be apart (C0); or the weights alone are
    too many bytes (C4): those that must share a chip for one chip's SRAM, or all of them for all chips.
    """
    shut = [v for v, chips in enumerate(problem.allowed) if chips is not None and not chips]
    if shut:
        remedy = "remove one of the pins or groups that name it"
        text = "pins, forbidden chips and keep-together groups leave no chip for"
        names = [problem.instance.graph.operations[v].name for v in shut]
        short = (1, 0, "chips")
        return [
            Infeasibility.of("C0", f"chips for {name}", short, f"{text} {name}", remedy, labels=("C0",))
            for name in names
        ]
    if apart := next(_not_apart(problem), None):
        return [apart]
    if problem.has("C4") and _floor(problem) > problem.sram_bytes:
        return [memory(problem, 0, None, ("C4",))]
    return []


def _not_apart(problem: RingProblem) -> Iterator[Infeasibility]:
    """Operations that are to be apart and can't be: more than there are chips, kept together, or pinned to one chip."""
    first, operations = list(range(problem.n)), problem.instance.graph.operations
    for group in problem.groups if problem.apart else ():
        met = {first[v] for v in group}
        first = [min(met) if one in met else one for one in first]
    pinned = {v: min(chips) for v, chips in enumerate(problem.allowed) if chips is not None and len(chips) == 1}
    for group in problem.apart:
        if len(group) > problem.chips:
            text = f"{len(group):,} operations are to be apart ({operations[group[0]].name} among them), "
            text += f"there {'is' if problem.chips == 1 else 'are'} {counted(problem.chips, 'chip')}"
            remedies = f"more chips: --set package.chips={len(group)}", "a smaller group in apart"
            need = len(group), problem.chips, "chips"
            yield Infeasibility.of("C0", "chips for operations apart", need, text, *remedies, labels=("C0",))
        kept = {v: first[v] for v in group}
        for why, places in (("share a group of together", kept), ("may be on one chip only", pinned)):
            seen: dict[int, int] = {}
            for v in (v for v in group if v in places):
                if (u := seen.setdefault(places[v], v)) != v:
                    text = f"{operations[u].name} and {operations[v].name} are to be apart, but {why}"
                    remedy = "take one of them out of it, or free it"
                    short = (2, 1, "chips")
                    yield Infeasibility.of("C0", "chips for two operations", short, text, remedy, labels=("C0",))


def _heaviest(problem: RingProblem) -> tuple[int, str]:
    """The most weights that must share a chip (an operation's, or a keep-together group's), and whose they are."""
    operations = problem.instance.graph.operations
    heaviest = [int(problem.alone_bytes.argmax())] if problem.n else []
    found = [(int(problem.alone_bytes[v]), f"operation {operations[v].name!r}") for v in heaviest]
    for group in problem.groups:
        words = f"{GROUP} of {operations[group[0]].name!r} ({counted(len(group), 'operation')})"
        found.append((problem.weights_of(group), words))
    return max(found, key=lambda one: one[0], default=(0, "operation"))


def _floor(problem: RingProblem) -> int:
    """Bytes that some chip needs for weights alone: the average over all chips, or the heaviest operation or group."""
    return max(problem.least_weights, _heaviest(problem)[0])


def memory(problem: RingProblem, demand: int, reached: int | None, labels: tuple[str, ...] = ()) -> Infeasibility:
    """C4 is to blame: some chip needs at least ``demand`` bytes (or more, for weights alone) where ``labels`` hold.

    ``reached`` bytes are known to do (None: not known). Remedies are those that can help: with an operation that is too
    large for any chip, more chips don't.
    """
    limit, chips = problem.sram_bytes, problem.chips
    total, (heaviest, owner) = int(problem.floor_bytes.sum()), _heaviest(problem)
    demand = max(demand, _floor(problem))
    room = counted(limit, "byte")
    text = (
        f"no mapping on {counted(chips, 'chip')} fits {room} of SRAM: the weights are {total:,} bytes in all "
        f"({-(-total // chips):,} per chip), the heaviest {owner} holds {heaviest:,}, and some chip needs at least "
        f"{demand:,}"
    )
    if reached is not None:
        remedies = [f"{reached:,} bytes do: --set package.sram_bytes={reached}"]
    else:
        remedies = [f"an SRAM of at least {demand:,} bytes, maybe more: {EXPLAIN}"]
    if heaviest > limit:
        text += "; more chips alone don't help"
        what = f"split {owner} into smaller ones"
        if owner.startswith(GROUP):
            what = "leave the group out of together"
        elif option := option_to_fit(problem.instance, int(problem.alone_bytes.argmax()), limit):
            what += f": {SPLIT} {quote(option)}, or more parts"
        remedies += [what, "fewer bytes per word"]
    else:
        more = max(chips + 1, -(-total // limit)) if limit else chips + 1
        remedies += [f"more chips, at least {more:,}, if any number does: {EXPLAIN}", "fewer bytes per word"]
    what = f"SRAM of each of {chips} chips"
    return Infeasibility.of("C4", what, (demand, limit, "bytes"), text, *remedies, labels=labels)
