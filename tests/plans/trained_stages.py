"""Stages of an exported program in training, over gloo on loopback: ``python -m tests.plans.trained_stages FILE``.

FILE is JSON: ``program`` (a file of torch.export), ``stages`` (the operators of each), ``schedule`` and ``batches``.
The loss of a micro-batch is the sum of all outputs times fixed numbers. A line of JSON comes out: the largest
difference to the unsplit program's gradients as a share of the largest one, parameters with a gradient in the one run
alone, and for each stage the bytes that ``saved_tensors_hooks`` sees of each micro-batch (without parameters, buffers
and the network's inputs) and the most micro-batches between their forward and their backward pass.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from chipmap.plans.torch_pipeline.script.cutting import Program, shared, split

SCHEDULES = {"1f1b": Schedule1F1B, "gpipe": ScheduleGPipe}


def micro_batches(program: Program, count: int) -> list[dict[str, Any]]:
    """The program's example inputs, and these rolled along."""
    given = [(name, one) for name, one in program.given if name is not None]
    return [{name: one.flatten().roll(i).reshape(one.shape) for name, one in given} for i in range(count)]


def loss(made: Any, factors: Any) -> Any:
    """The sum of the outputs, each number times its factor."""
    return ((made[0] if isinstance(made, tuple | list) else made) * factors).sum()


def watched(stage: Any, module: Any, inputs: set[int]) -> tuple[list[int], list[int]]:
    """Note what forward passes of a stage keep, and how many micro-batches are under way (now, most)."""
    kept, under_way, forward, backward = list[int](), [0, 0], stage.forward_one_chunk, stage.backward_one_chunk
    outside = {one.untyped_storage().data_ptr() for one in (*module.parameters(), *module.buffers())} | inputs

    def ahead(*args: Any, **named: Any) -> Any:
        tensors = list[Any]()

        def pack(tensor: Any) -> Any:
            tensors.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            made = forward(*args, **named)
        storages = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}
        kept.append(sum(size for at, size in storages.items() if at not in outside))
        under_way[0] += 1
        under_way[1] = max(under_way)
        return made

    def back(*args: Any, **named: Any) -> Any:
        made = backward(*args, **named)
        under_way[0] -= 1
        return made

    stage.forward_one_chunk, stage.backward_one_chunk = ahead, back
    return kept, under_way


def trained(rank: int, stages: list[Any], batches: Any, factors: Any, schedule: str, results: Any) -> None:
    """One stage's process: a step, with gradients of copies summed."""
    dist.init_process_group("gloo", rank=rank, world_size=len(stages))
    module, last = stages[rank].module, rank == len(stages) - 1
    copies = [(where, dist.new_group(list(where))) for where in shared(stages)]
    stage = PipelineStage(module, rank, len(stages), torch.device("cpu"))
    given = {name: torch.cat([batch[name] for batch in batches]) for name in stages[rank].inputs}
    kept, under_way = watched(stage, module, {one.untyped_storage().data_ptr() for one in given.values()})
    more = {"target": torch.cat(factors)} if last else {}
    SCHEDULES[schedule](stage, len(batches), loss_fn=loss).step(**given, **more)
    for where, group in copies:
        if rank in where:
            copy = module.get_parameter(where[rank])
            copy.grad = torch.zeros_like(copy) if copy.grad is None else copy.grad
            dist.all_reduce(copy.grad, group=group)
    gradients = {name: one.grad for name, one in module.named_parameters()}
    torch.save((gradients, kept, under_way[1]), f"{results}/{rank}")
    dist.barrier()
    dist.destroy_process_group()


def main(path: Path) -> None:
    """Train the stages and the unsplit program, and compare."""
    asked = json.loads(path.read_text(encoding="utf-8"))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    program = Program(torch.export.load(asked["program"]))
    stages, batches = split(program, asked["stages"]), micro_batches(program, asked["batches"])
    whole = program.exported.module()
    made = [whole(*batch.values()) for batch in batches]
    factors = [torch.randn_like(one) for one in made]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    fork = multiprocessing.get_context("fork")
    common = (stages, batches, factors, asked["schedule"], path.parent)
    children = [fork.Process(target=trained, args=(rank, *common)) for rank in range(len(stages))]
    for child in children:
        child.start()
    for child in children:
        child.join()
    if any(child.exitcode for child in children):
        sys.exit("a stage failed")
    found = [torch.load(path.parent / str(rank)) for rank in range(len(stages))]
    for one, numbers in zip(made, factors, strict=True):
        (loss(one, numbers) / len(batches)).backward()
    expected = {name: one.grad for name, one in whole.named_parameters(remove_duplicate=False)}
    worst, alone = 0.0, list[str]()
    for gradients, *_ in found:
        for name, ours in gradients.items():
            theirs = expected[name]
            if ours is None or theirs is None:
                alone += [name] * ((ours is None) != (theirs is None))
                continue
            worst = max(worst, float((ours - theirs).abs().max() / theirs.abs().max()))
    trained_names = {name for gradients, *_ in found for name in gradients}
    told = {"worst": worst, "alone": alone, "copies": len(shared(stages)), "parameters": sorted(trained_names)}
    print(json.dumps(told | {"kept": [kept for _, kept, _ in found], "under_way": [most for *_, most in found]}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
