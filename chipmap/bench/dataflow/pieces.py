"""Prefill in pieces: a prompt's tokens a piece at a time, with samples that decode beside each piece.

The formulas: ``docs/families/dataflow-serving.md``, "Prefill in pieces". Times are those of checked mappings by
``dataflow/auto``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chipmap.bench.dataflow.serving import serve
from chipmap.instances.dataflow.generators import llama
from chipmap.records import InputError


class Piece(NamedTuple):
    """A piece: tokens of the prompt before it, its own, microseconds of its step, whether the mapping is optimal."""

    before: int
    tokens: int
    step_us: float
    optimal: bool


class InPieces(NamedTuple):
    """A prompt in ``pieces``, with so many samples that decode ``beside`` each of them."""

    pieces: tuple[Piece, ...]
    beside: int

    @property
    def ttft_us(self) -> float:
        """Microseconds until the first token: the sum of all steps."""
        return sum(one.step_us for one in self.pieces)

    @property
    def tpot_us(self) -> float:
        """Microseconds per token of a sample that decodes beside the pieces: the mean of the steps."""
        return self.ttft_us / len(self.pieces)

    @property
    def optimal(self) -> bool:
        """Whether every mapping is proved optimal."""
        return all(one.optimal for one in self.pieces)


def cut(prompt: int, piece: int) -> list[tuple[int, int]]:
    """(tokens before, tokens) of each piece of a ``prompt``: all of ``piece`` tokens but the last, which has the rest.

    Raises :class:`InputError` unless both are at least 1.
    """
    for name, value in (("prompt", prompt), ("piece", piece)):
        if value < 1:
            raise InputError(f"is {value}", name, "Give 1 or more tokens.")
    return [(before, min(piece, prompt - before)) for before in range(0, prompt, piece)]


def prefill_in_pieces(
    prompt: int, piece: int, beside: int = 0, beside_context: int = 4096, time_limit: float = 60.0, **parameters: Any
) -> InPieces:
    """A ``prompt`` in pieces, by steps of generator ``dataflow-llama`` with these further ``parameters`` (model,
    machine, sizes, …), one prompt at a time.

    Raises :class:`InputError` as the generator does, and where a step has no mapping.
    """
    found = []
    for before, tokens in cut(prompt, piece):
        step = {"step": "decode", "tokens": tokens, "context": before, "batch": 1, "micro_batch": 1}
        instance = llama(**(parameters | step), beside=beside, beside_context=beside_context)
        made = serve(instance, time_limit)
        found.append(Piece(before, tokens, made.latency_us, made.optimal))
    return InPieces(tuple(found), beside)
