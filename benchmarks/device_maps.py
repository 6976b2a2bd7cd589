"""Device maps of networks of torch on two devices whose memory binds, before accelerate.

    python -m benchmarks.device_maps [--only NAME ...] [--out FILE]

It needs the extras ``zoo`` and ``judges`` (torch, transformers, accelerate). The networks are those of
:mod:`benchmarks.pipelines`. ``ring`` has chips and ``placement`` devices (objective ``throughput``, memory rule
``static``) with 7 tenths of what one of them needs for all, or else 8 or 9, the first that has a mapping. So no network
fits one. Blocks or their children are kept whole (``--cut``). The map goes to accelerate's ``check_device_map``. Then
the network runs with accelerate's hooks. The device that computes first is ``cpu``, the other one ``meta``, where
tensors have shapes and no numbers: what mixes two devices fails as on two GPUs. *States*: names of the state dict that
a key of the map covers.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import chipmap
from benchmarks.pipelines import NETWORKS, SOLVE, example, export, on_devices, on_ring, wrapped
from chipmap.instances.grain import Grain, cut
from chipmap.instances.placement.instance import PlacementSolution
from chipmap.instances.placement.problem import placement_problem
from chipmap.instances.ring.instance import RingInstance, RingSolution
from chipmap.networks.importers.reading import import_graph
from chipmap.plans.stages import stages_of

OUT = Path(__file__).resolve().parent / "results" / "device-maps.md"
#: The share of what all needs that a device has: the first of these by which there is a mapping.
SHARES = (0.7, 0.8, 0.9)
GRAINS: tuple[Grain, ...] = ("modules", "blocks")


def bound(instance: Any, share: float) -> tuple[Any, int]:
    """The instance with so little memory that one device can't hold all, and how much that is."""
    if isinstance(instance, RingInstance):
        graph = instance.graph
        least = int(share * graph.stored_bytes(graph.constants_read()))
        return instance.replace(package=instance.package.replace(sram_bytes=least)), least
    instance = instance.replace(task=instance.task.replace(memory="static"))
    problem = placement_problem(instance)
    alone = PlacementSolution(instance=instance.name, devices=dict.fromkeys(problem.names, problem.device_names[0]))
    least = int(share * chipmap.check(instance, alone).figures[f"peak_bytes {problem.device_names[0]}"])
    devices = tuple(device.replace(memory_bytes=least) for device in instance.system.devices)
    return instance.replace(system=instance.system.replace(devices=devices)), least


def hooked(module: Any, devices: dict[str, int], first: int) -> Any:
    """The module with accelerate's hooks for a map, and its parameters where they are."""
    import accelerate
    import torch

    at = {key: torch.device("cpu" if device == first else "meta") for key, device in devices.items()}
    for name, part in module.named_modules():
        for own, value in [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]:
            held = f"{name}.{own}" if name else own
            keys = [key for key in at if key == "" or f"{held}.".startswith(f"{key}.")]
            placed = value.detach().to(at[max(keys, key=len)])
            stored = part._parameters if own in part._parameters else part._buffers
            stored[own] = torch.nn.Parameter(placed, requires_grad=False) if own in part._parameters else placed
    modules = dict(module.named_modules())
    inner = {key: device for key, device in at.items() if key in modules}
    accelerate.hooks.attach_align_device_hook_on_blocks(
        module, execution_device=inner, offload=dict.fromkeys(inner, False)
    )
    if "" not in inner:  # the root's own hook brings results back, which nothing does from meta
        accelerate.hooks.remove_hook_from_module(module)
    return module


def judged(name: str, devices: dict[str, int], first: int) -> dict[str, Any]:
    """What accelerate says of a map: accepted, names covered, and whether the network runs by it."""
    import accelerate
    import torch

    module, row = wrapped(NETWORKS[name]), dict[str, Any]()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            accelerate.utils.modeling.check_device_map(module, devices)
            row["accepted"] = True
        except ValueError as error:
            row |= {"accepted": False, "why": str(error)[:300]}
        states = list(module.state_dict())
        row["states"] = len(states)
        row["covered"] = sum(any(not k or f"{one}.".startswith(f"{k}.") for k in devices) for one in states)
        try:
            hooked(module, devices, first)(**example(NETWORKS[name]))
            row["runs"] = True
        except (RuntimeError, NotImplementedError) as error:
            row |= {"runs": False, "why": str(error)[:300]}
    return row


