"""Which changes of a ring instance ``explain`` tries: without a constraint, cloned, split, other chips, SRAM or links.

Every trial is an instance of its own that is solved and checked; nothing here is claimed before that.
"""

from __future__ import annotations

from functools import partial

from chipmap.explaining.ring.solved import ExplainedInstance, RingSolved, RingTrial
from chipmap.heuristics.ring.bounds.simple import SkipConnection, skip_connections
from chipmap.instances.ring import variants
from chipmap.instances.ring.draft import bound_names
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.splitting import split
from chipmap.instances.ring.transforms import clone
from chipmap.records import counted, listed
from chipmap.records.quantities import in_bytes

#: Pins, groups and forbidden chips that are left out one by one, each; more are left alone.
EACH = 8
#: An operation is cheap to clone if its copies add at most this share of all work.
CHEAP = 0.02
#: In graphs of at most so many operations cloning is tried whatever it costs.
SMALL = 12
#: Operations that are cloned, each by itself, and together.
CLONES = 3
CLONES_TOGETHER = 24
#: Operations of the same length that are split together.
SPLIT_TOGETHER = 16


def relaxations(instance: RingInstance) -> list[RingTrial]:
    """Without C3, without C4, with free links, without pins; and all of these at once."""
    trials = []
    for label, text in (("C3", "without the chip triangle (C3)"), ("C4", "without the memory limit (C4)")):
        if label in instance.constraints:
            left = [c for c in instance.constraints if c != label]
            setting = f"constraints={','.join(left)}"
            trials.append(
                RingTrial("without", text, partial(variants.without, instance, label), setting, left_out=label)
            )
    if instance.package.link_bytes_per_ns is not None:
        free = partial(variants.packaged, instance, link_bytes_per_ns=None)
        trials.append(RingTrial("without", "with free links", free, "package.link_bytes_per_ns=null", left_out="links"))
    if len(trials) > 1:
        bare = partial(_bare, instance)
        text = "without " + ", ".join([c for c in ("C3", "C4") if c in instance.constraints])
        text += " and with free links" if instance.package.link_bytes_per_ns is not None else ""
        trials.append(RingTrial("balance", text, bare))
    return trials


def _bare(instance: RingInstance) -> RingInstance:
    return variants.packaged(variants.without(instance, "C3", "C4"), link_bytes_per_ns=None)


def sites(instance: RingInstance) -> list[RingTrial]:
    """Each pin, group (together, apart) and entry of forbidden chips left out, and all of them."""
    trials = []
    for i, pin in enumerate(instance.pins[:EACH]):
        text = f"without the pin of {pin.operation} to chip {pin.chip}"
        trials.append(RingTrial("pin", text, partial(variants.without_entry, instance, "pins", i)))
    for i, group in enumerate(instance.together[:EACH]):
        text = f"without keeping {listed(group)} together"
        trials.append(RingTrial("group", text, partial(variants.without_entry, instance, "together", i)))
    for i, group in enumerate(instance.apart[:EACH]):
        text = f"without keeping {listed(group)} apart"
        trials.append(RingTrial("group", text, partial(variants.without_entry, instance, "apart", i)))
    for i, item in enumerate(instance.forbidden[:EACH]):
        text = f"with {item.operation} allowed on {'chip' if len(item.chips) == 1 else 'chips'} "
        text += listed(map(str, item.chips))
        trials.append(RingTrial("forbidden", text, partial(variants.without_entry, instance, "forbidden", i)))
    if len(instance.pins) + len(instance.together) + len(instance.forbidden) + len(instance.apart) > 1:
        free = partial(variants.changed, instance, pins=(), together=(), forbidden=(), apart=())
        trials.append(RingTrial("sites", "without any pin, group or forbidden chip", free))
    return trials


