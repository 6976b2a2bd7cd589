"""Frames per second: the frames of a hyperperiod, and what an instance with objective ``frames`` must be like.

Statement: ``docs/families/multimodel-frames.md``. Rates are exact decimals. The hyperperiod is the shortest time in
which each model has a whole number of frames, rounded down to whole ns.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from math import gcd
from typing import Any, NamedTuple

from chipmap.records import InputError, choices
from chipmap.records.decimals import exact

#: A :class:`~chipmap.instances.multimodel.instance.MultiInstance`, whose module imports this one; one of its models.
MultiInstance = Any
Model = Any
#: Least and greatest rate; frames of a hyperperiod at most; its length, releases and deadlines at most, in ns.
LEAST_RATE, MOST_RATE, MOST_FRAMES, MOST_NS = 1e-3, 1e9, 5_000, 10**15
#: A frame's weight at most.
MOST_WEIGHT = 10**6


class Frame(NamedTuple):
    """Frame ``number`` of model ``m`` (position): it may begin at ``release`` and is to be done by ``due``, in ns."""

    m: int
    number: int
    release: int
    due: int


def hyperperiod(instance: MultiInstance) -> int:
    """H in ns."""
    return int(10**9 / _common(instance))


def frame_counts(instance: MultiInstance) -> tuple[int, ...]:
    """Frames of each model in a hyperperiod."""
    common = _common(instance)
    return tuple(int(rate / common) for rate in _rates(instance))


def frames_of(instance: MultiInstance) -> tuple[Frame, ...]:
    """All frames of a hyperperiod, model by model."""
    length, found = hyperperiod(instance), list[Frame]()
    for m, (model, count) in enumerate(zip(instance.models, frame_counts(instance), strict=True)):
        within = length // count if model.deadline_ns is None else model.deadline_ns
        for number in range(count):
            release = number * length // count + model.release_ns
            found.append(Frame(m, number, release, release + within))
    return tuple(found)


def ahead_of(instance: MultiInstance) -> tuple[int | None, ...]:
    """For each model the position of the one that it comes after; None without one."""
    at = {model.name: m for m, model in enumerate(instance.models)}
    return tuple(None if model.after is None else at[model.after] for model in instance.models)


def check_rates(instance: MultiInstance) -> None:
    """Raise :class:`InputError` for what objective ``frames`` doesn't allow."""
    task, module = instance.task, instance.module
    if task.latency_limit_ns is not None:
        raise InputError("limits no frame", "task.latency_limit_ns", "Give models a deadline_ns instead.")
    for name in ("shared_dram_bytes_per_ns", "shared_link_bytes_per_ns"):
        if getattr(module, name) is not None:
            raise InputError("isn't part of objective frames", f"module.{name}", "Leave it out.")
    if module.static_watts:
        raise InputError("isn't part of objective frames", "module.static_watts", "Leave it out.")
    for i, model in enumerate(instance.models):
        _check_model(instance, model, f"models[{i}]")
    _check_cycles(instance)
    length, count = hyperperiod(instance), sum(frame_counts(instance))
    remedy = "Give rates that are multiples of one another, or nearly so."
    if not max(frame_counts(instance)) <= length <= MOST_NS:
        raise InputError(f"all rates together have a period of {length:,} ns", "models", remedy)
    if count > MOST_FRAMES:
        raise InputError(f"a period of all rates has {count:,} frames, at most {MOST_FRAMES:,}", "models", remedy)


def _check_model(instance: MultiInstance, model: Model, where: str) -> None:
    if model.frames_per_s is None:
        raise InputError(f"{model.name!r} has no rate", f"{where}.frames_per_s", "Objective frames needs one.")
    if not LEAST_RATE <= model.frames_per_s <= MOST_RATE:
        raise InputError(
            f"is {model.frames_per_s}", f"{where}.frames_per_s", f"Give {LEAST_RATE} to {MOST_RATE:.0e} frames/s."
        )
    if model.mini_batch != model.batch:
        raise InputError(
            f"is {model.mini_batch} of {model.batch}", f"{where}.mini_batch", "A frame runs as a whole: give the batch."
        )
    for name, most in (("release_ns", MOST_NS), ("deadline_ns", MOST_NS), ("frame_weight", MOST_WEIGHT)):
        value = getattr(model, name)
        if value is not None and not 0 <= value <= most:
            raise InputError(f"is {value:,}", f"{where}.{name}", f"Give 0 to {most:,}.")
    kinds = {chiplet.kind for chiplet in instance.module.chiplets}
    for k, layer in enumerate(model.layers):
        if min(layer.costs[kind][0] for kind in kinds) < 1:
            raise InputError(f"layer {layer.name!r} takes no time", f"{where}.layers[{k}].costs", "Give at least 1 ns.")
    named = {one.name: one for one in instance.models}
    if model.after is None:
        return
    if model.after not in named:
        raise InputError(f"no model is called {model.after!r}", f"{where}.after", choices(model.after, named))
    if named[model.after].frames_per_s != model.frames_per_s:
        what = f"{model.name!r} has {model.frames_per_s} frames/s, {model.after!r} {named[model.after].frames_per_s}"
        raise InputError(what, f"{where}.after", "A model comes after one of the same rate.")


def _check_cycles(instance: MultiInstance) -> None:
    ahead = ahead_of(instance)
    for m, model in enumerate(instance.models):
        at, seen = ahead[m], {m}
        while at is not None:
            if at in seen:
                raise InputError(f"{model.name!r} comes after itself", f"models[{m}].after", "Break the cycle.")
            seen.add(at)
            at = ahead[at]


def _rates(instance: MultiInstance) -> list[Fraction]:
    return [exact(model.frames_per_s) for model in instance.models if model.frames_per_s is not None]


def _common(instance: MultiInstance) -> Fraction:
    """The largest rate of which each model's is a multiple, in frames per second."""
    return reduce(
        lambda a, b: Fraction(gcd(a.numerator * b.denominator, b.numerator * a.denominator),
                              a.denominator * b.denominator),
        _rates(instance),
    )  # fmt: skip
