"""The formats of plans, each of which the families' records name where they have it."""

from __future__ import annotations

from chipmap.family import PlanFormat

TABLE = PlanFormat(
    "csv",
    "a table: a line per operation (kernel, segment) with its place",
    "plan.csv",
    emit="chipmap.plans.table:emit",
    suits="chipmap.plans.table:suits",
    adopt="chipmap.plans.table:adopt",
    recognise="chipmap.plans.table:recognise",
)
DEVICE_MAP = PlanFormat(
    "device-map",
    "accelerate's and transformers' device_map: module -> device",
    "device_map.json",
    emit="chipmap.plans.device_map.format:emit",
    suits="chipmap.plans.device_map.format:suits",
    adopt="chipmap.plans.device_map.format:adopt",
    recognise="chipmap.plans.device_map.format:recognise",
)
TORCH_PIPELINE = PlanFormat(
    "torch-pipeline",
    "stages of torch.distributed.pipelining, and a script that runs them",
    "stages.json, run.py, cutting.py",
    emit="chipmap.plans.torch_pipeline.format:emit",
    suits="chipmap.plans.torch_pipeline.format:suits",
    adopt="chipmap.plans.torch_pipeline.format:adopt",
    recognise="chipmap.plans.torch_pipeline.format:recognise",
    model=True,
    inside=True,
)
ONNX = PlanFormat(
    "onnx",
    "an ONNX model whose nodes say their devices, a model per chip, and a script that runs these",
    "model.onnx, stages.json, run.py, a model and its data per chip",
    emit="chipmap.plans.onnx.format:emit",
    suits="chipmap.plans.onnx.format:suits",
    adopt="chipmap.plans.onnx.format:adopt",
    recognise="chipmap.plans.onnx.format:recognise",
    model=True,
    inside=True,
    package="onnx",
    extra="onnx",
)
CHROME_TRACE = PlanFormat(
    "chrome-trace",
    "the mapping in time, for Perfetto and chrome://tracing: tracks, transfers, memory",
    "trace.json",
    emit="chipmap.plans.chrome_trace.format:emit",
    suits="chipmap.plans.chrome_trace.format:suits",
    inside=True,
)

SOLVER = PlanFormat(
    "solver",
    "a solver's solution of a model that `chipmap export` wrote",
    "model.sol, response.pbtxt",
    adopt="chipmap.plans.solver_values:adopt",
    recognise="chipmap.plans.solver_values:recognise",
)


def _layers(name: str, title: str, file: str) -> PlanFormat:
    emit, suits, adopt, recognise = (
        f"chipmap.plans.layers.{name}:{one}" for one in ("emit", "suits", "adopt", "recognise")
    )
    return PlanFormat(name, title, file, emit, suits, adopt, recognise, inside=True)


MEGATRON = _layers(
    "megatron", "options of Megatron-LM: layout of the layers, degrees, how a batch is run", "megatron.sh"
)
VLLM = _layers("vllm", "a script that starts vLLM with the layers of each stage, and degrees", "vllm.sh")
TORCHTITAN = _layers(
    "torchtitan", "the modules of each part of the network, as torchtitan lists them", "torchtitan.toml"
)
#: Plans of layers: of graphs, and of degrees.
OF_GRAPHS, OF_DEGREES = (MEGATRON, VLLM, TORCHTITAN), (MEGATRON, VLLM)
JAX = PlanFormat(
    "jax",
    "a layer as a program of JAX's shard_map with its collectives, and layouts of parameters",
    "layer.py",
    emit="chipmap.plans.jax.format:emit",
    suits="chipmap.plans.jax.format:suits",
    adopt="chipmap.plans.jax.format:adopt",
    recognise="chipmap.plans.jax.format:recognise",
    inside=True,
)