def measure(name: str, read: Any, family: str, grain: Grain) -> dict[str, Any]:
    """Solve, emit, judge, adopt: a row."""
    row: dict[str, Any] = {"network": name, "family": family, "grain": grain}
    for share in SHARES:
        instance, memory = bound((on_ring if family == "ring" else on_devices)(read, name, 2), share)
        instance = cut(instance, [grain]).instance
        result = chipmap.solve(instance, options=chipmap.SolveOptions(time_limit=SOLVE, threads=1))
        row |= {"share": share, "memory": memory, "status": result.status, "gap": result.gap}
        if result.solution is not None:
            break
    if result.solution is None:
        return row
    try:
        data = result.emit("device-map")["device_map.json"]
    except chipmap.InputError as error:
        return row | {"refused": str(error)}
    devices = json.loads(data)
    record = RingSolution if isinstance(instance, RingInstance) else PlacementSolution
    stage = stages_of(instance, record.make(**result.solution))[0]
    names = [one.name for one in instance.system.devices] if family == "placement" else []
    first = names.index(str(stage.place)) if names else int(stage.place)
    row |= {"keys": len(devices), "devices": len(set(devices.values()))} | judged(name, devices, first)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "device_map.json").write_bytes(data)
        again = chipmap.adopt(instance, Path(folder, "device_map.json"), time_limit=2.0)
    return row | {"back": again.certificate is not None and again.certificate.objective == result.objective}


def page(rows: list[dict[str, Any]]) -> str:
    """The results page."""
    packages = ", ".join(f"{one} {version(one)}" for one in ("torch", "transformers", "accelerate"))
    said = (__doc__ or "").split("\n\n")[2].replace("``", "`").replace(":mod:", "")
    text = ["# Device maps before accelerate", "", f"`python -m benchmarks.device_maps` ({packages}, Python "]
    text[-1] += f"{platform.python_version()}). {said}"
    good = sum(bool(one.get("accepted") and one.get("runs") and one["covered"] == one["states"]) for one in rows)
    text += ["", f"{good} of {len(rows)} are accepted, cover all states, and run.", ""]
    text += ["| network | family | whole | solved | memory | MB | keys | accepted | states | runs | back | otherwise |"]
    text += ["|---|---|---|---|--:|--:|--:|---|---|---|---|---|"]
    for one in rows:
        proof = "optimal" if one["status"] == "optimal" else f"within {one['gap']:.2%}" if one["gap"] else one["status"]
        cells = [
            NETWORKS[one["network"]].about,
            one["family"],
            one["grain"],
            proof,
            f"{one['share']:.0%}",
            f"{one['memory'] / 1e6:,.1f}",
        ]
        yes = {True: "yes", False: "no", None: ""}
        cells += [one.get("keys", ""), yes[one.get("accepted")], f"{one.get('covered', 0)} of {one.get('states', 0)}"]
        cells += [yes[one.get("runs")], yes[one.get("back")], one.get("why", one.get("refused", ""))]
        text.append("| " + " | ".join(str(cell).replace("\n", " ") for cell in cells) + " |")
    return "\n".join(text) + "\n"


def main() -> int:
    """Measure all and write the page after each row; 1 where accelerate refuses a map, or can't run by it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--out", type=Path, default=OUT)
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only:
            model = Path(folder, f"{name}.pt2")
            export(NETWORKS[name], model)
            read = import_graph(str(model))
            model.unlink()
            for family in ("ring", "placement"):
                for grain in GRAINS:
                    rows.append(measure(name, read, family, grain))
                    print(json.dumps(rows[-1]), flush=True)
                    args.out.write_text(page(rows), encoding="utf-8")
    return int(any(not (one.get("accepted") and one.get("runs")) for one in rows if "keys" in one))


if __name__ == "__main__":
    sys.exit(main())
