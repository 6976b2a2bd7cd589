"""What PyTorch's own counter says of a program, beside what is counted here, where PyTorch is installed.

``torch.utils.flop_counter`` has a formula for each operator that it counts, which needs shapes only. It is asked in a
process of its own: PyTorch takes seconds to load and 200 MB. A program that isn't decomposed holds operators that
PyTorch counts by what they become: ``linear`` and ``matmul`` are products, ``conv2d`` is a convolution, attention
counts as its fused kernel.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from math import prod
from typing import Any, NamedTuple

from chipmap.networks.importers.counting import Totals, amount
from chipmap.networks.importers.operators.calls import Call
from chipmap.records import counted

#: Seconds after which the counter is given up.
LIMIT_S = 120
_PLAIN = frozenset({"mm", "bmm", "addmm", "baddbmm", "_scaled_mm"})
_CONVOLUTIONS = {"convolution", "_convolution", "conv1d", "conv2d", "conv3d"}
_TRANSPOSED = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
_ATTENTION = {
    "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_cudnn_attention",
}
Shape = tuple[int, ...]


class Question(NamedTuple):
    """An operator that the counter knows, with the shapes of what it reads and makes."""

    operator: str
    read: tuple[Shape, ...]
    made: Shape
    transposed: bool = False


def question(call: Call) -> Question | None:
    """How the counter is asked for ``call``; None for an operator that it doesn't count."""
    shapes = [value.shape for value in call.operands]
    if not call.made or len(shapes) < 2:
        return None
    made, kind = call.result.shape, call.kind.removesuffix("_")
    if kind in _PLAIN:
        return Question(kind, tuple(shapes), made)
    if kind in ("linear", "matmul"):
        return _product(shapes[0], shapes[1][::-1] if kind == "linear" else shapes[1], made)
    if kind in _CONVOLUTIONS or kind in _TRANSPOSED:
        single = len(shapes[0]) < len(shapes[1])  # without a batch
        x, y = ((1, *shape) if single else shape for shape in (shapes[0], made))
        transposed = kind in _TRANSPOSED or call.arguments.get("transposed") is True
        return Question("convolution", (x, shapes[1]), y, transposed)
    if kind in _ATTENTION and len(shapes) > 2 and all(len(shape) > 2 for shape in shapes[:3]):
        flat = tuple((prod(shape[:-3]), *shape[-3:]) for shape in shapes[:3])
        return Question("_scaled_dot_product_flash_attention", flat, made)
    return None


def _product(a: Shape, b: Shape, made: Shape) -> Question | None:
    """A product with any number of leading dimensions; None for one with a vector, which the counter leaves out."""
    if len(a) < 2 or len(b) < 2:
        return None
    if len(b) == 2:
        return Question("mm", ((prod(a[:-1]), a[-1]), b), made)
    batch = prod(made[:-2])
    return Question("bmm", ((batch, *a[-2:]), (batch, *b[-2:])), made)


def compared(totals: Totals) -> list[str]:
    """A line with the counter's sum over the operators that it counts, and what is counted here for the same and for
    the others; none where PyTorch isn't installed.
    """
    if find_spec("torch") is None:
        return []
    asked: list[tuple[Question, str, int]] = []
    others: Counter[str] = Counter()
    for call, flop in totals.calls:
        found = question(call)
        if found is None:
            others[call.kind] += flop
        else:
            asked.append((found, call.kind, flop))
    distinct = list(dict.fromkeys(found for found, _, _ in asked))
    answers = _ask(distinct)
    if isinstance(answers, str):
        return [f"PyTorch's counter gives no answer: {answers}"]
    said = dict(zip(distinct, answers, strict=True))
    ours, theirs = sum(flop for _, _, flop in asked), sum(said[found] for found, _, _ in asked)
    differs: Counter[str] = Counter()
    for found, kind, flop in asked:
        differs[kind] += flop - said[found]
    unlike = ", ".join(f"{kind} {amount(count, '+')}" for kind, count in sorted(differs.items()) if count)
    same = f"{amount(ours)} here ({unlike})" if unlike else "the same here"
    largest = ", ".join(f"{kind} {amount(flop)}" for kind, flop in others.most_common(3) if flop)
    left = Counter(call.kind for call in totals.beforehand if question(call) is not None or call.kind == "einsum")
    left.update(call.kind for call, _ in totals.calls if call.kind == "einsum")
    named = ", ".join(f"{count} {kind}" for kind, count in sorted(left.items()))
    also = f" (FlopCounterMode counts these too: {named})" if left else ""
    counter = f"PyTorch's {'formulas' if left else 'counter'}{also}"
    rest = f"; {amount(sum(others.values()))} here for others ({largest})" if largest else ""
    return [f"{counter}: {amount(theirs)} for {counted(len(asked), 'operator')}, {same}{rest}"]


def _ask(questions: Sequence[Question]) -> list[int] | str:
    """The counter's answers, or why there are none."""
    command = [sys.executable, "-m", __name__]
    try:
        done = subprocess.run(
            command, input=json.dumps(questions), capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
    answers: list[int] = json.loads(done.stdout)
    return answers


def main() -> None:
    """Answer the questions of standard input on standard output, as JSON."""
    print(json.dumps([answer(Question(*each)) for each in json.load(sys.stdin)]))


def answer(asked: Question) -> int:
    """What PyTorch's counter says."""
    import torch
    from torch.utils.flop_counter import flop_registry

    formula: Any = flop_registry[getattr(torch.ops.aten, asked.operator)]
    read = [torch.empty(list(shape), device="meta") for shape in asked.read]
    made = torch.empty(list(asked.made), device="meta")
    if asked.operator == "convolution":
        return int(formula(*read, None, None, None, None, asked.transposed, out_val=made))
    return int(formula(*read, out_val=made))


if __name__ == "__main__":
    main()
