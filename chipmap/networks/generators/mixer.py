"""MLP-Mixer: linear layers along the patches and along the channels of a picture in turn, without attention.

Source: Tolstikhin et al., *MLP-Mixer: An all-MLP Architecture for Vision*, 2021 (figure 1 and table 1).
"""

from __future__ import annotations

from chipmap.networks.generators.builder import Network, Value
from chipmap.networks.generators.parameters import Count, Size, WordBytes, require_divisible
from chipmap.networks.generators.transformer import layer_norm, linear
from chipmap.networks.graph import OperationGraph


def mixer(
    *,
    layers: Count = 12,
    hidden: Size = 768,
    patch: Size = 16,
    image: Size = 224,
    batch: Size = 1,
    classes: Size = 1000,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """``layers`` layers on (``image`` / ``patch``)² patches of ``hidden`` channels.

    The linear layers along the patches are ``hidden`` / 2 wide, those along the channels 4 · ``hidden``.
    """
    require_divisible("image", image, "patch", patch)
    net = Network(f"mixer-{layers}x{hidden}", word_bytes, "Tolstikhin et al. 2021, exported operator by operator")
    side = image // patch
    weight = net.parameter("stem.weight", hidden, 3, patch, patch)
    reads = (net.input("image", (batch, 3, image, image)), weight, net.parameter("stem.bias", hidden))
    x = net.convolution(*reads, shape=(batch, hidden, side, side), stride=patch)
    x = net.permute(net.view("view", x, (batch, hidden, side * side)), 0, 2, 1)
    for i in range(layers):
        with net.scope(f"layer.{i}"):
            y = net.permute(layer_norm(net, x, name="norm.patches"), 0, 2, 1)
            x = net.elementwise("add", x, net.permute(_mlp(net, y, max(1, hidden // 2), "patches"), 0, 2, 1))
            y = _mlp(net, layer_norm(net, x, name="norm.channels"), 4 * hidden, "channels")
            x = net.elementwise("add", x, y)
    x = net.op("mean", layer_norm(net, x, name="norm"), shape=(batch, hidden), dim=[1])
    return net.graph(linear(net, x, classes, name="classifier"))


def _mlp(net: Network, x: Value, width: int, name: str) -> Value:
    with net.scope(name):
        return linear(net, net.elementwise("gelu", linear(net, x, width, name="1")), x.shape[-1], name="2")
