"""Run the models of the stages one after the other in ONNX Runtime, as ``stages.json`` says.

    python run.py [--inputs FILE.npz] [--out FILE.npz] [--model FILE] [--dim NAME=SIZE ...] [--tolerance 1e-4]

It needs numpy and onnxruntime. Without ``--inputs`` they are made up: whole numbers 0 and 1 by turns, others random.
With ``--model``, the whole model, its outputs are compared with those of the stages. A line of JSON says what came out.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

KINDS = {"float": "float32", "double": "float64", "bool": "bool"}


def main() -> int:
    """0, or 1 if the outputs differ by more than the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=Path, help="the model's inputs by name (numpy's .npz)")
    parser.add_argument("--out", type=Path, help="where to write the outputs")
    parser.add_argument("--model", type=Path, help="the whole model, to compare with")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE", help="the size of a dimension")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()
    here = Path(__file__).resolve().parent
    plan = json.loads((here / "stages.json").read_text(encoding="utf-8"))
    values = dict(np.load(args.inputs)) if args.inputs else {}
    sizes = {name: int(size) for name, _, size in (one.partition("=") for one in args.dim)}
    said: dict[str, Any] = {"stages": len(plan["stages"]), "boundary_bytes": sent(plan, here, values, sizes)}
    outputs = {name: values[name] for name in plan["outputs"]}
    if args.out:
        np.savez(args.out, **outputs)
    if args.model:
        whole = session(args.model).run(plan["outputs"], {name: values[name] for name in plan["inputs"]})
        said |= compared(list(outputs.values()), whole, args.tolerance)
    print(json.dumps(said))
    return int(not said.get("equal", True))


def session(path: Path) -> Any:
    """A model, loaded; operators are fused as in any session."""
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def sent(plan: dict[str, Any], here: Path, values: dict[str, Any], sizes: dict[str, int]) -> list[int]:
    """Run all stages, each with what it reads of ``values``; the bytes over each boundary of the chain."""
    over = [0] * max(0, len(plan["stages"]) - 1)
    last: dict[str, tuple[int, int]] = {}  # tensor -> the stage that makes it, and the last that reads it
    for s, stage in enumerate(plan["stages"]):
        runner = session(here / stage["file"])
        for like in runner.get_inputs():
            if like.name not in values:
                values[like.name] = made_up(like, sizes)
        for one in stage["receives"]:
            last[one["name"]] = one["from"], s
        given = {like.name: values[like.name] for like in runner.get_inputs()}
        values |= zip(stage["gives"], runner.run(stage["gives"], given), strict=True)
    for name, (first, end) in last.items():
        for boundary in range(first, end):
            over[boundary] += values[name].nbytes
    return over


def made_up(like: Any, sizes: dict[str, int]) -> Any:
    """An input of the model that isn't given."""
    shape = [one if isinstance(one, int) else sizes.get(one, 1) for one in like.shape]
    kind = like.type[len("tensor(") : -1]
    numbers = np.random.default_rng(0)
    if kind in ("float", "double", "float16"):
        return numbers.standard_normal(shape).astype(KINDS.get(kind, kind))
    return (np.arange(int(np.prod(shape))) % 2).reshape(shape).astype(KINDS.get(kind, kind))


def compared(ours: list[Any], theirs: list[Any], tolerance: float) -> dict[str, Any]:
    """The largest difference of the outputs, beside the largest number in them."""
    worst = largest = 0.0
    for one, other in zip(ours, theirs, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return {"equal": False, "shapes": [one.shape, other.shape]}
        same = (one == other) | ((one != one) & (other != other))
        if not same.all():
            worst = max(worst, float(np.abs(one[~same].astype("float64") - other[~same].astype("float64")).max()))
        if other.size:
            largest = max(largest, float(np.nan_to_num(np.abs(other.astype("float64"))).max()))
    equal = worst <= tolerance * max(1.0, largest)
    return {"largest_difference": worst, "largest_output": largest, "equal": bool(equal)}


if __name__ == "__main__":
    sys.exit(main())
