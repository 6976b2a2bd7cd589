"""MSPN: a multi-stage pose network, each stage a ResNet-50 body that goes down and a pyramid that comes up again.

Source: Li et al., *Rethinking on Multi-Stage Networks for Human Pose Estimation*, 2019 (sections 3.1 and 3.2).
"""

from __future__ import annotations

from chipmap.networks.generators.builder import Network, Value
from chipmap.networks.generators.convolution import max_pool, relu, unit
from chipmap.networks.generators.parameters import Count, Size, WordBytes
from chipmap.networks.generators.resnet import STAGES, bottleneck
from chipmap.networks.graph import OperationGraph


def mspn(
    *,
    stages: Count = 2,
    height: Size = 256,
    width: Size = 192,
    channels: Size = 256,
    joints: Count = 17,
    batch: Size = 1,
    word_bytes: WordBytes = 2,
) -> OperationGraph:
    """``stages`` stages on an image; every level of each makes heatmaps of the ``joints``, all of which are outputs.

    A stage passes on its last level (a 1 × 1 convolution to 64 channels) and two features per level, which the next
    stage adds to its own on the way down.
    """
    net = Network(f"mspn-{stages}x50", word_bytes, "Li et al. 2019, operator by operator")
    with net.scope("stem"):
        x = unit(net, net.input("image", (batch, 3, height, width)), 64, 7, 2)
        x = max_pool(net, relu(net, x))
    heatmaps: list[Value] = []
    kept: list[list[Value]] = [[], [], [], []]
    for stage in range(stages):
        with net.scope(f"stage.{stage}"):
            down = _down(net, x, kept)
            last = stage == stages - 1
            up: Value | None = None
            kept = [[], [], [], []]
            for level in reversed(range(4)):
                with net.scope(f"up.{level}"):
                    feature = down[level]
                    y = unit(net, feature, channels, 1, name="_lateral")
                    if up is not None:
                        y = net.elementwise("add", y, unit(net, _resized(net, up, y), channels, 1, name="_up"))
                    up = relu(net, y)
                    if not last:
                        wide = feature.shape[1]
                        kept[level] = [
                            relu(net, unit(net, part, wide, 1, name=name))
                            for part, name in ((feature, "_skip1"), (up, "_skip2"))
                        ]
                with net.scope(f"head.{3 - level}"):
                    y = relu(net, unit(net, up, channels, 1, name="1"))
                    y = unit(net, y, joints, 3, name="2")
                    heatmaps.append(_resized(net, y, down[0]))
            if not last and up is not None:
                with net.scope("cross"):
                    x = relu(net, unit(net, up, 64, 1))
    return net.graph(*heatmaps)


def _down(net: Network, x: Value, kept: list[list[Value]]) -> list[Value]:
    """The four levels of a ResNet-50 body, each with what the stage before ``kept`` for it."""
    levels = []
    for level, blocks in enumerate(STAGES[50]):
        for i in range(blocks):
            with net.scope(f"down.{level}.block.{i}"):
                x = bottleneck(net, x, 64 * 2**level, 2 if level and not i else 1)
        for skip in kept[level]:
            x = net.elementwise("add", x, skip)
        levels.append(x)
    return levels


def _resized(net: Network, x: Value, like: Value) -> Value:
    """``x`` on the places of ``like``, interpolated."""
    return net.op("upsample_bilinear2d", x, shape=(*x.shape[:2], *like.shape[2:]))
