"""Conv-TasNet: speech separation by a learned filter bank and masks from dilated convolutions.

Source: Luo and Mesgarani, *Conv-TasNet*, 2019 (table I; N 512 filters of L 16 samples, B 128, H 512, Sc 128, P 3, X 8
blocks in R 3 repeats, global normalisation).
"""

from __future__ import annotations

from chipmap.networks.generators.builder import Network, Value
from chipmap.networks.generators.parameters import Count, Size, WordBytes
from chipmap.networks.graph import OperationGraph


def conv_tasnet(
    *,
    filters: Size = 512,
    length: Size = 16,
    bottleneck: Size = 128,
    hidden: Size = 512,
    skip: Size = 128,
    kernel: Count = 3,
    blocks: Count = 8,
    repeats: Count = 3,
    speakers: Count = 2,
    samples: Size = 32000,
    batch: Size = 1,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """Encoder, ``blocks`` · ``repeats`` convolutional blocks with residual and skip paths, masks, decoder.

    A block multiplies by bottleneck · hidden + kernel · hidden + hidden · (bottleneck + skip) weights per frame.
    """
    net = Network(f"conv-tasnet-{repeats}x{blocks}", word_bytes, "Luo and Mesgarani 2019, operator by operator")
    wave = net.input("wave", (batch, 1, samples))
    frames = 2 * samples // length - 1
    with net.scope("encoder"):
        weight = net.parameter("weight", filters, 1, length)
        encoded = net.convolution(wave, weight, shape=(batch, filters, frames), stride=length // 2)
    with net.scope("separator"):
        x = _one_by_one(net, _norm(net, encoded, name="norm"), bottleneck, name="bottleneck")
        total: Value | None = None
        for i in range(blocks * repeats):
            with net.scope(f"block.{i}"):
                y = _one_by_one(net, x, hidden, name="in")
                y = _norm(net, _prelu(net, y, name="first"), name="first.norm")
                reads = (net.parameter("depthwise.weight", hidden, 1, kernel), net.parameter("depthwise.bias", hidden))
                y = net.convolution(y, *reads, shape=y.shape, groups=hidden)
                y = _norm(net, _prelu(net, y, name="second"), name="second.norm")
                aside = _one_by_one(net, y, skip, name="skip")
                total = aside if total is None else net.elementwise("add", total, aside)
                if i < blocks * repeats - 1:  # what the last block adds to x isn't read
                    x = net.elementwise("add", x, _one_by_one(net, y, bottleneck, name="residual"))
        assert total is not None
        masks = _one_by_one(net, _prelu(net, total, name="masks"), speakers * filters, name="masks")
        masks = net.view("view", net.elementwise("sigmoid", masks), (batch, speakers, filters, frames))
    masked = net.op("mul", masks, net.view("unsqueeze", encoded, (batch, 1, filters, frames)), shape=masks.shape)
    with net.scope("decoder"):
        flat = net.view("view", masked, (batch * speakers, filters, frames))
        weight = net.parameter("weight", filters, 1, length)
        shape = (batch * speakers, 1, samples)
        return net.graph(net.convolution(flat, weight, shape=shape, stride=length // 2, transposed=True))


def _one_by_one(net: Network, x: Value, channels: int, *, name: str) -> Value:
    with net.scope(name):
        weight, bias = net.parameter("weight", channels, x.shape[1], 1), net.parameter("bias", channels)
        return net.convolution(x, weight, bias, shape=(x.shape[0], channels, x.shape[2]))


def _prelu(net: Network, x: Value, *, name: str) -> Value:
    return net.elementwise("prelu", x, net.parameter(f"{name}.slope", 1))


def _norm(net: Network, x: Value, *, name: str) -> Value:
    """Normalisation over channels and time of a sample; mean and reciprocal deviation are made too."""
    with net.scope(name):
        reads = (x, net.parameter("weight", x.shape[1]), net.parameter("bias", x.shape[1]))
        unread = (((x.shape[0], 1), net.word_bytes),) * 2
        y = net.op("native_group_norm", *reads, shape=x.shape, unread=unread)
        return net.view("getitem", y, x.shape)
