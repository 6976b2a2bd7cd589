"""Forms of operators that keep other tensors than their kind tells, beside PyTorch's ``saved_tensors_hooks``: maxima of
all numbers, ``einsum`` of several operands, noise, parts of tensors; and attention that PyTorch doesn't fuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chipmap.instances.placement.beside import UNTOLD, copies, made_beside
from chipmap.instances.saved import saves
from chipmap.networks.graph import Operation
from chipmap.networks.importers.operators.kept import kept_bytes, ordered
from chipmap.networks.importers.steps import Step, Value
from chipmap.networks.importers.torch_program import import_exported
from tests.placement.kept import exported, kept_by_torch, kept_here
from tests.placement.test_kept_copies import _product

Body = Callable[[Any, Any], Any]


def test_forms_keep_what_their_formulas_name() -> None:
    assert saves("max", 1, 1) == saves("median", 1, 1) == saves("amax")
    assert saves("nanmedian", 1, 1) == saves("amax")
    assert saves("max", 2, 1) == saves("median", 2, 1) == saves("nanmedian", 2, 1) == saves("topk")
    assert saves("max", 1, 2) == saves("maximum")
    assert saves("lerp", 1, 2) == saves("remainder", 1, 1) == saves("add")
    assert saves("lerp", 1, 3).operands == "factors"
    assert saves("cross_entropy_loss").operands == "indices" and saves("quantile") == saves("add")
    assert saves("rnn_tanh").extra == "inner" and saves("lstm").extra == saves("gru").extra == "gates"


def _kept(kind: str, *shapes: tuple[int, ...], **arguments: Any) -> int:
    values = {str(i): Value(str(i), shape, 16) for i, shape in enumerate(shapes)}
    return kept_bytes(Step("s", kind, tuple(values), ("y",), arguments=arguments), values)


def test_what_is_made_beside_the_result_by_hand() -> None:
    """Two bytes a number. Scores of 2 · 3 · 5 numbers, multiplied further; noise of 2 · 4 channels, or of all numbers;
    of 2 · 3 rows both operands of 4, and four norms."""
    three = {"equation": "bqd,bkd,bke->bqe"}
    assert _kept("einsum", (2, 3, 4), (2, 5, 4), (2, 5, 7), **three) == 2 * 30
    assert _kept("einsum", (2, 3, 4), (2, 5, 4), (2, 5, 7), **three, path=[1, 2, 0, 1]) == 2 * 2 * 4 * 7
    assert _kept("feature_dropout", (2, 4, 5, 5)) == _kept("feature_dropout_", (2, 4, 5, 5)) == 2 * 8
    assert _kept("alpha_dropout", (2, 4, 5)) == 2 * 40
    assert _kept("cosine_similarity", (2, 1, 4), (3, 4), dim=-1) == 2 * (2 * 24 + 4 * 6)


def test_losses_and_quantiles_by_hand() -> None:
    """Two bytes a number: 6 · 10 logarithms and a sum of weights; smoothed, a byte for each of 6 targets and a count.
    Of 6 · 10 numbers six quantiles: 60 numbers and places, six weights and twice six places."""
    values = {"x": Value("x", (6, 10), 16), "i": Value("i", (6,), 64), "p": Value("p", (6, 10), 16)}
    values["y"] = Value("y", (6,), 16)

    def kept(kind: str, *reads: str, **arguments: Any) -> int:
        return kept_bytes(Step("s", kind, reads, ("y",), arguments=arguments), values)

    assert kept("cross_entropy_loss", "x", "i") == 2 * 60 + 2
    assert kept("cross_entropy_loss", "x", "i", label_smoothing=0.1) == 2 * 60 + 2 + 6 + 8
    assert kept("cross_entropy_loss", "x", "p") == 2 * 60
    assert kept("nll_loss_nd", "x", "i") == 2
    assert kept("quantile", "x", dim=-1) == 2 * (60 + 6) + 8 * (60 + 2 * 6)
    assert kept("pairwise_distance", "x", "p") == kept("l1_loss", "x", "p") == 2 * 60


def test_the_order_of_operands_is_told_where_it_matters() -> None:
    """Places among the tensors that are read; a weight has none."""
    places = {"a": 7, "b": 3}

    def told(kind: str, *reads: str) -> tuple[int, ...]:
        return ordered(Step("s", kind, reads, ("y",)), places)

    assert told("mul", "a", "b") == told("relu", "a") == ()
    assert told("mul", "a", "a") == (0, 0)
    assert told("addcmul", "a", "b", "w") == (1, 0, -1)
    assert told("div", "w", "b") == (-1, 0)
    assert told("einsum", "a", "w", "b") == (1, -1, 0)


def test_a_recurrent_layer_without_gates_keeps_results_of_inner_layers() -> None:
    """Of three layers with 64 bytes each: gated, five numbers more per result."""
    plain, gated = (Operation(name="r", kind=kind, layers=3) for kind in ("rnn_tanh", "lstm"))
    assert made_beside(plain, [True], [64, 8], [], 4) == [2 * 64]
    assert made_beside(plain.replace(layers=1), [True], [64, 8], [], 4) == []
    assert made_beside(gated, [True], [64, 8, 8], [], 4) == [(3 * 5 + 2) * 64]


def test_a_cosine_to_what_has_no_gradient_keeps_half() -> None:
    """Of 24 numbers in 6 rows: the other operand divided by its norms, and two norms."""
    cosine = Operation(name="c", kind="cosine_similarity", kept_bytes=2 * (2 * 24 + 4 * 6))
    assert made_beside(cosine, [True, True], [12], [], 2) == [2 * (2 * 24 + 4 * 6)]
    assert made_beside(cosine, [False, True], [12], [], 2) == made_beside(cosine, [True, False], [12], [], 2)
    assert made_beside(cosine, [True, False], [12], [], 2) == [2 * (24 + 2 * 6)]
    assert saves("cosine_similarity").operands == "inputs"


def test_a_copy_of_a_part_is_read_in_place_of_the_tensor() -> None:
    """8 of 32 bytes: one computed operand, whose partner has a gradient or not; two computed operands."""
    sizes = [32, 12, 32]
    assert copies(_product(8), [0, 1], sizes, {1}, {0, 1}) == {0: 8}
    assert copies(_product(8), [0, 1], sizes, {1}, {0}) == {}
    assert copies(_product(8), [0, 2], sizes, set(), {0, 2}) == {UNTOLD: 8}
    assert copies(_product(12, "einsum"), [0, 1, 2], sizes, set(), {0, 1, 2}) == {UNTOLD: 12}  # made, not copied


FORMS: dict[str, Body] = {
    "largest of all": lambda torch, q: q.sin().max() + q.sum(),
    "least of all": lambda torch, q: q.sin().min() + q.sum(),
    "middle of all": lambda torch, q: q.sin().median() + q.sum(),
    "middle of numbers": lambda torch, q: q.sin().nanmedian() + q.cos().nanmedian(-1).values,
    "square": lambda torch, q: (s := q.sin()) * s,
    "mean square": lambda torch, q: ((d := q.sin() - q.cos()) * d).mean(),
    "remainder of itself": lambda torch, q: torch.remainder(s := q.sin(), s),
    "mixture of two": lambda torch, q: torch.lerp(q.cos(), s := q.sin(), s),
    "scaled and added": lambda torch, q: torch.addcmul(q.sin(), q.cos(), q.exp()),
    "divided and added": lambda torch, q: torch.addcdiv(q.sin(), q.cos(), q.exp()),
    "added to a batch": lambda torch, q: torch.baddbmm(
        *(one.flatten(0, 1) for one in (q.sin(), q.cos(), q.exp().transpose(2, 3) @ q.tanh()))
    ),
    "quantile": lambda torch, q: torch.quantile(q.sin(), 0.5, dim=-1) + torch.quantile(q.cos(), 0.2),
    "distance": lambda torch, q: torch.nn.functional.pairwise_distance(q.sin(), q.cos()),
    "no noise": lambda torch, q: torch.nn.functional.alpha_dropout(q.sin(), 0.0, True) + q.cos(),
    "larger of a tensor and itself": lambda torch, q: torch.max(s := q.cos(), s),
    "both ends": lambda torch, q: sum(torch.aminmax(q.sin(), dim=-1)),
    "running maximum": lambda torch, q: q.sin().cummax(-1).values,
    "running logarithm": lambda torch, q: torch.logcumsumexp(q.sin(), -1),
    "mixture": lambda torch, q: torch.lerp(q.sin(), q.cos(), 0.3),
    "gated mixture": lambda torch, q: torch.lerp(q.sin(), q.cos(), q.sigmoid()),
    "remainder": lambda torch, q: torch.remainder(q.sin(), 0.3) * q,
    "cosine": lambda torch, q: torch.nn.functional.cosine_similarity(q.sin(), q.cos(), dim=-1),
    "cosine to a target": lambda torch, q: torch.cosine_similarity(q.sin(), q.cos().detach(), dim=-1),
    "cosine of pairs": lambda torch, q: torch.cosine_similarity(q.sin()[:, :, :, None], q.cos()[:, :, None], dim=-1),
    "channels dropped": lambda torch, q: torch.nn.functional.dropout2d(q.sin(), 0.1),
    "channels dropped in place": lambda torch, q: torch.nn.functional.dropout2d(q.sin(), 0.1, True, True),
    "nothing dropped": lambda torch, q: torch.nn.functional.dropout2d(q.sin(), 0.1, False),
    "alpha dropout": lambda torch, q: torch.nn.functional.alpha_dropout(q.sin(), 0.1, True),
    "random slope": lambda torch, q: torch.nn.functional.rrelu(q.sin(), training=True),
    "three": lambda torch, q: torch.einsum("bhqd,bhkd,bhke->bhqe", q.sin(), q.cos(), q.exp()),
    "three outer": lambda torch, q: torch.einsum("bhqd,bhqe,bhqf->bdef", q.sin(), q.cos(), q.exp()),
    "three with a row": lambda torch, q: torch.einsum("bhqd,h,bhqe->bde", q.sin(), q.cos().sum((0, 2, 3)), q.exp()),
    "four": lambda torch, q: torch.einsum("bhqd,bhkd,bhke,bhfe->bhqf", q.sin(), q.cos(), q.exp(), q.tanh()),
}


def _compared(body: Body, between: Body | None = None) -> tuple[int, int]:
    """Bytes that a small network keeps here, and in PyTorch."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = torch.nn.Linear(8, 32, bias=False), torch.nn.Linear(8, 8, bias=False)

        def forward(self, x: Any) -> Any:
            q = self.into(x).unflatten(-1, (4, 8)).transpose(1, 2).contiguous()
            return body(torch, q) if between is None else body(torch, self.out(between(torch, q)))

    torch.manual_seed(0)
    net, given = Net(), torch.randn(2, 12, 8)
    return kept_here(exported(net, given)[1]), kept_by_torch(net, given)


