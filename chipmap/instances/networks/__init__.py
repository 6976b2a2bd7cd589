"""Generators of networks as operation graphs, at the level of core ATen operators, computed from the architecture.

Each generator is a function of keyword parameters that returns an :class:`~chipmap.instances.graph.OperationGraph`:
the same parameters always give the same graph. How operations are counted is said in
:mod:`chipmap.instances.networks.builder`.
"""

from chipmap.instances.networks.bert import bert_encoder
from chipmap.instances.networks.coat import coat
from chipmap.instances.networks.conv_tasnet import conv_tasnet
from chipmap.instances.networks.decoder import decoder
from chipmap.instances.networks.densenet import densenet
from chipmap.instances.networks.encoder_decoder import t5, whisper
from chipmap.instances.networks.googlenet import googlenet
from chipmap.instances.networks.gpt2 import gpt2
from chipmap.instances.networks.mamba import mamba
from chipmap.instances.networks.mixer import mixer
from chipmap.instances.networks.mobilenet import mobilenet
from chipmap.instances.networks.mspn import mspn
from chipmap.instances.networks.resnet import resnet
from chipmap.instances.networks.rnn import rnn
from chipmap.instances.networks.squeezenet import squeezenet
from chipmap.instances.networks.synthetic import chain, explicit, layered, random_dag
from chipmap.instances.networks.unet import unet
from chipmap.instances.networks.vgg import vgg

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
