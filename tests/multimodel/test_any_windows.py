"""The linear program over any number of windows, on models of many mini-batches."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from random import Random
from typing import Any

import pytest

from chipmap.heuristics.multimodel.windows.any_windows import AnyWindows, ratios
from chipmap.instances.multimodel import MultiInstance
from chipmap.instances.multimodel.instance import Chiplet, Layer, Model, Module, Task
from chipmap.instances.multimodel.problem import multi_problem
from tests.lanes import of_all
from tests.multimodel.enumeration import combinations, schedules
from tests.multimodel.random_instances import made, varied_instance


def pipelined(random: Random) -> MultiInstance:
    """One or two models of up to 64 mini-batches on two to four chiplets, where layers take longer than transfers."""
    rows, columns = random.choice(((1, 2), (1, 3), (1, 4), (2, 2)))
    layers = tuple(random.choice((1, 2, 3, 4)) for _ in range(random.choice((1, 2, 2))))
    rest: dict[str, Any] = {"rows": rows, "columns": columns, "batch": random.choice((4, 16, 64)), "mini_batch": 1}
    base: MultiInstance = made(random.randrange(10**6), "edp", random.choice((1, 2, 2, 3)), layers=layers, **rest)
    models = tuple(model.replace(layers=tuple(_small(layer) for layer in model.layers)) for model in base.models)
    return base.replace(models=models, module=base.module.replace(hop_ns=0, dram_ns=0))


def _small(layer: Layer) -> Layer:
    sizes = layer.in_bytes // 1000, layer.weight_bytes // 1000, layer.out_bytes // 1000
    return layer.replace(in_bytes=sizes[0], weight_bytes=sizes[1], out_bytes=sizes[2])


def instances(seed: int) -> Iterator[MultiInstance]:
    """Those with few combinations: pipelined ones, and now and then one that differs in all that it may."""
    random = Random(seed)
    while True:
        base = pipelined(random) if random.random() < 0.8 else varied_instance(random, limits=False)
        if combinations(base) <= 60_000:
            yield base


@pytest.mark.parametrize("seed", range(2))
def test_lines_hold_for_all_schedules_of_pipelined_models(seed: int) -> None:
    """Each line rate · T1 + T2 >= value on 36 instances, for rates from 0 to large ones."""
    compared, shares = 0, list[float]()
    for base in islice(instances(seed), 36):
        known, program = schedules(base), AnyWindows(multi_problem(base))
        if not len(known.time):
            continue
        compared += 1
        best = int((known.time.astype(float) * known.energy).argmin())
        for factor in (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 1000.0):
            rate = factor * int(known.energy[best]) / max(1, int(known.time[best]))
            value, least = program.line(rate).value, float((rate * known.time + known.energy).min())
            assert value <= least
            shares.append(value / max(1.0, least))
    assert compared > 27 and sum(shares) / len(shares) > 0.9


@pytest.mark.parametrize("seed", range(of_all(8, few=1)))
def test_lines_hold_for_all_schedules_within_deadlines(seed: int) -> None:
    """Deadlines of some models at 50 to 150% of the least latency: lines hold, and often lie above those without."""
    random, compared, above = Random(100 + seed), 0, 0
    for base in islice(instances(seed), 24):
        fastest = int(schedules(base).time.min(initial=10**9))
        dues = [random.choice((None, round(fastest * random.uniform(0.5, 1.5)))) for _ in base.models]
        models = tuple(model.replace(deadline_ns=due) for model, due in zip(base.models, dues, strict=True))
        tight = base.replace(models=models)
        known, program, plain = schedules(tight), AnyWindows(multi_problem(tight)), AnyWindows(multi_problem(base))
        if not len(known.time):
            continue
        compared += 1
        rates = [factor * int(known.energy.min()) / max(1, int(known.time.min())) for factor in (0.0, 0.3, 1.0, 30.0)]
        values = [program.line(rate).value for rate in rates]
        for rate, value in zip(rates, values, strict=True):
            assert value <= float((rate * known.time + known.energy).min())
        above += any(value > 1.001 * plain.line(rate).value for rate, value in zip(rates, values, strict=True))
    assert compared > 9 and above >= 1


def even(number: int, layers: int, q: int, time: int) -> MultiInstance:
    """Two models of equal layers that take no transfers, on a row of chiplets of one class; a single window."""
    chain = tuple(
        Layer(name=f"l{k}", in_bytes=0, weight_bytes=0, out_bytes=0, costs={"N": (time, 1_000_000)})
        for k in range(layers)
    )
    models = tuple(Model(name=f"m{m}", batch=q, mini_batch=1, layers=chain) for m in range(2))
    chiplets = tuple(Chiplet(name=f"c{c}", kind="N", hops=0) for c in range(number))
    links = tuple((f"c{c}", f"c{c + 1}") for c in range(number - 1))
    module = Module(chiplets=chiplets, links=links, hop_ns=0, dram_ns=0)
    return MultiInstance.make(name="even", task=Task(windows=1, objective="latency"), models=models, module=module)


@pytest.mark.parametrize(("number", "layers", "q"), [(4, 4, 8), (6, 6, 2), (12, 60, 24), (36, 180, 8)])
def test_models_that_share_the_chiplets_evenly_meet_the_bound(number: int, layers: int, q: int) -> None:
    """Each on half of the chiplets: T = Σ t · (1 + (q − 1) / n), and no number of windows is shorter."""
    program, half = AnyWindows(multi_problem(even(number, layers, q, 10_000))), number // 2
    optimum = layers * 10_000 * (1 + (q - 1) / half)
    line = program.line(1e6 * program.least[1] / program.least[0])
    assert 0.98 * optimum <= (line.value - program.least[1]) / line.rate <= optimum


def test_cells_of_ratios_reach_from_none_to_the_most() -> None:
    """Also on a single chiplet, and where there is a single mini-batch."""
    for q, segments in ((2, 1), (2, 4), (100, 36)):
        ends = ratios(q, segments)
        assert ends[0] == 0 and ends[-1] == (q - 1) / q and all(a < b for a, b in pairwise(ends))
    assert ratios(1, 9) == []
