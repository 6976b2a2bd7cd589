"""Converted graphs beside the family's own generators of the same networks: kernels, work, bytes and exchanges.

    python -m benchmarks.dataflow_converted export DIR [NAME …]             needs the extra `zoo`
    python -m benchmarks.dataflow_converted measure DIR [--out FILE]        needs chipmap and onnx

``export`` writes two layers of Llama 3.2 1B (512 tokens), two of ViT-B/16 with its embeddings, and ResNet-50, as
transformers has them, without weights: plain, with attention step by step, decomposed, and as ONNX. ``measure``
converts each file and compares it. A generator's layer that stands for all is written out for each layer here, without
``Add_Prev`` (DFModel's name for what the layer before hands on), and with the norm after the last one.

Exit code 1 where a plain, step-by-step or ONNX form differs by more than 2 % in anything that is compared.
"""

from __future__ import annotations

import argparse
import platform
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from chipmap.instances.dataflow.from_graph import from_graph
from chipmap.instances.dataflow.generators import llama, vit
from chipmap.instances.dataflow.instance import DataflowInstance, Degrees
from chipmap.instances.dataflow.sizes import flop, parameter_bytes
from chipmap.instances.dataflow.systems import system
from chipmap.instances.dataflow.workload import Kernel, Scheme, Workload
from chipmap.networks.generators.resnet import resnet
from chipmap.networks.importers.common import ImportedGraph
from chipmap.networks.importers.reading import import_graph
from chipmap.run import SolveOptions
from chipmap.solve import solve

#: Gigabytes per second: links so fast that sharing work out pays.
LINK, MEMORY = 900.0, 2000.0
CHIPS = (4, 8)
#: What is called equal.
NEAR = 0.02
#: Networks with too many kernels for a proof where kernels are fused: on several chips as on one, kernel by kernel.
UNFUSED = ("resnet",)
FORMS = ("plain", "steps", "decomposed", "onnx")


class Figures(NamedTuple):
    """What is compared: kernels by kind; FLOP; bytes of parameters; bytes through DRAM on one chip that doesn't fuse;
    and for each number of chips the bytes of collectives over a link and the ticks of an optimal mapping."""

    kinds: dict[str, int]
    flop: int
    parameters: int
    traffic: float
    moved: tuple[float, ...]
    ticks: tuple[int, ...]


def unrolled(workload: Workload, norm: bool = True) -> Workload:
    """All layers in a row, without ``Add_Prev``; with a ``norm`` after the last one, in one kernel with its sum."""

    def maker(layer: int, name: str) -> str | None:
        if name != "Add_Prev":
            return f"{layer}.{name}"
        return f"{layer - 1}.Add2" if layer else None

    kernels: list[Kernel] = []
    edges: list[tuple[str, str]] = []
    for layer in range(workload.layers):
        kernels += [k.replace(name=f"{layer}.{k.name}") for k in workload.kernels if k.name != "Add_Prev"]
        pairs = ((maker(layer, u), maker(layer, v)) for u, v in workload.edges if v != "Add_Prev")
        edges += [(u, v) for u, v in pairs if u is not None and v is not None]
    if norm:
        last = f"{workload.layers - 1}.Add2"
        kernels = [k.replace(name="Norm", flop_per_element=2) if k.name == last else k for k in kernels]
        edges = [(u, "Norm" if v == last else v) for u, v in edges]
    return workload.replace(kernels=kernels, edges=edges, carries=(), layers=1)


def fused_attention(workload: Workload) -> Workload:
    """Both products of attention and the softmax between them as one kernel, as a source has them that calls it so."""
    kept = [k for k in workload.kernels if k.name not in ("MHA1", "Softmax")]
    kernels = [k.replace(K=2 * k.K) if k.name == "MHA2" else k for k in kept]
    names = {"MHA1": "MHA2", "Softmax": "MHA2"}
    edges = dict.fromkeys((names.get(u, u), names.get(v, v)) for u, v in workload.edges)
    return workload.replace(kernels=kernels, edges=[(u, v) for u, v in edges if u != v])


