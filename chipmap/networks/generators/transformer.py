"""The parts of transformer networks, as core ATen operators (eager attention, dropout kept as a copy)."""

from __future__ import annotations

from chipmap.networks.generators.builder import BOOL_BYTES, INDEX_BYTES, Network, Value
from chipmap.networks.generators.parameters import require, require_divisible


def require_shape(hidden: int, heads: int, sequence: int, max_positions: int) -> None:
    """:class:`InputError` unless ``heads`` divides ``hidden`` and the table of positions is long enough."""
    require_divisible("hidden", hidden, "heads", heads)
    remedy = "Shorten the sequence or enlarge the table of positions."
    what = f"is {sequence}, more than max_positions = {max_positions}"
    require(sequence <= max_positions, what, "sequence", remedy)


def linear(net: Network, x: Value, features: int, *, name: str) -> Value:
    """x · Wᵀ + b for x [..., k]: the weight is transposed, the batch dimensions are flattened around one addmm."""
    with net.scope(name):
        weight = net.parameter("weight", features, x.shape[-1])
        bias = net.parameter("bias", features)
        return flat_product(net, x, net.permute(weight, 1, 0), bias)


def flat_product(net: Network, x: Value, weight: Value, bias: Value | None = None) -> Value:
    """x [..., k] · weight [k, n] (+ bias) as one product of matrices, with a view before and after if x isn't one."""
    kind = "mm" if bias is None else "addmm"
    if len(x.shape) == 2:
        return net.product(kind, x, weight, bias)
    rows = x.elements // x.shape[-1]
    y = net.product(kind, net.view("view", x, (rows, x.shape[-1])), weight, bias)
    return net.view("view", y, (*x.shape[:-1], weight.shape[-1]))


def layer_norm(net: Network, x: Value, *, name: str) -> Value:
    """Normalisation over the last dimension; mean and reciprocal deviation are made too and nothing reads them."""
    with net.scope(name):
        reads = (x, net.parameter("weight", x.shape[-1]), net.parameter("bias", x.shape[-1]))
        rows = (*x.shape[:-1], 1)
        unread = ((rows, net.word_bytes),) * 2
        y = net.op("native_layer_norm", *reads, shape=x.shape, unread=unread, normalized_shape=[x.shape[-1]])
        return net.view("getitem", y, x.shape)


def embedding(net: Network, ids: Value, table: Value) -> Value:
    """The rows of ``table`` [n, k] that ``ids`` names."""
    return net.op("embedding", table, ids, shape=(*ids.shape, table.shape[-1]))


def split_heads(net: Network, x: Value, heads: int) -> Value:
    """[b, s, k] as [b, heads, s, k / heads]."""
    batch, sequence, width = x.shape
    apart = net.view("view", x, (batch, sequence, heads, width // heads))
    return net.permute(apart, 0, 2, 1, 3)


def projection(net: Network, x: Value, features: int, *, bias: bool = False, name: str) -> Value:
    """x · Wᵀ for x [..., k], with a bias if there is one."""
    if bias:
        return linear(net, x, features, name=name)
    with net.scope(name):
        return flat_product(net, x, net.permute(net.parameter("weight", features, x.shape[-1]), 1, 0))


def rms_norm(net: Network, x: Value, *, name: str) -> Value:
    """x / √(mean of x² + ε) · weight over the last dimension, operator by operator."""
    with net.scope(name):
        mean = net.op("mean", net.elementwise("pow", x), shape=(*x.shape[:-1], 1), dim=[-1], keepdim=True)
        factor = net.elementwise("rsqrt", net.elementwise("add", mean))
        return net.elementwise("mul", net.elementwise("mul", x, factor), net.parameter("weight", x.shape[-1]))


def head(net: Network, x: Value, table: Value, kind: str) -> Value:
    """The language-model head: a product with the word ``table`` (``shared``) or with weights of its ``own``; ``none``:
    ``x`` as it is."""
    if kind == "none":
        return x
    with net.scope("head"):
        weight = table if kind == "shared" else net.parameter("weight", *table.shape)
        return flat_product(net, x, net.permute(weight, 1, 0))


def attention(
    net: Network,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    *,
    scaled: bool = True,
    dropout: bool = True,
) -> Value:
    """softmax(query · keyᵀ · scale + mask) · value for operands [b, h, s, d]; the result is [b, s, h · d].

    ``dropout``: as in an export whose dropout stays as a copy. Not ``scaled``: T5 has its scale in the weights.
    """
    batch, heads, sequence, width = query.shape
    scores = batched(net, query, net.permute(key, 0, 1, 3, 2))
    if scaled:
        scores = net.elementwise("mul", scores)
    if mask is not None:
        scores = net.elementwise("add", scores, mask)
    weights = net.elementwise("_softmax", scores, dim=-1)
    if dropout:
        weights = net.elementwise("clone", weights)
    mixed = batched(net, weights, value)
    packed = net.elementwise("clone", net.permute(mixed, 0, 2, 1, 3))
    return net.view("view", packed, (batch, sequence, heads * width))


def batched(net: Network, a: Value, b: Value) -> Value:
    """a [b, h, m, k] · b [b, h, k, n] as one batched product, with the views around it."""
    flat = []
    for x in (a, b):
        wide = net.view("expand", x, x.shape)
        flat.append(net.view("view", wide, (x.shape[0] * x.shape[1], *x.shape[2:])))
    y = net.product("bmm", flat[0], flat[1])
    return net.view("view", y, (*a.shape[:-1], b.shape[-1]))


def positions(net: Network, sequence: int) -> Value:
    """0, 1, …, sequence - 1, shifted by the length of an (empty) cache."""
    counted = net.op("arange", shape=(sequence,), word_bytes=INDEX_BYTES)
    return net.op("add", counted, shape=(sequence,), word_bytes=INDEX_BYTES)


def along(net: Network, ids: Value, axis: int) -> Value:
    """Positions [s] as [1, 1, s, 1] (axis 2) or [1, 1, 1, s] (axis 3), one view per dimension."""
    (length,) = ids.shape
    last = (1, 1, length, 1) if axis == 2 else (1, 1, 1, length)
    for shape in ((1, length), (1, 1, length), last):
        ids = net.view("unsqueeze", ids, shape)
    return ids


def additive_mask(net: Network, allowed: Value, batch: int, sequence: int) -> Value:
    """0 where ``allowed`` is true and the least number elsewhere: [b, 1, s, s]."""
    wide = net.view("expand", allowed, (batch, 1, sequence, sequence))
    zero = net.op("full", shape=())
    least = net.op("scalar_tensor", shape=())
    return net.op("where", wide, zero, least, shape=wide.shape)


def causal_mask(net: Network, batch: int, sequence: int) -> Value:
    """0 where a token may see another and the least number elsewhere: [b, 1, s, s]."""
    with net.scope("mask"):
        rows, columns = along(net, positions(net, sequence), 2), along(net, positions(net, sequence), 3)
        allowed = net.op("le", columns, rows, shape=(1, 1, sequence, sequence), word_bytes=BOOL_BYTES)
        return additive_mask(net, allowed, batch, sequence)
