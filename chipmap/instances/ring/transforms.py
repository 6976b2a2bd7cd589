"""Explicit changes of an instance that loosen C3: cloning a cheap producer, relaying a tensor. Never done unasked.

A tensor that many layers read (an attention mask, a position bias) ties them all to its producer: under C3 no
operation may sit on a third chip between the ends of a flow. Both change the problem, and so its name and hash; their
``report`` says what they add. Mappings of the changed instance are no mappings of the original.
"""

from __future__ import annotations

from collections.abc import Sequence

from chipmap.instances.ring.draft import Draft, Loose, Transformed, bound_names, positions
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import ring_problem
from chipmap.networks.graph import Operation
from chipmap.records import InputError


def clone(instance: RingInstance, names: Sequence[str]) -> Transformed:
    """Each computing reader of a named operation gets its own copy of it, which reads what the operation reads.

    Worth it for producers that are cheap and read little: work and weights are multiplied, transfers fall away. Views
    by way of which a reader reads are copied as well. The copies are called ``name@reader``; the first reader in
    topological order, dead operations and what the network returns stay with the original. Raises :class:`InputError`
    for unknown names, for operations that don't compute, and for those that pins, groups or forbidden chips name.
    """
    draft = Draft(instance)
    named = positions(instance, names)
    refused = bound_names(instance)
    for name in names:
        if name in refused:
            what = f"{name!r} is pinned, grouped or forbidden somewhere"
            raise InputError(what, "names", "Free it first: its copies part.")
    live = ring_problem(instance).computing
    order = {v: i for i, v in enumerate(instance.graph.topological_order())}
    for v in sorted(named, key=order.__getitem__, reverse=True):
        behind = draft.through_views(v)
        readers = {r for r in behind if draft.operations[r].role == "compute" and live[draft.origin[r] or 0]} - {v}
        for reader in sorted(readers, key=draft.keys.__getitem__)[1:]:
            draft.copy_for(reader, [v, *sorted(behind[reader] - {v}, key=draft.keys.__getitem__)])
    added = draft.operations[len(instance.graph.operations) :]
    copies = [operation for operation in added if operation.role == "compute"]
    report = {
        "copies": len(copies),
        "copies of views": len(added) - len(copies),
        "flop of copies": sum(operation.flop for operation in copies),
        "weight bytes of copies": sum(operation.weight_bytes for operation in copies),
    }
    return draft.finish(f"cloned: {', '.join(names)}", report)


def relay(instance: RingInstance, names: Sequence[str], stages: int | None = None) -> Transformed:
    """The tensors of the named operations travel along a chain of identity operations, from stage to stage.

    The readers of a tensor, in topological order, are dealt to ``stages`` identities (by default one per chip of the
    package, at most one per reader); each identity reads the one before and feeds its readers. An identity is a copy in
    SRAM: its time follows the roofline, its tensor takes memory and links. It is called ``name/relay1``, ….
    """
    if stages is not None and stages < 1:
        raise InputError(f"is {stages}", "stages", "Give 1 or more.")
    draft = Draft(instance)
    order = {v: i for i, v in enumerate(instance.graph.topological_order())}
    moved = 0
    for v in positions(instance, names):
        number = 0
        for tensor in [t for t in draft.tensors if t.producer == v]:
            readers = sorted(set(tensor.readers), key=order.__getitem__)
            count = min(len(readers), stages or instance.package.chips)
            source = tensor
            tensor.readers.clear()
            for stage in range(count):
                part = readers[stage * len(readers) // count : (stage + 1) * len(readers) // count]
                number += 1
                name = draft.fresh(f"{draft.operations[v].name}/relay{number}")
                identity = Operation(name=name, kind="identity")
                here = draft.insert(identity, None, min(draft.keys[r] for r in part), None)
                source.readers.append(here)
                source = Loose(here, list(part), tensor.bytes, False)
                draft.tensors.append(source)
                moved += tensor.bytes
    added = len(draft.operations) - len(instance.graph.operations)
    report = {"identities": added, "bytes that identities write": moved}
    return draft.finish(f"relayed: {', '.join(names)}", report)
