"""The optimal mapping of each layer with free schemes, judged exchange by exchange as pinned ones are."""

from __future__ import annotations

from fractions import Fraction

from benchmarks.exchanges.cases import CHIPS, LAYERS, Layers
from benchmarks.exchanges.compared import UNEXPLAINED, rows, scoped
from benchmarks.exchanges.free import h100_layer, solved
from benchmarks.exchanges.hlo import collectives
from benchmarks.exchanges.numbers import compared
from benchmarks.exchanges.rivals import judged, schemes_of
from chipmap.plans.jax.planning import Policy, plan
from chipmap.plans.jax.steps import layer_of

MB = 10**6


def optimal_layers(seconds: float) -> tuple[str, bool]:
    """A section of the page, and whether all numbers are right and all differences named."""
    lines, fine = list[str](), True
    for layers in LAYERS:
        for trained in (False, True) if layers.trained else (False,):
            line, right = _line(layers, trained, seconds)
            lines.append(line)
            fine = fine and right
    text = (
        "## Optimal mappings\nEach layer on a switch of eight H100 that stream weights, kernel by kernel, with free "
        "schemes. Layouts are kept as long as the mapping says.\n\n"
        "| layer | phases | | layouts kept | charged, us | with its own exchanges, us | charged, MB | made, MB "
        "| known differences | numbers |\n|---|---|---|---|--:|--:|--:|--:|---|--:|\n" + "".join(lines) + "\n"
    )
    return text, fine


def _line(layers: Layers, trained: bool, seconds: float) -> tuple[str, bool]:
    workload = layers.full(trained)
    instance = h100_layer().replace(workload=workload)
    chip = instance.system.chip.replace(streams=True)
    instance = instance.replace(system=instance.system.replace(chip=chip))
    best, status = solved(instance, seconds)
    keep, own, layer = best.keep or "none", schemes_of(instance, best), layer_of(workload)
    policy = Policy(keep=keep)
    from benchmarks.exchanges.written import with_shard_map

    made = plan(layer, own, CHIPS, policy)
    found = rows(made, own, scoped(collectives(with_shard_map(made).compiled(), CHIPS)), keep)
    cut = plan(layer_of(layers.cut(trained)), own, CHIPS, policy)
    difference, times = max(compared(cut, with_shard_map(cut))), judged(instance, best, layer).times
    both = [float(sum((getattr(row, of) for row in found), Fraction(0))) / MB for of in ("charged", "compiled")]
    known = sorted({row.known for row in found} - {0})
    cells = [layers.name, "both" if trained else "forward", status, keep, f"{times.charged:.2f}", f"{times.kept:.2f}"]
    cells += [*(f"{one:.3f}" for one in both), ", ".join(map(str, known)) or "none", f"{difference:.1e}"]
    return "| " + " | ".join(cells) + " |\n", difference <= 2e-5 and UNEXPLAINED not in known