@pytest.mark.parametrize("name", FORMS)
def test_forms_beside_torch(name: str) -> None:
    ours, theirs = _compared(FORMS[name])
    assert ours == theirs


@pytest.mark.parametrize("name", ["part", "swapped", "middle", "whole"])
def test_linear_layers_of_parts_beside_torch(name: str) -> None:
    """A head, a head with words first, two heads of four, a sentence, which needs no copy."""
    part: Body = {
        "part": lambda torch, q: q.sin()[:, 0],
        "swapped": lambda torch, q: q.sin()[:, 0].transpose(0, 1),
        "middle": lambda torch, q: q.sin()[:, 1:3],
        "whole": lambda torch, q: q.sin()[0],
    }[name]
    ours, theirs = _compared(lambda torch, made: made.exp(), part)
    assert ours == theirs


@pytest.mark.parametrize("name", ["dropout", "causal dropout", "shared heads", "three dimensions", "learned mask"])
def test_attention_that_torch_does_not_fuse_keeps_what_the_page_says(name: str) -> None:
    """Here queries, keys, values, result and four bytes a row; there scaled queries and keys, values, probabilities;
    with dropout its noise and what is left of them too. By hand: 2 · 4 heads, 12 words, 8 numbers."""

    def body(torch: Any, q: Any) -> Any:
        call, k, v = torch.nn.functional.scaled_dot_product_attention, q * 2, q.sin()
        if name == "three dimensions":
            return call(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1))
        if name == "shared heads":
            return call(q, k[:, :2] * 2, v[:, 2:].cos(), dropout_p=0.1, enable_gqa=True)
        if name == "learned mask":
            return call(q, k, v, attn_mask=k @ v.transpose(-1, -2))
        return call(q, k, v, dropout_p=0.1, is_causal="causal" in name)

    tensor, few, pairs = 4 * 2 * 4 * 12 * 8, 4 * 2 * 2 * 12 * 8, 4 * 2 * 4 * 12 * 12
    ours, theirs = _compared(body)
    dropped = 3 if "dropout" in name or name == "shared heads" else 1
    # queries stay, as sin reads them; fused, keys, result and rows; not fused, scaled queries and keys, probabilities
    fused, unfused = 2 * tensor + 4 * 2 * 4 * 12, 2 * tensor + dropped * pairs
    if name == "shared heads":  # keys and values of two heads are repeated
        fused, unfused = fused - tensor + few + few, unfused + tensor
    if name == "learned mask":  # keys are read by the mask as well, which is kept as it is where attention is fused
        fused += pairs - tensor
    assert theirs - ours == unfused - fused


