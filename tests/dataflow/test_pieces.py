"""Prefill in pieces: FLOP of all pieces, the samples that decode beside them, and both against torch's own count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from chipmap.bench.dataflow.pieces import cut, prefill_in_pieces
from chipmap.instances.dataflow.generators import llama
from chipmap.instances.dataflow.sizes import flop
from chipmap.records import InputError

SIZES: dict[str, Any] = {"model": "", "hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 96, "layers": 1, "words": 100}
HEAD = 16


def products(context: int, tokens: int, **more: Any) -> dict[str, int]:
    """FLOP of each product of a step."""
    made = llama(**SIZES, sizes=[1], step="decode", context=context, tokens=tokens, batch=1, micro_batch=1, **more)
    return {one.name: int(flop(one)) for one in made.workload.kernels if one.kind == "gemm"}


def attention(of: dict[str, int]) -> int:
    return sum(count for name, count in of.items() if name.startswith("MHA"))


@pytest.mark.parametrize("piece", [1, 3, 4, 5, 12])
def test_the_pieces_attend_as_often_as_the_page_says(piece: int) -> None:
    prompt, heads = 12, SIZES["heads"]
    pieces = cut(prompt, piece)
    total = sum(attention(products(*one)) for one in pieces)
    assert total == 4 * HEAD * heads * (prompt**2 + sum(tokens**2 for _, tokens in pieces)) // 2
    causal = 4 * HEAD * heads * sum(1 for i in range(prompt) for j in range(prompt) if j <= i)
    assert total >= causal and (total == causal) == (piece == 1)
    rest = sum(sum(one.values()) - attention(one) for one in (products(*part) for part in pieces))
    whole = products(0, prompt)
    assert rest == sum(whole.values()) - attention(whole), "other products count each token once"


def test_samples_beside_a_piece_add_what_they_take_alone() -> None:
    piece, alone = products(8, 4), products(6, 1)
    both = products(8, 4, beside=3, beside_context=6)
    assert sum(both.values()) == sum(piece.values()) + 3 * sum(alone.values())
    made = llama(**SIZES, sizes=[1], step="decode", context=8, tokens=4, beside=3, beside_context=6)
    one = llama(**SIZES, sizes=[1], step="decode", context=6, tokens=1)
    fetched = {kernel.name: kernel.fetch_bytes for kernel in made.workload.kernels}
    assert fetched["MHA2_Beside"] == 3 * next(k.fetch_bytes for k in one.workload.kernels if k.name == "MHA2")
    assert made.workload.tokens == 7


def test_steps_add_up_and_share_weights() -> None:
    """Two pieces with decoding beside them: less than both one after the other, more than the pieces alone."""
    machine: dict[str, Any] = {"model": "llama-68m", "machine": "h100-sxm", "sizes": [1]}
    plain, mixed = prefill_in_pieces(96, 64, **machine), prefill_in_pieces(96, 64, 8, 100, **machine)
    decode = prefill_in_pieces(1, 1, 7, 100, **machine)
    assert [(one.before, one.tokens) for one in mixed.pieces] == [(0, 64), (64, 32)] and mixed.optimal
    assert (
        mixed.ttft_us == pytest.approx(sum(one.step_us for one in mixed.pieces)) and mixed.tpot_us == mixed.ttft_us / 2
    )
    assert plain.ttft_us < mixed.ttft_us < plain.ttft_us + 2 * decode.ttft_us
    assert max(one.step_us for one in mixed.pieces) >= mixed.tpot_us


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="piece"):
        cut(5, 0)
    with pytest.raises(InputError, match="beside"):
        llama(**SIZES, sizes=[1], step="prefill", tokens=4, beside=2)


def test_torch_counts_the_same() -> None:
    """A layer in torch with a cache of keys and values, piece by piece, by torch's FlopCounterMode."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    hidden, heads, kv, ffn = (SIZES[name] for name in ("hidden", "heads", "kv_heads", "ffn"))
    weight = {name: torch.randn(rows, columns) for name, rows, columns in shapes(hidden, kv, ffn)}

    def step(x: Any, cache: list[Any]) -> Any:
        tokens = x.shape[0]
        q, k, v = (x @ weight[name] for name in "qkv")
        cache[0], cache[1] = torch.cat([cache[0], k]), torch.cat([cache[1], v])
        keys, values = (one.view(-1, kv, HEAD).transpose(0, 1).repeat_interleave(heads // kv, 0) for one in cache)
        scores = q.view(tokens, heads, HEAD).transpose(0, 1) @ keys.transpose(1, 2)
        seen = torch.ones(tokens, keys.shape[1], dtype=torch.bool).tril(keys.shape[1] - tokens)
        mixed = scores.masked_fill(~seen, float("-inf")).softmax(-1) @ values
        y = mixed.transpose(0, 1).reshape(tokens, hidden) @ weight["o"]
        return (torch.nn.functional.silu(y @ weight["up"]) * (y @ weight["gate"])) @ weight["down"]

    x, empty = torch.randn(12, hidden), torch.zeros(0, kv * HEAD)
    for piece in (1, 5, 12):
        cache, made = [empty, empty], []
        for before, tokens in cut(12, piece):
            with FlopCounterMode(display=False) as counter:
                made.append(step(x[before : before + tokens], cache))
            assert counter.get_total_flops() == sum(products(before, tokens).values())
        whole = step(x, [empty, empty])
        assert torch.allclose(torch.cat(made), whole, rtol=1e-3, atol=1e-2 * float(whole.abs().max()))


def shapes(hidden: int, kv: int, ffn: int) -> Iterator[tuple[str, int, int]]:
    """Name, rows and columns of the layer's matrices."""
    yield from (("q", hidden, hidden), ("k", hidden, kv * HEAD), ("v", hidden, kv * HEAD), ("o", hidden, hidden))
    yield from (("up", hidden, ffn), ("gate", hidden, ffn), ("down", ffn, hidden))
