"""A deep learning recommendation model as kernels: layers of an MLP, and embedding tables spread over all chips."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any

from msgspec import Meta

from chipmap.instances.dataflow.workload import Kernel, Phase, Workload
from chipmap.instances.dataflow.workloads.layer import WordBytes
from chipmap.records import InputError

Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Layers = Annotated[int, Meta(ge=1, le=1000)]


def dlrm_network(
    width: Count = 6750,
    bottom: Layers = 5,
    top: Layers = 15,
    tables: Count = 600,
    rows: Count = 14_211_469,
    columns: Count = 93,
    pooled: Count = 15,
    backward: bool = True,
    separate_updates: bool = False,
    word_bytes: WordBytes = 2,
) -> Workload:
    """A DLRM: ``bottom`` and ``top`` layers of ``width`` x ``width``, one sample a column.

    Source: DFModel, section VI-C and its published input, whose 793 billion parameters are the defaults. The last of
    the bottom layers fetches tables · pooled · columns words per sample from the tables, which lie on all chips, and
    sends them to the chips of their samples (an all-to-all); its backward kernel returns as many. A weight update is
    part of its layer's backward kernel (twice the FLOP), or a kernel of its own with ``separate_updates``, as in the
    published input: then nothing orders the updates, and there are 2^(bottom + top) order ideals and more. ``rows`` is
    only for the number of parameters.
    """
    count = bottom + top
    if tables * rows * columns > 10**18:
        raise InputError("has more than 10^18 parameters", "rows", "Give fewer.")
    words = tables * pooled * columns * word_bytes
    names = [f"MLP_{i}" for i in range(1, count + 1)]
    looked_up = {names[bottom - 1], f"{names[bottom - 1]}_b"}

    def layer(name: str, phase: Phase, update: bool = False) -> Kernel:
        """A layer's product, or a backward kernel of it; two of them exchange what was looked up."""
        lookup = {"fetch_bytes": words, "exchange": "all_to_all", "exchange_bytes": words} if name in looked_up else {}
        fields: dict[str, Any] = {"M": width, "K": width, "N": 1, "weights": True}
        # rows split, sums scattered: one choice, as the stored outputs of all layers are open at once; free schemes
        # save one reduce-scatter of all
        fields["schemes"] = ("M", "K_RS") if name == names[0] else ("K_RS",)
        if update:
            before = names.index(name.removesuffix("_u")) - 1
            fields = {"M": width, "K": 1, "N": width, "update": True, "operand": names[before] if before >= 0 else ""}
        elif phase == "backward" and not separate_updates:
            fields["flop"] = 4 * width * width  # the gradient of the input, and that of the weights
        if phase == "backward":
            fields["parameters_of"] = name[:-2]
        return Kernel.make(name=name, kind="gemm", phase=phase, **fields, **lookup)

    kernels = [layer(name, "forward") for name in names]
    edges = list(pairwise(names))
    if backward:
        back = [f"{name}_b" for name in reversed(names)]
        kernels += [layer(name, "backward") for name in back]
        edges += list(pairwise(back))
        users = back
        if separate_updates:
            users = [f"{name}_u" for name in reversed(names)]
            kernels += [layer(name, "backward", update=True) for name in users]
            edges += list(zip(back, users[1:], strict=False))
        # what a layer read is read again for its update
        edges += [(names[i], users[count - 2 - i]) for i in range(count - 1)]
    name = f"dlrm-{tables * rows * columns / 1e9:.0f}b"
    return Workload(name=name, kernels=tuple(kernels), edges=tuple(edges), word_bytes=word_bytes, counted="samples")
