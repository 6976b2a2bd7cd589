"""Transformers that read images as kernels: the vision transformer and the diffusion transformer."""

from __future__ import annotations

from typing import Literal, NamedTuple

from chipmap.instances.dataflow.workload import Workload
from chipmap.instances.dataflow.workloads.backward import add_backward
from chipmap.instances.dataflow.workloads.layer import LAYER_NORM, SOFTMAX, Count, Layer, Repeats, WordBytes
from chipmap.instances.dataflow.workloads.llama import Extras, Llama, attention, feed_forward, refuse_backward
from chipmap.records import InputError


class Vision(NamedTuple):
    """The sizes of a transformer on patches: hidden, heads, rows of the FFN, layers, side of a patch, channels of the
    image, and what the last product makes of a token (classes, of one token alone, or numbers of a patch)."""

    hidden: int
    heads: int
    ffn: int
    layers: int
    patch: int
    channels: int
    outputs: int


#: Dosovitskiy et al., *An Image is Worth 16x16 Words* (2021), table 1.
VIT = {
    "vit-b16": Vision(768, 12, 3072, 12, 16, 3, 1000),
    "vit-l16": Vision(1024, 16, 4096, 24, 16, 3, 1000),
    "vit-h14": Vision(1280, 16, 5120, 32, 14, 3, 1000),
}
#: Peebles and Xie, *Scalable Diffusion Models with Transformers* (2023), table 1; latents of four channels, of which
#: noise and its variance are predicted.
DIT = {
    "dit-s2": Vision(384, 6, 1536, 12, 2, 4, 32),
    "dit-b2": Vision(768, 12, 3072, 12, 2, 4, 32),
    "dit-l2": Vision(1024, 16, 4096, 24, 2, 4, 32),
    "dit-xl2": Vision(1152, 16, 4608, 28, 2, 4, 32),
}


def vit_network(
    model: Literal["vit-b16", "vit-l16", "vit-h14"] = "vit-b16",
    image: Count = 224,
    layers: Repeats | None = None,
    step: Literal["forward", "prefill"] = "prefill",
    backward: bool = False,
    ends: bool = False,
    word_bytes: WordBytes = 2,
) -> Workload:
    """Layers of a vision transformer on (image / patch)² patches and a class token, its FFN with GeLU.

    ``ends`` adds the embedding of patches (a product with patch² · 3 weights per hidden number) and the head, which
    ranks 1,000 classes by the class token, an equal part in every layer. ``backward`` adds the backward kernels of a
    forward step. Biases, positions and parameters of norms are left out.
    """
    size = VIT[model]._replace(**({} if layers is None else {"layers": layers}))
    patches = _patches(image, size.patch)
    layer = Layer(patches + 1)
    extras = Extras(statistics=LAYER_NORM)
    llama = Llama(size.hidden, size.heads, size.heads, size.ffn, size.layers)
    attention(layer, llama, 0, word_bytes, extras=extras)
    feed_forward(layer, size.hidden, size.ffn, gated=False, extras=extras)
    return _workload(layer, model, size, step, backward, (patches, 1) if ends else None, word_bytes)


def dit_network(
    model: Literal["dit-s2", "dit-b2", "dit-l2", "dit-xl2"] = "dit-xl2",
    image: Count = 256,
    layers: Repeats | None = None,
    step: Literal["forward", "prefill"] = "prefill",
    backward: bool = False,
    ends: bool = False,
    word_bytes: WordBytes = 2,
) -> Workload:
    """Blocks of a diffusion transformer (adaLN-Zero) on the latent of an image, an eighth as wide, in patches of 2 x 2.

    A block makes six vectors of the condition (time and class): ``SiLU_c``, ``Modulation`` (6 · hidden x hidden
    weights, one column). They scale and shift what both norms make, and scale what attention and FFN add
    (``Scale1``, ``Scale2``). ``ends`` adds the embedding of patches and the last product, a part in every layer;
    the embeddings of time and class and the last modulation are left out (0.8 % of parameters, 0.01 % of FLOP).
    """
    if image % 8:
        raise InputError(f"is {image}", "image", "Give a multiple of 8: a latent is an eighth as wide.")
    size = DIT[model]._replace(**({} if layers is None else {"layers": layers}))
    tokens = _patches(image // 8, size.patch)
    layer = Layer(tokens)
    layer.element("SiLU_c", size.hidden, N=1)
    layer.linear("Modulation", 6 * size.hidden, size.hidden, "SiLU_c", N=1)
    llama = Llama(size.hidden, size.heads, size.heads, size.ffn, size.layers)
    extras = Extras(modulated="Modulation", statistics=LAYER_NORM)
    attention(layer, llama, 0, word_bytes, extras=extras)
    feed_forward(layer, size.hidden, size.ffn, gated=False, extras=extras)
    return _workload(layer, model, size, step, backward, (tokens, tokens) if ends else None, word_bytes)


def _patches(image: int, patch: int) -> int:
    if image % patch:
        raise InputError(f"is {image}, not a multiple of the patch's {patch}", "image", "Give a multiple.")
    return int((image // patch) ** 2)


def _workload(
    layer: Layer,
    model: str,
    size: Vision,
    step: str,
    backward: bool,
    ends: tuple[int, int] | None,
    word_bytes: int,
) -> Workload:
    """The layers with what else is asked of them; ``ends`` are the columns of the embedding and of the head."""
    carries: list[tuple[str, str]] = [("Add2", "Add_Prev")]
    if ends is not None:
        layer.linear("Patches", -(-size.hidden // size.layers), size.channels * size.patch**2, N=ends[0])
        layer.edges.append(("Patches", "Add_Prev"))
        layer.linear("Head", -(-size.outputs // size.layers), size.hidden, "Add2", N=ends[1])
        layer.element("Logits", -(-size.outputs // size.layers), "Head", N=ends[1], statistics=SOFTMAX)
    if backward:
        refuse_backward(step)
        carries.append(add_backward(layer, word_bytes))
    return Workload(
        name=f"{model}-{step}",
        kernels=tuple(layer.kernels),
        edges=tuple(layer.edges),
        carries=tuple(carries),
        layers=size.layers,
        word_bytes=word_bytes,
        tokens=layer.tokens,
        counted="images",
    )
