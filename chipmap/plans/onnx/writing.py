"""Models of stages as files. Larger tensors lie in a file beside each model, as ONNX's external data.

A model in one file ends at 2 GB (protobuf's limit). The annotated model has no data of its own: it names where that is
in the files of the stages, so that weights are written once for each chip that holds them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chipmap.plans.onnx.cutting import StageModel
from chipmap.plans.onnx.program import OnnxProgram
from chipmap.plans.plan import EmitOptions
from chipmap.records import InputError

if TYPE_CHECKING:
    import onnx

#: Tensors from this many bytes on lie beside the model, as in ``onnx.save_model``.
BESIDE_BYTES = 1024
#: They begin at multiples of it, so that they can be mapped to memory one by one.
_ALIGNED = 64
_MOST = 2**31 - 2**20
#: The key of what is said of the run in the model's metadata.
METADATA = "chipmap"


class DataFile:
    """A file of tensors' data in the making, beside a model: ``name``, and what is in it."""

    def __init__(self, name: str) -> None:
        self.name, self.content = name, bytearray()
        self.places: dict[str, onnx.TensorProto] = {}

    def without_data(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        """The tensor, its data moved into this file if there is much."""
        import onnx

        raw = _raw(tensor)
        if raw is None:
            return tensor
        self.content += bytes(-len(self.content) % _ALIGNED)
        left = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        left.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", self.name), ("offset", len(self.content)), ("length", len(raw))):
            left.external_data.add(key=key, value=str(value))
        self.content += raw
        self.places[tensor.name] = left
        return left


def _raw(tensor: onnx.TensorProto) -> bytes | None:
    """The data of a tensor that is to lie beside the model; None of a small one."""
    from onnx import TensorProto, numpy_helper

    if tensor.data_type == TensorProto.STRING or tensor.ByteSize() < BESIDE_BYTES:
        return None
    raw: bytes = tensor.raw_data
    if not tensor.HasField("raw_data"):
        raw = numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name).raw_data
    return raw if len(raw) >= BESIDE_BYTES else None


def stage_model(program: OnnxProgram, stage: StageModel, name: str, data: DataFile) -> onnx.ModelProto:
    """The model of a stage, called ``name``."""
    made = header(program)
    graph, whole = made.graph, program.model.graph
    graph.name = name
    order = sorted(stage.receives, key=program.makers.__getitem__)
    graph.input.extend(program.typed(one) for one in (*order, *(one for one in program.inputs if one in stage.inputs)))
    graph.output.extend(program.typed(one) for one in stage.gives)
    graph.node.extend(program.nodes[i] for i in sorted(stage.nodes))
    graph.initializer.extend(data.without_data(one) for one in whole.initializer if one.name in stage.stored)
    for i in stage.known.values():
        tensor = program.known(i)
        graph.initializer.extend([tensor] if tensor is not None else [])
    ends = {info.name for info in (*graph.input, *graph.output)}
    inside = {one for i in stage.nodes for one in program.nodes[i].output} - ends
    graph.value_info.extend(info for info in whole.value_info if info.name in inside)
    held = {*inside, *ends, *stage.stored}
    graph.quantization_annotation.extend(one for one in whole.quantization_annotation if one.tensor_name in held)
    return made


def whole_model(program: OnnxProgram, files: Sequence[DataFile], rest: DataFile) -> onnx.ModelProto:
    """The whole model, whose data lies in the ``files`` of the stages; what no stage holds, in ``rest``."""
    import onnx

    made = header(program)
    places = {name: tensor for file in reversed(files) for name, tensor in file.places.items()}
    graph, whole = made.graph, program.model.graph
    for field in onnx.GraphProto.DESCRIPTOR.fields:
        if field.name == "initializer":
            graph.initializer.extend(places.get(one.name) or rest.without_data(one) for one in whole.initializer)
        elif field.name in ("name", "doc_string"):
            setattr(graph, field.name, getattr(whole, field.name))
        else:
            getattr(graph, field.name).extend(getattr(whole, field.name))
    return made


def header(program: OnnxProgram) -> onnx.ModelProto:
    """A model without a graph that says what the whole model says of itself."""
    import onnx

    made = onnx.ModelProto()
    for field in onnx.ModelProto.DESCRIPTOR.fields:
        if field.name in ("opset_import", "metadata_props"):
            getattr(made, field.name).extend(getattr(program.model, field.name))
        elif field.name in ("ir_version", "producer_name", "producer_version", "domain", "model_version"):
            setattr(made, field.name, getattr(program.model, field.name))
    return made


def told(model: onnx.ModelProto, options: EmitOptions) -> onnx.ModelProto:
    """The model with what is said of the run in its metadata."""
    kept: list[onnx.StringStringEntryProto] = [one for one in model.metadata_props if one.key != METADATA]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    model.metadata_props.add(key=METADATA, value=options.told.line)
    return model


def serialised(model: onnx.ModelProto, where: str) -> bytes:
    """The model's file; :class:`InputError` if it is too large without its initializers."""
    if model.ByteSize() > _MOST:
        what = "holds more than 2 GB besides its initializers"
        raise InputError(what, where, "Save it with its weights as initializers, not as Constant nodes.")
    return model.SerializeToString()


def contents(models: Mapping[str, bytes], files: Sequence[DataFile]) -> dict[str, bytes]:
    """All files by name, without empty ones of data; the ``files`` hand over what they hold."""
    found = dict(models)
    for file in files:
        if file.content:
            found[file.name] = bytes(file.content)
            file.content = bytearray()
    return found
