"""Format ``onnx``: a model whose nodes say their devices, and a model per chip that run one after the other.

``model.onnx`` is the whole model with multi-device annotations; ``adopt`` reads it. ``stages.json`` says what each
stage's model reads and gives, and ``run.py`` runs them in ONNX Runtime.
"""

from __future__ import annotations

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.placement.instance import PlacementInstance
from chipmap.plans import chips, devices, stages
from chipmap.plans.onnx import layers, nodes
from chipmap.plans.plan import EmitOptions, Plan
from chipmap.records import Record

if TYPE_CHECKING:
    from chipmap.plans.onnx.cutting import StageModel
    from chipmap.plans.onnx.program import OnnxProgram

FILE, PLAN, SCRIPT, SCHEMA = "model.onnx", "stages.json", "run.py", "onnx-stages/1"


def suits(instance: Record, solution: Record | None) -> str | None:
    """A mapping of an ONNX model whose stages have an order, or a schedule of one model."""
    if isinstance(instance, MultiInstance):
        return layers.suits(instance)
    return nodes.unsuited(instance, solution)


def emit(instance: Any, solution: Any, options: EmitOptions) -> dict[str, str | bytes]:
    """The annotated model, the models of the stages with their data, the list of these, and the script; of a schedule
    the annotated model alone."""
    if isinstance(instance, MultiInstance):
        return layers.emit(instance, solution, options)
    from chipmap.plans.onnx import annotation, cutting, writing
    from chipmap.plans.onnx.program import OnnxProgram

    program, named = OnnxProgram(options.model), stages.stages_of(instance, solution)
    nodes.check_model(instance, program)
    parts = cutting.cut(program, nodes.homes_of(instance, named, program), len(named))
    titles = [f"{s}-{_title(one.place)}" for s, one in enumerate(named)]
    data = [writing.DataFile(f"{title}.data") for title in titles]
    models = dict[str, bytes]()
    for title, part, file in zip(titles, parts, data, strict=True):
        model = writing.stage_model(program, part, title, file)
        models[f"{title}.onnx"] = writing.serialised(writing.told(model, options), f"{title}.onnx")
    rest = writing.DataFile("model.data")
    whole = writing.whole_model(program, data, rest)
    annotation.annotate(whole, program, instance, named, parts)
    plan = {
        "schema": SCHEMA,
        "run": msgspec.to_builtins(options.told),
        "model": {"file": Path(options.model).name, "sha256": _digest(Path(options.model))},
        "inputs": list(program.inputs),
        "outputs": program.outputs,
        "boundary_bytes": cutting.boundaries(program, parts),
        "stages": [
            {"place": one.place, "file": f"{title}.onnx", **_described(program, part)}
            for one, title, part in zip(named, titles, parts, strict=True)
        ],
    }
    script = files("chipmap.plans.onnx.script").joinpath(SCRIPT).read_text(encoding="utf-8")
    models = {FILE: writing.serialised(writing.told(whole, options), FILE), **models}
    return {**writing.contents(models, [*data, rest]), PLAN: json.dumps(plan, indent=1) + "\n", SCRIPT: script}


def recognise(data: bytes, where: str, instance: Record) -> bool:
    """Whether it begins as ONNX models do: with the version of their format."""
    return data[:1] == b"\x08"


def adopt(instance: Any, data: bytes, where: str) -> Plan:
    """The plan that the annotations say."""
    if isinstance(instance, MultiInstance):
        return layers.adopt(instance, data, where)
    from chipmap.plans.onnx.reading import places_in

    found = places_in(instance, data, where)
    if isinstance(instance, PlacementInstance):
        names = [one.name for one in instance.system.devices]
        return devices.plan_of(instance, {name: names[d] for name, d in found.items()}, where)
    return chips.plan_of(instance, found, where)


def _described(program: OnnxProgram, part: StageModel) -> dict[str, Any]:
    """What a stage reads and gives: tensors with the stage that makes each, and bytes."""
    order = sorted(part.receives, key=program.makers.__getitem__)
    return {
        "inputs": [name for name in program.inputs if name in part.inputs],
        "receives": [{"name": name, "from": part.receives[name], "bytes": program.size(name)} for name in order],
        "gives": list(part.gives),
        "nodes": [program.keys[i] for i in sorted(part.nodes)],
    }


def _title(place: int | str) -> str:
    return f"chip{place}" if isinstance(place, int) else re.sub(r"[^\w.-]", "_", place)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