def chips(instance: RingInstance, fewest: int) -> list[RingTrial]:
    """One chip fewer than the ``fewest`` that do, half, a quarter more and twice as many chips."""
    count = instance.package.chips
    numbers = {fewest - 1, count // 2, count + max(1, count // 4), 2 * count}
    return [chip_trial(instance, n) for n in sorted(numbers) if n >= 1 and n != count]


def chip_trial(instance: RingInstance, number: int) -> RingTrial:
    """The package with ``number`` chips."""
    text = f"{counted(number, 'chip')} instead of {instance.package.chips}"
    return RingTrial("chips", text, partial(variants.packaged, instance, chips=number), f"package.chips={number}")


def sram_trial(instance: RingInstance, count: int) -> RingTrial:
    """Chips with ``count`` bytes of SRAM."""
    make = partial(variants.packaged, instance, sram_bytes=count)
    return RingTrial("sram", f"{in_bytes(count)} of SRAM per chip", make, f"package.sram_bytes={count}")


def link_trial(instance: RingInstance, factor: int) -> RingTrial:
    """Links ``factor`` times as fast."""
    rate = (instance.package.link_bytes_per_ns or 0.0) * factor
    make = partial(variants.packaged, instance, link_bytes_per_ns=rate)
    return RingTrial("links", f"links at {rate:g} bytes/ns", make, f"package.link_bytes_per_ns={rate:g}")


def clones(case: ExplainedInstance, period: int | None) -> list[RingTrial]:
    """Cheap operations whose tensors are read far ahead, under the longest skips: cloned, each and together.

    By itself only what has at least ``period`` ticks of work under its skip, so that two chips share half of it each.
    """
    cheap = [skip for skip in skip_connections(case.problem, case.graph) if _cheap(case, skip)]
    names = [case.name(skip.producer) for skip in cheap]
    alone = [case.name(skip.producer) for skip in cheap if period is None or skip.ticks >= period]
    trials = [
        RingTrial("clone", f"{name} cloned for each of its readers", partial(_clone, case, [name])) for name in alone
    ]
    trials = trials[:CLONES]
    if len(names) > 1:
        some = names[:CLONES_TOGETHER]
        trials.append(RingTrial("clone", f"{listed(some)} cloned for each reader", partial(_clone, case, some)))
    return trials


def _clone(case: ExplainedInstance, names: list[str]) -> RingInstance:
    return clone(case.instance, names).instance


def _cheap(case: ExplainedInstance, skip: SkipConnection) -> bool:
    if not case.single(skip.producer) or case.name(skip.producer) in bound_names(case.instance):
        return False
    readers = {v for s in case.problem.storages if s.producer == skip.producer for v in s.readers}
    extra = int(case.problem.ticks[skip.producer]) * (len(readers) - 1)
    return len(readers) > 1 and (extra <= CHEAP * case.problem.total_ticks or case.problem.n <= SMALL)


def splits(case: ExplainedInstance, base: RingSolved) -> list[RingTrial]:
    """The longest operation (or the heaviest, where memory is short) in 2, 4 and as many parts as it takes."""
    problem = case.problem
    if base.objective is None:
        heaviest = int(problem.alone_bytes.argmax())
        weight = int(problem.alone_bytes[heaviest])
        if not problem.has("C4") or weight == 0 or not case.single(heaviest):
            return []
        wanted = -(-weight // max(1, problem.sram_bytes))
        return _in_parts(case, [heaviest], {2, 4, wanted} if wanted <= 64 else {2, 4})
    longest = int(problem.ticks.max(initial=0))
    same = [v for v in range(problem.n) if int(problem.ticks[v]) == longest and case.single(v)]
    if not same or 2 * longest <= base.objective or not longest:
        return []
    wanted = -(-longest * problem.chips // max(1, problem.total_ticks))
    numbers = {2, 4, wanted} if longest == base.objective and 2 <= wanted <= 64 else {2, 4}
    return _in_parts(case, same if len(same) <= SPLIT_TOGETHER else same[:1], numbers)


def _in_parts(case: ExplainedInstance, operations: list[int], numbers: set[int]) -> list[RingTrial]:
    names = [case.name(v) for v in operations]
    which = listed(names) if len(names) == 1 else f"each of {listed(names)}"
    return [
        RingTrial("split", f"{which} split in {parts}", partial(_split_all, case, names, parts))
        for parts in sorted(numbers)
        if parts > 1
    ]


def _split_all(case: ExplainedInstance, names: list[str], parts: int) -> RingInstance:
    instance = case.instance
    for name in names:
        instance = split(instance, [name], parts).instance
    return instance
