"""GoogLeNet: modules of four branches side by side whose outputs are concatenated.

Source: Szegedy et al., *Going Deeper with Convolutions*, 2015 (table 1 and figure 2b), without the auxiliary heads,
with a batch norm after each convolution if asked for; pools are padded so that sizes halve.
"""

from __future__ import annotations

from chipmap.networks.generators.builder import INDEX_BYTES, Network, Value
from chipmap.networks.generators.convolution import classifier, max_pool, relu, unit
from chipmap.networks.generators.parameters import Size, WordBytes
from chipmap.networks.graph import OperationGraph

#: Per module: channels of 1 × 1; before and of 3 × 3; before and of 5 × 5; after the pool.
MODULES = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)
#: Modules that a halving pool stands before.
POOLED = (0, 2, 7)


def googlenet(
    *,
    norm: bool = False,
    image: Size = 224,
    batch: Size = 1,
    classes: Size = 1000,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """GoogLeNet on ``image`` × ``image`` pixels."""
    net = Network("googlenet", word_bytes, "Szegedy et al. 2015, exported operator by operator")
    x = _unit(net, net.input("image", (batch, 3, image, image)), 64, 7, norm, "stem.0", stride=2)
    x = _unit(net, max_pool(net, x), 64, 1, norm, "stem.1")
    x = _unit(net, x, 192, 3, norm, "stem.2")
    for i, channels in enumerate(MODULES):
        x = max_pool(net, x) if i in POOLED else x
        with net.scope(f"inception.{i}"):
            x = _inception(net, x, channels, norm)
    return net.graph(classifier(net, x, classes))


def _inception(net: Network, x: Value, channels: tuple[int, ...], norm: bool) -> Value:
    one, before3, three, before5, five, pooled = channels
    pool = net.op("max_pool2d_with_indices", x, shape=x.shape, unread=((x.shape, INDEX_BYTES),))
    branches = (
        _unit(net, x, one, 1, norm, "1"),
        _unit(net, _unit(net, x, before3, 1, norm, "3.before"), three, 3, norm, "3"),
        _unit(net, _unit(net, x, before5, 1, norm, "5.before"), five, 5, norm, "5"),
        _unit(net, net.view("getitem", pool, x.shape), pooled, 1, norm, "pool"),
    )
    return net.op("cat", *branches, shape=(x.shape[0], one + three + five + pooled, *x.shape[2:]), dim=1)


def _unit(net: Network, x: Value, channels: int, kernel: int, norm: bool, name: str, stride: int = 1) -> Value:
    with net.scope(name):
        return relu(net, unit(net, x, channels, kernel, stride, norm=norm))
