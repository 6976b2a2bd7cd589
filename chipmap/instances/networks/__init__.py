"""Generators of networks as operation graphs, at the level of core ATen operators, computed from the architecture.

Each generator is a function of keyword parameters that returns an :class:`~chipmap.instances.graph.OperationGraph`:
the same parameters always give the same graph. How operations are counted is said in
:mod:`chipmap.instances.networks.builder`.
"""

from chipmap.instances.networks.bert import bert_encoder
from chipmap.instances.networks.resnet import resnet

__all__ = ["bert_encoder", "resnet"]
