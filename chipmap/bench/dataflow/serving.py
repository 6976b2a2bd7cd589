"""Serving a language model: latencies and throughput from optimal mappings, and what a draft model adds.

Source: DFModel, section VIII, figures 20 and 21; ``docs/families/dataflow-serving.md``. Times are those of checked
mappings by ``dataflow/auto``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.presets import preset
from chipmap.records import InputError
from chipmap.run import SolveOptions
from chipmap.solve import solve

#: What the candidates of a tree's node are: two tokens, as its total of 2^K says.
BRANCHES = 2


class Pass(NamedTuple):
    """One pass of a micro-batch through a model: microseconds (TTFT of a prefill, TPOT of a decode step), the tokens
    per second of the whole batch, and whether the mapping is proved optimal."""

    latency_us: float
    tokens_per_s: float
    optimal: bool


def serve(instance: DataflowInstance, time_limit: float = 60.0) -> Pass:
    """The pass of a prefill or decode ``instance`` under its optimal mapping.

    Raises :class:`InputError` for an instance of another purpose, and where no mapping was found.
    """
    if instance.task.purpose == "training":
        raise InputError("is training", "task.purpose", "Give prefill or decode.")
    result = solve(instance, "dataflow/auto", SolveOptions.make(warm_start="none", time_limit=time_limit))
    if result.certificate is None or not result.certificate.feasible:
        raise InputError(f"{instance.name} has no mapping ({result.status})", "serve", "`chipmap solve` says why.")
    figures = result.certificate.figures
    latency = figures["ttft_us" if instance.task.purpose == "prefill" else "tpot_us"]
    return Pass(latency, figures["tokens_per_s"], result.status == "optimal")


def staged(instance: DataflowInstance, tensor: int, pipeline: int, batch: int) -> DataflowInstance:
    """``instance`` on tensor x pipeline chips with the links of its first network dimension, serving ``batch`` samples.

    With as many micro-batches as stages all chips are busy; with one the batch's time is its latency.
    """
    first = instance.system.network[0]
    network = (first.replace(size=tensor), first.replace(size=pipeline))
    degrees = Degrees(tensor=tensor, pipeline=pipeline, dimensions=("tensor", "pipeline"))
    made = instance.replace(
        name=f"{instance.name}-tp{tensor}-pp{pipeline}",
        system=instance.system.replace(network=network),
        task=instance.task.replace(degrees=degrees, batch=batch),
    )
    made.check()
    return made


def verification(model: str, tokens: int, **parameters: Any) -> DataflowInstance:
    """The pass in which ``model`` (a Llama of the presets) checks ``tokens`` tokens after its context at once."""
    return preset(model, **{"purpose": "decode", "step": "decode", **parameters, "tokens": tokens})


def _check(window: int, acceptance: float, draft: float, target: float) -> None:
    if window < 1:
        raise InputError(f"is {window}", "window", "Give 1 or more tokens.")
    if not 0 <= acceptance <= 1:
        raise InputError(f"is {acceptance}", "acceptance", "Give a share from 0 to 1.")
    if draft < 0 or target <= 0:
        raise InputError(f"are {draft} and {target}", "times", "Give times above 0.")


def published_rate(window: int, acceptance: float, draft_us: float, target_us: float, *, tree: bool = False) -> float:
    """Tokens per second as the published code counts them: (K·a + 1) / (K·t_draft + t_target).

    A ``tree`` holds 2^K tokens instead of K (the paper's text; its code has the sequence alone).
    """
    _check(window, acceptance, draft_us, target_us)
    drafted = BRANCHES**window if tree else window
    return (window * acceptance + 1) / (drafted * draft_us + target_us) * 1e6


def expected_tokens(window: int, acceptance: float) -> float:
    """Tokens of a round on average: Σ a^i for i = 0 … K = (1 - a^(K+1)) / (1 - a), with the target's own.

    Leviathan et al. 2023, equation 1: a draft token counts only if all before it were accepted.
    """
    _check(window, acceptance, 0.0, 1.0)
    return sum(acceptance**i for i in range(window + 1))


def tree_acceptance(acceptance: float) -> float:
    """Chance that one of a node's branches is accepted, each independently: 1 - (1 - a)^2."""
    return 1 - (1 - acceptance) ** BRANCHES


def sequence_rate(window: int, acceptance: float, draft_us: float, verify_us: float) -> float:
    """Tokens per second: the expected tokens of a round over K draft steps and the target's pass over K + 1 tokens."""
    _check(window, acceptance, draft_us, verify_us)
    return expected_tokens(window, acceptance) / (window * draft_us + verify_us) * 1e6


def tree_rate(acceptance: float, levels_us: list[float], verify_us: float) -> float:
    """Tokens per second of a binary tree, drafted level by level.

    ``levels_us``: the draft's pass that makes level d (from 1), over the 2^(d-1) tokens above it; ``verify_us``: the
    target's pass over all 2^(K+1) - 1 tokens, the root included.
    """
    window = len(levels_us)
    _check(window, acceptance, sum(levels_us), verify_us)
    return expected_tokens(window, tree_acceptance(acceptance)) / (sum(levels_us) + verify_us) * 1e6