def also_whole(workload: Workload) -> Workload:
    """Every kernel may run whole on each chip as well, as kernels of converted graphs may, and norms do only that."""

    def schemes(kernel: Kernel) -> tuple[Scheme, ...]:
        if "Norm" in kernel.name:
            return ("NONE",)
        if kernel.kind == "elementwise":
            return ("OUTER", "NONE") if kernel.outer > 1 else ("M", "NONE")
        if kernel.outer > 1:
            return ("OUTER", "NONE")
        return ("M", "K", "K_RS", "NONE") if kernel.weights else ("M", "NONE")

    return workload.replace(kernels=[k.replace(schemes=schemes(k)) for k in workload.kernels])


def llama_reference(fused: bool, **sizes: Any) -> DataflowInstance:
    """The layers of a Llama with rotations, as :func:`unrolled` writes them."""
    instance = llama(**{"model": "", "step": "prefill", "rotary": True, **sizes})
    workload = fused_attention(instance.workload) if fused else instance.workload
    return instance.replace(workload=also_whole(unrolled(workload)))


def vit_reference(fused: bool, **sizes: Any) -> DataflowInstance:
    """The layers of a ViT behind the embedding of its patches, to which positions and the class token are added."""
    instance = vit(**sizes)
    workload = fused_attention(instance.workload) if fused else instance.workload
    made = unrolled(workload)
    hidden, tokens = workload.kernels[0].M, workload.tokens
    patch = Kernel(name="Patches", kind="gemm", weights=True, M=hidden, K=3 * 16 * 16, N=tokens - 1)
    stored = workload.word_bytes * hidden * (tokens + 1)
    place = Kernel(name="Positions", kind="elementwise", M=hidden, N=tokens, weight_bytes=stored, flop_per_element=2)
    first = [("Patches", "Positions"), ("Positions", "0.Norm1"), ("Positions", "0.Add1")]
    made = made.replace(kernels=[patch, place, *made.kernels], edges=[*first, *made.edges])
    return instance.replace(workload=also_whole(made))


def resnet_reference(word_bytes: int, indices: bool) -> DataflowInstance:
    """ResNet-50 by the generator of its operators, converted as a file is; unless ``indices``, without those that its
    decomposed pooling makes and nothing reads."""
    graph = resnet(word_bytes=word_bytes)
    if not indices:
        graph = graph.replace(tensors=[tensor for tensor in graph.tensors if tensor.readers or tensor.output])
    return from_graph(ImportedGraph(graph, None, "network"), "resnet50")


def reference(network: str, form: str) -> DataflowInstance:
    """What a file is compared with."""
    fused = form == "plain"
    if network == "llama":
        sizes = {"hidden": 2048, "heads": 32, "kv_heads": 8, "ffn": 8192}
        return llama_reference(fused, **sizes, layers=2, tokens=512)
    return (
        vit_reference(fused, layers=2, word_bytes=4) if network == "vit" else resnet_reference(4, form == "decomposed")
    )


def on_chips(instance: DataflowInstance, chips: int, fused: bool = True) -> DataflowInstance:
    """On so many SN10 in a ring, all of which share a layer; what a chip computes, reads and sends adds up, so that
    every exchange counts and not the longest of the three alone."""
    degrees = Degrees(tensor=chips, dimensions=("tensor",))
    task = instance.task.replace(degrees=degrees, purpose="prefill", batch=1, micro_batch=1, overlap=False, fused=fused)
    return instance.replace(system=system("sn10", (chips,), memory_gbps=MEMORY, link_gbps=LINK), task=task)


def solved(instance: DataflowInstance) -> tuple[int, dict[str, int]]:
    """Objective and terms, by the checker, of an optimal mapping."""
    result = solve(instance, None, SolveOptions.make(warm_start="none", time_limit=120.0))
    if result.status != "optimal" or result.objective is None or result.certificate is None:
        raise SystemExit(f"{instance.name}: {result.status}")
    return result.objective, result.certificate.terms


