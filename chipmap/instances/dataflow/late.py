"""What a stage holds where updates run late (C6 of ``docs/families/dataflow-schedules.md``): at the moments of which
one needs most DRAM."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from chipmap.instances.dataflow.batch import layers_per_stage, micro_batches, paired
from chipmap.instances.dataflow.instance import LATE, DataflowInstance, Degrees
from chipmap.instances.dataflow.uneven import Held


def late_moments(instance: DataflowInstance, degrees: Degrees) -> tuple[Held, ...]:
    """The moments, each as passes through one layer: those between their F and their B, and between B and W; none where
    no updates run late. At all others a stage holds no more.

    ``zb-h1``: M = min(m, PP) of L layers before B, or one layer before B and M · L - 1 after it. Pairs, C layers in a
    chunk: 2 PP + 1 of C layers before B; (2 PP - 1) · C + 1 and C - 1; (PP - 2) · C + 1 and 2 C - 1; 1 and PP · C - 1.
    """
    stages, layers = degrees.pipeline, layers_per_stage(instance, degrees)
    if instance.task.schedule not in LATE or stages == 1:
        return ()
    if not paired(instance, degrees):
        most = min(int(micro_batches(instance, degrees)), stages) * layers
        moments = [(most, 0), (1, most - 1)]
    else:
        chunk = layers // 2
        waiting = [(2 * stages - 1, 1), (stages - 2, 2), (0, stages)]
        moments = [
            ((2 * stages + 1) * chunk, 0),
            *((before * chunk + 1, after * chunk - 1) for before, after in waiting),
        ]
    return tuple(Held(layers, Fraction(before), late=Fraction(after)) for before, after in dict.fromkeys(moments))


def fullest_first(options: tuple[tuple[Any, ...], ...]) -> tuple[tuple[Any, ...], ...]:
    """The options of all kernels, the moment first at which all mappings together need most: what the programs count by
    itself. The others are compared with their mappings."""
    count = 1 + len(options[0][0].kept_by)
    if count == 1:
        return options
    each = [[(one.kept, *one.kept_by) for one in some] for some in options]
    least = [sum(min(kept[k] for kept in some) for some in each) for k in range(count)]
    order = sorted(range(count), key=lambda k: (-least[k], k))
    return tuple(
        tuple(
            one._replace(kept=kept[order[0]], kept_by=tuple(kept[k] for k in order[1:]))
            for one, kept in zip(some, kepts, strict=True)
        )
        for some, kepts in zip(options, each, strict=True)
    )
