"""Formats of graphs and of tables for :mod:`benchmarks.fuzz`: a sample of each, and what reads it as commands do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.fuzz_formats import Format
from chipmap.inputs.reading import read
from chipmap.instances.multimodel.cost_files import COLUMNS, CYCLES, ENERGY, LAYER, NETWORK, cost_files, overlay
from chipmap.instances.multimodel.modules import system as module_of
from chipmap.instances.placement.calibrate import fit, measured
from chipmap.instances.placement.presets import system as system_of
from chipmap.instances.ring.from_graph import from_graph
from chipmap.networks.importers.dimensions import symbols, value_of
from chipmap.networks.importers.reading import import_graph
from chipmap.records import Source
from tests.instances.programs import ONNX_CONTROL
from tests.instances.samples import SAMPLES

LAYERS = {"one": ["conv0", "conv1"], "two": ["fc0"]}
KINDS = ("nvdla", "shi")
OWN = "\n".join(
    [",".join(COLUMNS), *(f"{m},{layer},{kind},120,45" for m in LAYERS for layer in LAYERS[m] for kind in KINDS), ""]
)
MAESTRO = f"""{NETWORK},{LAYER},{CYCLES},{ENERGY},x
one,conv0,120.0,4.5,1
one,conv1,1e3,2,1
two,fc0,77,0.25,1
"""
EXPRESSIONS = "8*s0\ns0//2\nMax(1, s0) + Min(s1, 7)\nMul(Integer(8), Symbol('s0', positive=True))\nPow(s0, 2)\n"


def graph(sample: bytes) -> Callable[[Path], Format]:
    """A format of graphs, found by its content; an instance is made of what is read."""

    def work(_: int, data: bytes) -> None:
        from_graph(import_graph("mutated.file", data), "mutated").graph.check()

    return lambda folder: Format([sample], work)


def edges(folder: Path) -> Format:
    """A table of edges beside one of nodes."""
    table = b"source,target,bytes\na,b,4KiB\nb,c,16\n# end\n"

    def work(_: int, data: bytes) -> None:
        nodes = Source("x.nodes.csv", b"name,flop,bytes\na,1e6,1\nb,2e6,1\nc,3e6,1\n")
        nodes.beside = Source("x.edges.csv", data)
        import_graph("x.nodes.csv", source=nodes)

    return Format([table], work)


def file_of(text: str, suffix: str, work: Callable[[str], object]) -> Callable[[Path], Format]:
    """A format whose reader takes a path."""

    def made(folder: Path) -> Format:
        path = folder / f"mutated.{suffix}"

        def read_file(_: int, data: bytes) -> None:
            path.write_bytes(data)
            work(str(path))

        return Format([text.encode()], read_file)

    return made


def _costs(options: str) -> Callable[[str], object]:
    return lambda path: overlay(cost_files([path + options])[1], LAYERS, KINDS)


def _systems(kind: str) -> str:
    instance = read("multimodel/tiny-two" if kind == "module" else "placement/tiny-duplex")
    return getattr(instance, kind).to_json().decode()  # type: ignore[no-any-return]


def expressions(folder: Path) -> Format:
    """Sizes as PyTorch's files write them, a line each."""

    def work(_: int, data: bytes) -> None:
        for line in data.decode(errors="replace").split("\n")[:50]:
            symbols(line)
            value_of(line, {"s0": (6,), "s1": (10**12,)})

    return Format([EXPRESSIONS.encode()], work)


FORMATS: dict[str, Callable[[Path], Format]] = {
    **{name: graph(sample) for name, sample in SAMPLES.items()},
    "onnx-control": graph(ONNX_CONTROL),
    "edges": edges,
    "costs": file_of(OWN, "csv", _costs("")),
    "maestro": file_of(MAESTRO, "csv", _costs(",class=nvdla,mhz=500")),
    "module": file_of(_systems("module"), "json", module_of),
    "system": file_of(_systems("system"), "json", system_of),
    "calibrate": file_of(
        "bytes,ns\n1024,1500\n1048576,52000\n2e6,1e5\n", "csv", lambda path: fit(measured(path), path)
    ),
    "expression": expressions,
}