def figures(instance: DataflowInstance, fused: bool) -> Figures:
    """All that is compared, with several chips that fuse kernels or don't."""
    kernels = instance.workload.kernels
    alone = solved(on_chips(instance, 1, fused=False))[1]
    shared = [solved(on_chips(instance, chips, fused)) for chips in CHIPS]
    return Figures(
        kinds=dict(Counter(kernel.kind for kernel in kernels)),
        flop=sum(map(flop, kernels)),
        parameters=int(sum(parameter_bytes(kernel, instance) for kernel in kernels)),
        traffic=alone["T2"] * MEMORY / 1000,
        moved=tuple(terms["T3"] * LINK / 1000 for _, terms in shared),
        ticks=tuple(ticks for ticks, _ in shared),
    )


def ratios(ours: Figures, theirs: Figures) -> list[float]:
    """What is compared, converted over generated: FLOP, parameters, traffic, then moved bytes and ticks by chips."""
    pairs = [(ours.flop, theirs.flop), (ours.parameters, theirs.parameters), (ours.traffic, theirs.traffic)]
    pairs += [*zip(ours.moved, theirs.moved, strict=True), *zip(ours.ticks, theirs.ticks, strict=True)]
    return [a / b if b else 1.0 if a == 0 else float("inf") for a, b in pairs]


def _kinds(found: dict[str, int]) -> str:
    return " + ".join(str(found.get(kind, 0)) for kind in ("gemm", "elementwise", "opaque"))


def row(network: str, form: str, path: Path) -> tuple[str, bool]:
    """A line of the table, and whether all is near."""
    graph = import_graph(str(path))
    fused = network not in UNFUSED
    converted, generated = (figures(one, fused) for one in (from_graph(graph, path.name), reference(network, form)))
    plain = from_graph(graph, path.name, fuse=False)
    before = solved(on_chips(plain, 1, fused=False))[1]["T2"] * MEMORY / 1000
    each = ratios(converted, generated)
    cells = [f"{network}, {form}", str(len(plain.workload.kernels)), _kinds(converted.kinds), _kinds(generated.kinds)]
    cells += [f"{before / generated.traffic:.3f}", *(f"{one:.4f}" for one in each)]
    return f"| {' | '.join(cells)} |", all(abs(one - 1) <= NEAR for one in each)


