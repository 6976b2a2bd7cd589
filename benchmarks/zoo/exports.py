"""Exports of a network without its weights: plain, decomposed and as ONNX; and what torch says of each.

The network is made of fake tensors, which have a shape and no data, so that a network of 47 billion parameters is
exported in the memory of its graph. ``torch.export.save`` then writes an archive whose weights have 0 bytes; an ONNX
model refers to data in a file that isn't written.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily

from benchmarks.zoo import counts
from benchmarks.zoo.networks import Network

FORMS = ("plain", "decomposed", "onnx")
#: Per node of a graph's JSON: where in which source file it comes from. Long, and of no use to a reader of the graph.
_ORIGINS = frozenset({"stack_trace", "source_fn_stack", "from_node", "nn_module_stack", "torch_fn"})


#: Initializers of an ONNX model with fewer numbers stay in the file.
MIN_REFERENCE = 16


def file_name(network: str, form: str) -> str:
    """The name of the file of a network in a form."""
    return f"{network}-{form}.{'onnx' if form == 'onnx' else 'pt2'}"


def fake_module(network: Network, real: bool, **settings: Any) -> Any:
    """The network as a module of fake tensors; call within a fake mode.

    Some constructors read numbers that they computed, which a fake tensor refuses: the module is made on the device
    ``meta`` (where what asks for the CPU gets it) and then given fake tensors.
    """
    with unset_fake_temporarily(), torch.device("meta"):
        module = network.module(real, settings)
    module = module.to_empty(device="cpu").eval()
    if hasattr(module, "tie_weights"):
        module.tie_weights()
    return module


def exported(network: Network, real: bool, form: str) -> Any:
    """The exported program of a network of fake tensors.

    The operators are those of the module's source for ``plain``, core ATen for ``decomposed``. An ONNX model is made
    from the plain program, as ``torch.onnx.export`` does.
    """
    with FakeTensorMode(allow_non_fake_inputs=True):
        module = fake_module(network, real, **(network.for_onnx if form == "onnx" else {}))
        program = torch.export.export(module, (), network.inputs(real), strict=False)
        return program.run_decompositions() if form == "decomposed" else program


def write(network: Network, real: bool, form: str, folder: Path) -> dict[str, Any]:
    """Export a network in a form to its file in ``folder``; what torch says of it."""
    program = exported(network, real, form)
    path = folder / file_name(network.name, form)
    said = counts.count(program)
    parameters, folded = said.parameters, said.folded
    if form == "onnx":
        parameters, folded = counts.initializers(write_onnx(program, path, not real))
    else:
        write_program(program, path, not real)
    nodes = {"results": said.results, "constant_nodes": said.constants} if form != "onnx" else {}
    return {
        "flop": sum(said.flop.values()),
        "flop_by_operator": said.operators,
        "flop_by_node": {} if form == "onnx" else said.flop,
        "parameters": parameters,
        "folded": folded,
        "constants": said.made,
        "module_bytes": sum(said.parameters.values()) + sum(said.folded.values()),
        **nodes,
    }


def write_program(program: Any, path: Path, lean: bool) -> None:
    """Write the archive of an exported program; ``lean``: only the JSON of its graph, without origins, compressed."""
    torch.export.save(program, path)
    if not lean:
        return
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    kept = {name: data for name, data in members.items() if _is_graph(name)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in kept.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, _lean(data))


def _is_graph(name: str) -> bool:
    return "/models/" in name or name.endswith("weights_config.json")


def _lean(data: bytes) -> bytes:
    """The JSON of a graph without the origins of its nodes."""

    def strip(value: Any) -> None:
        if isinstance(value, dict):
            metadata = value.get("metadata")
            if isinstance(metadata, dict):
                value["metadata"] = {key: said for key, said in metadata.items() if key not in _ORIGINS}
            for inner in value.values():
                strip(inner)
        elif isinstance(value, list):
            for inner in value:
                strip(inner)

    graph = json.loads(data)
    strip(graph)
    return json.dumps(graph, separators=(",", ":")).encode()


def write_onnx(program: Any, path: Path, lean: bool) -> Any:
    """Write and return the ONNX model of an exported program, whose weights become references to data that isn't there.

    The exporter's optimiser reads weights (it looks for biases of zeros), so that it is given arrays of one number
    that is repeated without taking memory. Numbers in whole numbers, which may be shapes, are kept.
    """
    import numpy
    import onnx
    import onnx_ir

    made = torch.onnx.export(program, dynamo=True, optimize=False, verbose=False)
    for i, value in enumerate(made.model.graph.initializers.values()):
        kept = value.const_value
        if isinstance(getattr(kept, "raw", None), FakeTensor):
            # a number of its own for each, in 8 bits of mantissa: the optimiser merges equal ones
            one = numpy.full((), (1 + i % 128 / 128) / 2 ** (i // 128)).astype(kept.dtype.numpy())
            value.const_value = onnx_ir.Tensor(numpy.broadcast_to(one, kept.shape.numpy()), name=kept.name)
    made.optimize()
    offset = 0
    for value in made.model.graph.initializers.values():
        kept = value.const_value
        if kept.dtype.is_floating_point() and kept.size >= MIN_REFERENCE:
            about = {"location": f"{path.name}.data", "offset": offset, "length": kept.nbytes}
            value.const_value = onnx_ir.ExternalTensor(**about, dtype=kept.dtype, shape=kept.shape, name=kept.name)
            offset += kept.nbytes
    model = onnx_ir.to_proto(made.model)
    if lean:
        _drop_origins(model)
    onnx.save(model, str(path))
    return model


def _drop_origins(model: Any) -> None:
    """Remove where nodes and values come from."""
    for graph in (model.graph, *model.functions):
        values = [] if graph is not model.graph else [*graph.initializer, *graph.input, *graph.output]
        for holder in (graph, *graph.node, *graph.value_info, *values):
            del holder.metadata_props[:]
