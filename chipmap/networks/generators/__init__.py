"""Generators of networks as operation graphs, at the level of core ATen operators, computed from the architecture.

Each generator is a function of keyword parameters that returns an :class:`~chipmap.networks.graph.OperationGraph`:
the same parameters always give the same graph. How operations are counted is said in
:mod:`chipmap.networks.generators.builder`.
"""

from chipmap.networks.generators.bert import bert_encoder
from chipmap.networks.generators.coat import coat
from chipmap.networks.generators.conv_tasnet import conv_tasnet
from chipmap.networks.generators.decoder import decoder
from chipmap.networks.generators.densenet import densenet
from chipmap.networks.generators.encoder_decoder import t5, whisper
from chipmap.networks.generators.googlenet import googlenet
from chipmap.networks.generators.gpt2 import gpt2
from chipmap.networks.generators.mamba import mamba
from chipmap.networks.generators.mixer import mixer
from chipmap.networks.generators.mobilenet import mobilenet
from chipmap.networks.generators.mspn import mspn
from chipmap.networks.generators.resnet import resnet
from chipmap.networks.generators.rnn import rnn
from chipmap.networks.generators.squeezenet import squeezenet
from chipmap.networks.generators.synthetic import chain, explicit, layered, random_dag
from chipmap.networks.generators.unet import unet
from chipmap.networks.generators.vgg import vgg

__all__ = [
    "bert_encoder",
    "chain",
    "coat",
    "conv_tasnet",
    "decoder",
    "densenet",
    "explicit",
    "googlenet",
    "gpt2",
    "layered",
    "mamba",
    "mixer",
    "mobilenet",
    "mspn",
    "random_dag",
    "resnet",
    "rnn",
    "squeezenet",
    "t5",
    "unet",
    "vgg",
    "whisper",
]