def _loss(name: str) -> Callable[[Any, Any, Any], Any]:
    return {
        "classes": lambda f, q, y: f.cross_entropy(q, y),
        "classes in half precision": lambda f, q, y: f.cross_entropy(q.bfloat16(), y),
        "classes of words but the last": lambda f, q, y: f.cross_entropy(q[:-2], y[2:].clone()),
        "probabilities": lambda f, q, y: f.cross_entropy(q, q.detach().softmax(-1)),
        "logarithms": lambda f, q, y: f.nll_loss(q.log_softmax(-1), y),
        "squares": lambda f, q, y: f.mse_loss(q.sin(), q.detach()),
        "amounts": lambda f, q, y: f.l1_loss(q.sin(), q.cos()),
        "smooth": lambda f, q, y: f.smooth_l1_loss(q.sin(), q.cos()),
        "huber": lambda f, q, y: f.huber_loss(q.sin(), q.cos()),
        "divergence": lambda f, q, y: f.kl_div(q.log_softmax(-1), q.detach().softmax(-1), reduction="batchmean"),
        "logits": lambda f, q, y: f.binary_cross_entropy_with_logits(q, q.detach().sigmoid()),
        "shares": lambda f, q, y: f.binary_cross_entropy(q.sigmoid(), q.detach().sigmoid()),
    }[name]