HEAD = f"""# Converted graphs beside the generators of the same networks

Made by `python -m benchmarks.dataflow_converted export` and `measure`; Python {platform.python_version()}. Two layers
of Llama 3.2 1B (512 tokens, two-byte words), two of ViT-B/16 with its embeddings, and ResNet-50 (four-byte words), as
transformers has them: *plain*, with attention in *steps*, *decomposed* to core ATen, and as *onnx*.

- *Kernels*: gemm + element-wise + opaque ones; *unfused* is how many there are where each operation makes one.
- All other columns are converted over generated. *Traffic*: bytes through DRAM on one chip where each kernel is a
  partition; *unfused* again with a kernel per operation. *Collectives*: bytes over a link in a mapping that is optimal
  on 4 and 8 chips (SN10 in a ring, links of {LINK:.0f} GB/s, DRAM of {MEMORY:,.0f} GB/s; compute, memory and network
  one after the other); *time*: its objective. All optima are proved.
- Generated layers are written out without `Add_Prev`, with rotations and the last norm (and the sum that it alone
  reads). Kernels may run whole as well, and norms do, as norms of converted graphs mix what they would be split along.
  A plain form has attention as one kernel, and so has what it is compared with.
- Decomposed forms differ: they copy keys and values for all heads, in four-byte words, and hold a tensor of zeros as
  large as the scores. They are no way to convert attention.
- The ONNX model of ViT adds biases, and scales queries and keys, in operations behind the products: a product takes
  those with it that do nothing else than scale and shift what it makes by constants.
- ResNet-50 has more kernels than the program over ideals proves in two minutes: *collectives* and *time* are those of
  chips that don't fuse. ONNX has its batch norms folded into the weights. The generator writes it as a decomposed
  export does, whose pooling makes indices that nothing reads; other forms are compared with it without these.

| network, form | unfused | kernels | generated | traffic unfused | FLOP | parameters | traffic | collectives, 4 | 8 | \
time, 4 | 8 |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""


def measure(folder: Path, out: Path | None) -> int:
    """Convert, compare and write the table; the exit code."""
    lines, wrong = [], []
    for network in ("llama", "vit", "resnet"):
        for form in FORMS:
            path = folder / f"{network}-{form}.{'onnx' if form == 'onnx' else 'pt2'}"
            if path.exists():
                line, near = row(network, form, path)
                print(line, file=sys.stderr, flush=True)
                lines.append(line)
                wrong += [path.name] * (not near and form != "decomposed")
    text = HEAD + "\n".join(lines) + "\n"
    if out is None:
        print(text)
    else:
        out.write_text(text, encoding="utf-8")
    print(f"more than {NEAR:.0%} apart: {', '.join(wrong) or 'none'}", file=sys.stderr)
    return bool(wrong)


def export(folder: Path, names: list[str]) -> None:
    """Write the files of the networks with these names; of all without any."""
    import torch
    import transformers
    from torch import nn

    from benchmarks.zoo.exports import write
    from benchmarks.zoo.networks import Network

    class Hidden(nn.Module):
        """Layers from embedded tokens to the last norm."""

        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, inputs_embeds: torch.Tensor) -> Any:
            return self.model(inputs_embeds=inputs_embeds, use_cache=False).last_hidden_state

    def llama_module(real: bool, more: dict[str, Any]) -> nn.Module:
        sizes: dict[str, Any] = {
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_hidden_layers": 2,
            "vocab_size": 32,
        }
        sizes |= {"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64}
        return Hidden(transformers.LlamaModel(transformers.LlamaConfig(**sizes, **more))).to(torch.bfloat16)

    def vit_module(real: bool, more: dict[str, Any]) -> nn.Module:
        config = transformers.ViTConfig(num_hidden_layers=2, **more)
        made: nn.Module = transformers.ViTModel(config, add_pooling_layer=False)
        return made

    def resnet_module(real: bool, more: dict[str, Any]) -> nn.Module:
        made: nn.Module = transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=1000))
        return made

    image = {"pixel_values": torch.zeros((1, 3, 224, 224))}
    tokens = {"inputs_embeds": torch.zeros((1, 512, 2048), dtype=torch.bfloat16)}
    folder.mkdir(parents=True, exist_ok=True)
    made = (("llama", llama_module, tokens), ("vit", vit_module, image), ("resnet", resnet_module, image))
    eager = {"attn_implementation": "eager"}
    for name, module, inputs in (each for each in made if not names or each[0] in names):
        network = Network(name, "", module, lambda _, inputs=inputs: inputs, {} if name == "resnet" else eager)  # type: ignore[misc]
        for form in ("plain", "decomposed", "onnx"):
            write(network, True, form, folder)
        if name != "resnet":
            steps = Network(f"{name}-steps", "", lambda real, _, m=module: m(real, eager), network.inputs)  # type: ignore[misc]
            write(steps, True, "plain", folder)
            (folder / f"{name}-steps-plain.pt2").rename(folder / f"{name}-steps.pt2")


def main() -> int:
    """Run the sub-command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    sub = commands.add_parser("export", help="write the files")
    sub.add_argument("folder", type=Path, metavar="DIR")
    sub.add_argument("names", nargs="*", metavar="NAME")
    sub = commands.add_parser("measure", help="convert them and compare")
    sub.add_argument("folder", type=Path, metavar="DIR")
    sub.add_argument("--out", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    if arguments.command == "export":
        export(arguments.folder, arguments.names)
        return 0
    return measure(arguments.folder, arguments.out)


if __name__ == "__main__":
    sys.exit(main())
