"""Speculative decoding: the tokens per second that a draft model adds (DFModel, section VIII, figure 21).

``docs/families/dataflow-serving.md`` has the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from chipmap.instances.dataflow.instance import DataflowInstance
from chipmap.instances.dataflow.presets import preset
from chipmap.records import InputError
from chipmap.report.canvas import COLOURS, INK, SMALL, save, styled

#: What the candidates of a tree's node are: two tokens, as its total of 2^K says.
BRANCHES = 2


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


class Speculation(NamedTuple):
    """Tokens per second of a target with a draft model: window K, chance a, by sequence and by tree, each as the
    published code counts them and as expected."""

    draft: str
    window: int
    acceptance: float
    sequence_published: float
    sequence: float
    tree_published: float
    tree: float


def draw(rates: Sequence[Speculation], alone: float, path: Path) -> None:
    """Draw tokens per second over the window to the PNG file ``path``: a column for each draft, sequences above trees,
    a colour for each acceptance; dashed as published, ``alone`` as a line (DFModel, figure 21)."""
    drafts, chances = (list(dict.fromkeys(one[k] for one in rates)) for k in (0, 2))
    with styled(**SMALL, **{"figure.dpi": 130}):
        figure = Figure(figsize=(1.2 + 2.6 * len(drafts), 5.0), layout="constrained")
        planes = figure.subplots(2, len(drafts), squeeze=False, sharex=True, sharey=True)
        for line, kind in zip(planes, ("sequence", "tree"), strict=True):
            for plane, draft in zip(line, drafts, strict=True):
                for k, chance in enumerate(chances):
                    own = [one for one in rates if (one.draft, one.acceptance) == (draft, chance)]
                    windows = [one.window for one in own]
                    for field, dashes, words in ((kind, "-", ""), (f"{kind}_published", "--", ", published")):
                        heights = [getattr(one, field) for one in own]
                        label = f"a = {chance:g}{words}"
                        plane.plot(windows, heights, dashes, marker="o", markersize=3, color=COLOURS[k], label=label)
                plane.axhline(alone, color=INK, linewidth=0.9, label="without a draft")
                plane.set_title(f"{draft}, {kind}")
                plane.set_ylim(bottom=0.0)
            line[0].set_ylabel("tokens/s")
        for plane in planes[-1]:
            plane.set_xlabel("window K, tokens")
            plane.set_xticks(sorted({one.window for one in rates}))
        handles, words = planes[0][0].get_legend_handles_labels()
        figure.legend(handles, words, fontsize=6, loc="outside right upper")
        save(figure, path)