LOSSES = ["classes", "classes in half precision", "classes of words but the last", "probabilities", "logarithms"]
LOSSES += ["squares", "amounts", "smooth", "huber", "divergence", "logits", "shares"]


@pytest.mark.parametrize("name", LOSSES)
def test_losses_beside_torch(name: str) -> None:
    """Logits aren't kept by a loss of classes, but their logarithms; its targets are an input here."""
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    memory = pytest.importorskip("benchmarks.training_memory")
    body = _loss(name)

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.into = torch.nn.Linear(8, 10, bias=False)

        def forward(self, x: Any, y: Any) -> Any:
            return body(torch.nn.functional, self.into(x), y)

    net, inputs = Net(), {"x": torch.randn(12, 8), "y": torch.arange(12) % 10}
    graph = import_exported(torch.export.export(net, (), inputs), "net", decompose=False).graph
    assert kept_here(graph) == memory.torch_holds(net, inputs).saved


@pytest.mark.parametrize("both", [False, True])
def test_a_plain_recurrent_layer_beside_torch(both: bool) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.into, self.cell = torch.nn.Linear(8, 8), torch.nn.RNN(8, 16, bidirectional=both)

        def forward(self, x: Any) -> Any:
            return self.cell(self.into(x))[0]

    net, given = Net(), torch.randn(6, 2, 8)
    assert kept_here(exported(net, given)[1]) == kept_by_torch(net, given)


def test_what_a_constant_is_divided_by_is_kept() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.into = torch.nn.Linear(8, 10, bias=False)
            self.register_buffer("ones", torch.ones(12, 10))

        def forward(self, x: Any) -> Any:
            q = self.into(x)
            return self.ones / q.exp2().add(1) + q.sin() / self.ones + torch.addcmul(q.cos(), q.tanh(), self.ones)

    net, given = Net(), torch.randn(12, 8)
    assert kept_here(exported(net, given)[1]) == kept_by_torch(net, given)


def test_an_einsum_with_two_weights_keeps_what_it_multiplies() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.into = torch.nn.Linear(8, 10, bias=False)
            self.down, self.up = (torch.nn.Parameter(torch.randn(*size)) for size in ((10, 6), (6, 7)))

        def forward(self, x: Any) -> Any:
            return torch.einsum("ab,bc,cd->ad", self.into(x).sin(), self.down, self.up)

    net, given = Net(), torch.randn(12, 8)
    assert kept_here(exported(net, given)[1]) == kept_by_torch(net, given)


def test_a_part_times_a_computed_matrix_keeps_the_copy_alone() -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")

    class Net(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.into = torch.nn.Linear(8, 10, bias=False)

        def forward(self, x: Any) -> Any:
            q = self.into(x)
            return q.sin().view(3, 4, 10)[:, 1:3] @ (q.cos()[:10] * 2)

    net, given = Net(), torch.randn(12, 8)
    assert kept_here(exported(net, given)[1]) == kept_by_torch(net, given)
