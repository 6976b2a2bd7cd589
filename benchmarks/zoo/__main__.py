"""The zoo: 13 current networks, each exported plain, decomposed and as ONNX, and what chipmap's importers say of them.

    python -m benchmarks.zoo export [NAME ...] --out DIR [--size small]     needs the extra `zoo`
    python -m benchmarks.zoo measure DIR [NAME ...] [--markdown FILE]       needs chipmap and onnx
    python -m benchmarks.zoo memory DIR/llama2-7b-plain.pt2                  needs chipmap alone

``export`` writes the files (graphs without weights; nothing is downloaded) and ``expected.json``, which holds what
PyTorch says of each: FLOP by its own counter, parameters, names of nodes. ``measure`` converts each file in a fresh
process, compares, and solves it. ``memory`` converts an archive with weights of real size. ``export llama2-7b`` writes
one for it. The commands may run in different environments.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path


def export(arguments: argparse.Namespace) -> None:
    """Write the files of all networks, or of those that are named."""
    import logging

    for noisy in ("torch.onnx", "onnxscript", "onnx_ir", "transformers"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    from benchmarks.zoo.exports import FORMS, file_name, write
    from benchmarks.zoo.networks import LARGE, NETWORKS

    folder = arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    facts_file = folder / "expected.json"
    asked = [network for network in (*NETWORKS, LARGE) if network.name in arguments.names] or NETWORKS
    for network in asked:
        for form in arguments.form or (FORMS if network is not LARGE else FORMS[:1]):
            started = time.perf_counter()
            said = write(network, arguments.size == "real", form, folder)
            facts = json.loads(facts_file.read_text()) if facts_file.exists() else {}
            facts[file_name(network.name, form)] = {"about": network.about, **said}
            facts_file.write_text(json.dumps(facts, indent=0, sort_keys=True) + "\n")
            print(f"{network.name} {form}: {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)


def measure(arguments: argparse.Namespace) -> None:
    """Convert, compare and solve the files of a folder."""
    from benchmarks.zoo.measure import run

    run(arguments.folder, arguments.names, arguments.time_limit, arguments.markdown)


def memory(arguments: argparse.Namespace) -> None:
    """Convert an archive without and with weights."""
    from benchmarks.zoo.memory import run

    run(arguments.file)


def main() -> None:
    """Run the sub-command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    sub = commands.add_parser("export", help="write the files of the networks")
    sub.add_argument("--out", type=Path, required=True, metavar="DIR")
    sub.add_argument("--size", choices=("real", "small"), default="real")
    sub.add_argument("--form", choices=("plain", "decomposed", "onnx"), action="append")
    sub.add_argument("names", nargs="*", metavar="NAME")
    sub.set_defaults(run=export)
    sub = commands.add_parser("measure", help="convert, compare and solve them")
    sub.add_argument("folder", type=Path, metavar="DIR")
    sub.add_argument("--time-limit", type=float, default=10.0, metavar="SECONDS")
    sub.add_argument("--markdown", type=Path, metavar="FILE")
    sub.add_argument("names", nargs="*", metavar="NAME")
    sub.set_defaults(run=measure)
    sub = commands.add_parser("memory", help="peak memory of a conversion, without and with weights")
    sub.add_argument("file", type=Path, metavar="FILE")
    sub.set_defaults(run=memory)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
