"""Grammars of runtimes' plans, stated again from their documentation (nothing of chipmap is used here).

Sources: Megatron-LM's user guide, "Custom Pipeline Model Parallel Layout", and the help texts of its options; vLLM's
documentation of its environment variables and engine arguments; torchtitan's ``config/job_config.py``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path
from random import Random


def layout(text: str) -> list[list[str]]:
    """The stages of a layout string: recursive descent.

    layout = part*; part = unit ["*" number]; unit = "(" symbol-with-number* ")" | symbol; symbol = E, t, m, L or "|".
    """
    left = list(text.replace(",", ""))

    def count() -> int:
        if left[:1] != ["*"]:
            return 1
        left.pop(0)
        digits = ""
        while left and left[0].isdigit():
            digits += left.pop(0)
        return int(digits)

    def unit(nested: bool) -> list[str]:
        symbol = left.pop(0)
        if symbol == "(" and not nested:
            inside: list[str] = []
            while left[0] != ")":
                inside += unit(nested=True)
            left.pop(0)
            return inside * count()
        if symbol not in "EtmL|":
            raise ValueError(symbol)
        return [symbol] * count()

    flat: list[str] = []
    while left:
        flat += unit(nested=False)
    stages: list[list[str]] = [[]]
    for symbol in flat:
        if symbol == "|":
            stages.append([])
        else:
            stages[-1].append(symbol)
    return stages


def random_layout(rng: Random) -> str:
    """A layout in the words of the guide, with repeated symbols and parts, commas and empty stages."""
    parts = ["E"]
    for _ in range(rng.randint(0, 5)):
        inner = "".join(rng.choice(["t", "t*2", "|", "tt", ","]) for _ in range(rng.randint(1, 4)))
        parts.append(rng.choice(["t", f"t*{rng.randint(1, 12)}", "|", f"({inner}|)*{rng.randint(1, 4)}", ",", "||"]))
    if rng.random() < 0.3:
        parts.append(rng.choice(["m", "|m", "m*2,"]))
    return "".join([*parts, rng.choice(["L", "|L", "||L"])])


def megatron() -> argparse.ArgumentParser:
    """Megatron-LM's options of parallelism, batches and recomputation, by their help texts."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("tensor-model", "pipeline-model", "expert-model"):
        parser.add_argument(f"--{name}-parallel-size", type=int, default=1)
    parser.add_argument("--context-parallel-size", type=int, default=1)
    parser.add_argument("--expert-tensor-parallel-size", type=int)
    parser.add_argument("--pipeline-model-parallel-layout")
    for name in ("num-layers", "micro-batch-size", "global-batch-size", "recompute-num-layers"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--recompute-granularity", choices=["full", "selective"])
    parser.add_argument("--recompute-method", choices=["uniform", "block"])
    parser.add_argument("--sequence-parallel", action="store_true")
    parser.add_argument("--use-distributed-optimizer", action="store_true")
    parser.add_argument("--use-megatron-fsdp", action="store_true")
    strategies = ["no_shard", "optim", "optim_grads", "optim_grads_params"]
    parser.add_argument("--data-parallel-sharding-strategy", choices=strategies, default="no_shard")
    return parser


def megatron_stages(asked: argparse.Namespace) -> list[list[str]]:
    """The chunks, in the network's order: rank r of P has chunks r, r + P, ..."""
    stages = asked.pipeline_model_parallel_size
    if asked.pipeline_model_parallel_layout is None:
        assert asked.num_layers % stages == 0
        return [["t"] * (asked.num_layers // stages) for _ in range(stages)]
    chunks = layout(asked.pipeline_model_parallel_layout)
    flat = [symbol for chunk in chunks for symbol in chunk]
    assert len(chunks) % stages == 0
    assert flat[0] == "E" and flat[-1] == "L" and flat.count("E") == flat.count("L") == 1
    assert flat.count("t") == asked.num_layers
    return chunks


def vllm() -> argparse.ArgumentParser:
    """The engine arguments of parallelism."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("model")
    parser.add_argument("--tensor-parallel-size", "-tp", type=int, default=1)
    parser.add_argument("--pipeline-parallel-size", "-pp", type=int, default=1)
    parser.add_argument("--data-parallel-size", "-dp", type=int, default=1)
    parser.add_argument("--enable-expert-parallel", action="store_true")
    parser.add_argument("--max-num-seqs", type=int)
    return parser


def vllm_layers(partition: str | None, layers: int, stages: int) -> list[int]:
    """The layers of each stage: those of the variable, or equal ones, what is left over on the later ones but the
    last."""
    if partition is not None:
        assert re.fullmatch(r"\d+(,\d+)*", partition)
        each = [int(one) for one in partition.split(",")]
        assert len(each) == stages and sum(each) == layers
        return each
    each = [layers // stages] * stages
    for over in range(layers % stages):
        each[stages - 2 - over] += 1
    return each


def sourced(file: Path) -> list[str]:
    """The words of ``PLAN_ARGS`` of a shell's file, as bash reads it."""
    script = f'source "{file}"; printf "%s\\0" "${{PLAN_ARGS[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.split("\0")[:-1]


def served(file: Path, model: str) -> tuple[list[str], str]:
    """The words that a shell's file starts vLLM with, and its variable; ``vllm`` is a script that prints both."""
    fake = file.parent / "vllm"
    fake.write_text('#!/bin/sh\nprintf "%s\\0" "$VLLM_PP_LAYER_PARTITION" "$@"\n')
    fake.chmod(0o755)
    environment = {"PATH": f"{file.parent}:/usr/bin:/bin"}
    command = ["sh", str(file), model]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30, env=environment)
    partition, *words = done.stdout.split("\0")[:-1]
    return words, partition
