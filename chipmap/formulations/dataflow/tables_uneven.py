"""What a pipeline's stages keep in DRAM (C6), for the models: each of unequal numbers of layers, or at each moment that
counts where updates run late."""

from __future__ import annotations

from chipmap.formulations.dataflow.tables import Tables


def stages_held(tables: Tables) -> int:
    """Stages or moments of which one may need most DRAM: more than one only where stages have unequal numbers of
    layers, or updates run late."""
    return 1 + max(len(option.kept_by) for option in tables.options(0))


def kept_by(tables: Tables, stage: int) -> tuple[int, list[tuple[int, int, int]]]:
    """The least bytes that a stage keeps of all copies, or any at a moment, and what (copy, option) adds to it; stage 0
    is the first one of these."""
    if stage == 0:
        return tables.outside("kept")
    each = {i: [option.kept_by[stage - 1] for option in tables.options(i)] for i in tables.copies}
    more = [(i, number, size - min(each[i])) for i in tables.several for number, size in enumerate(each[i])]
    return sum(map(min, each.values())), [one for one in more if one[2]]
