"""Generators of family ``multimodel``."""

from __future__ import annotations

from random import Random
from typing import Any

from chipmap.instances.multimodel.costs import PRESETS, Hardware, costs
from chipmap.instances.multimodel.instance import Layer, Model, MultiInstance, Task
from chipmap.instances.multimodel.layer_tables import LANGUAGE_MODELS, TABLES, layers
from chipmap.instances.multimodel.modules import Pattern, Topology, grid
from chipmap.networks.generators.parameters import Few, Seed, Side
from chipmap.records import InputError, choices

#: Models and batches of SCAR's table III; what each model is: :mod:`chipmap.instances.multimodel.layer_tables`.
SCENARIOS: dict[int, dict[str, int]] = {
    1: {"gpt2-large": 1, "bert-large": 3},
    2: {"gpt2-large": 1, "bert-large": 3, "resnet50": 1},
    3: {"gpt2-large": 1, "bert-large": 3, "resnet50": 32},
    4: {"gpt2-large": 8, "bert-large": 24, "unet": 1, "resnet50": 32},
    5: {"gpt2-large": 8, "bert-large": 24, "bert-base": 24, "unet": 1, "resnet50": 32, "googlenet": 32},
    6: {"d2go": 10, "planercnn": 15, "midas": 30, "emformer": 3, "hrvit_b1": 10},
    7: {"planercnn": 15, "handsp": 45, "midas": 30},
    8: {"d2go": 30, "emformer": 3},
    9: {"eyecod_ritnet+eyecod_fbnet": 60, "handsp": 30, "sp2dense": 30},
    10: {"eyecod_ritnet+eyecod_fbnet": 60, "handsp": 45},
}


def random_instance(
    layers: tuple[Few, ...] = (3, 2),
    rows: Side = 1,
    columns: Side = 2,
    pattern: Pattern = "checkerboard",
    topology: Topology = "mesh",
    batch: int = 4,
    mini_batch: int = 1,
    seed: Seed = 0,
    sram_bytes: int | None = None,
    deadline_ns: int | None = None,
    task: dict[str, Any] | None = None,
    name: str = "multimodel-random",
) -> MultiInstance:
    """Models with so many ``layers`` each, random costs on two classes; ``deadline_ns`` is that of the first model."""
    random, models = Random(seed), []
    for m, count in enumerate(layers):
        made = []
        for k in range(count):
            costs = {
                kind: (random.randint(1_000, 20_000), random.randint(100_000, 3_000_000))
                for kind in ("nvdla", "shidiannao")
            }
            in_bytes, weight_bytes, out_bytes = (random.randint(0, most) for most in (60_000, 400_000, 150_000))
            made.append(
                Layer(name=f"l{k}", in_bytes=in_bytes, weight_bytes=weight_bytes, out_bytes=out_bytes, costs=costs)
            )
        deadline = deadline_ns if m == 0 else None
        models.append(Model(name=f"m{m}", batch=batch, mini_batch=mini_batch, deadline_ns=deadline, layers=tuple(made)))
    module = grid(rows, columns, pattern, topology, sram_bytes=sram_bytes)
    return MultiInstance.make(name=name, task=Task.make(**(task or {"windows": 2})), models=models, module=module)


def networks(
    models: dict[str, int],
    rows: Side = 3,
    columns: Side = 3,
    pattern: Pattern = "sides",
    topology: Topology = "mesh",
    mini_batch: int | None = None,
    hardware: str = "scar-datacenter",
    task: dict[str, Any] | None = None,
    name: str = "multimodel-networks",
    notes: str = "",
) -> MultiInstance:
    """Published networks by name with their batches, on chiplets of two dataflows (:mod:`..costs`).

    ``mini_batch`` samples pass at a time (None: the whole batch). Elements are bytes.
    """
    if hardware not in PRESETS:
        raise InputError(f"no preset is called {hardware!r}", "hardware", choices(hardware, PRESETS))
    made = []
    for network, batch in models.items():
        for part in network.split("+"):
            if part not in TABLES and part.removesuffix("-attention") not in LANGUAGE_MODELS:
                remedy = choices(part, [*TABLES, *LANGUAGE_MODELS])
                raise InputError(f"no network is called {part!r}", "models", remedy)
        chain = _chain(network, PRESETS[hardware])
        made.append(Model(name=network, batch=batch, mini_batch=mini_batch or batch, layers=chain))
    module = grid(rows, columns, pattern, topology)
    asked = Task.make(**(task or {}))
    return MultiInstance.make(name=name, task=asked, models=made, module=module, notes=notes)


def scenario(number: int, pipelined: bool = True, **parameters: Any) -> MultiInstance:
    """A scenario of SCAR's table III: ``pipelined`` sample by sample, or each batch as a whole.

    Scenarios 1 to 5 on chiplets of preset ``scar-datacenter``, 6 to 10 on ``scar-arvr``; ``parameters`` as of
    :func:`networks`.
    """
    if number not in SCENARIOS:
        raise InputError(f"there is no scenario {number}", "number", "Give 1 to 10.")
    given = {
        "hardware": "scar-datacenter" if number <= 5 else "scar-arvr",
        "mini_batch": 1 if pipelined else None,
        "name": f"scar-{number}-{'pipelined' if pipelined else 'whole'}",
        **parameters,
    }
    return networks(SCENARIOS[number], **given)


def frames(number: int, periods: Few = 1, name: str = "multimodel-frames", **parameters: Any) -> MultiInstance:
    """A scenario of SCAR's table III, 6 to 10, with its batches as frames per second (those of XRBench).

    A frame is to be done within ``periods`` periods of its model. Gaze estimation (``eyecod_fbnet``) comes after eye
    segmentation (``eyecod_ritnet``). ``parameters`` as of :func:`networks`.
    """
    if number not in range(6, 11):
        raise InputError(f"scenario {number} has no rates", "number", "Give 6 to 10.")
    parts = [(part, rate, network) for network, rate in SCENARIOS[number].items() for part in network.split("+")]
    given = {"hardware": "scar-arvr", "task": {"objective": "frames"}, **parameters}
    made = networks({part: 1 for part, _, _ in parts}, name=name, **{**given, "task": {}})
    models = []
    for model, (part, rate, network) in zip(made.models, parts, strict=True):
        first = network.split("+")[0]
        after = first if part != first else None
        deadline = None if periods == 1 else periods * 10**9 // rate
        models.append(model.replace(frames_per_s=float(rate), after=after, deadline_ns=deadline))
    made = made.replace(models=tuple(models), task=Task.make(**given["task"]))
    made.check()
    return made


def _chain(network: str, hardware: Hardware) -> tuple[Layer, ...]:
    return tuple(
        Layer(
            name=name,
            in_bytes=shape.operand,
            weight_bytes=shape.weights,
            out_bytes=shape.result,
            costs=costs(shape, hardware),
        )
        for name, shape in layers(network)
    )
