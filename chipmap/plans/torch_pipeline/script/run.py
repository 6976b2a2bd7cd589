"""Runs an exported program as a pipeline: each process runs the operators that stages.json gives its stage.

    python run.py                            one process per stage on this machine, over gloo on loopback
    torchrun --nproc-per-node N run.py       the same under torchrun, N = the number of stages
    python run.py --list                     what crosses each boundary, without running

It needs PyTorch, ``cutting.py`` and ``stages.json`` beside it, and the program that torch.export.save wrote. Loading
that file unpickles parts of it, and imports the modules of the classes that the program takes and returns: run only
files that you trust.

Each stage holds the parameters that its operators read, under the module's own names. It receives what earlier stages
made, handed on by those between. Inputs of the network go to each stage that reads them. A tensor is sent contiguous,
in the order of its strides, and has its strides back on arrival. A micro-batch has the sizes of the exported example.

The last process compares what comes out with the unsplit program, and prints the largest difference as a line of JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import multiprocessing
import os
import re
import socket
import sys
import time
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

try:
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    from torch.utils._pytree import tree_leaves, tree_unflatten
except ImportError as error:
    sys.exit(f'error: this needs PyTorch ({error}): pip install "chipmap[torch]", or torch 2.13 itself')

from chipmap.plans.torch_pipeline.script.cutting import PlanError, Program, Stage, is_tensor, split

HERE = Path(__file__).resolve().parent


def main() -> int:
    """0 if what comes out is that of the unsplit program, 1 if it isn't or a process failed, 2 for a wrong plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan", type=Path, default=HERE / "stages.json")
    parser.add_argument("--model", type=Path, help="the program's file, where it isn't where the plan says")
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument(
        "--tolerance", type=float, default=1e-5, help="largest difference, as a share of the largest output"
    )
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds after which all processes are ended")
    parser.add_argument("--list", action="store_true", help="say what crosses each boundary, and stop")
    args = parser.parse_args()
    plan = json.loads(args.plan.read_text(encoding="utf-8"))
    try:
        if args.list:
            return listed(loaded(plan, args)[1])
        if "RANK" not in os.environ:
            return spawned(plan, args)
        count, told = int(os.environ["WORLD_SIZE"]), len(plan["stages"])
        if count != told:
            raise PlanError(f"the plan has {told} stages: start {told} processes (torchrun --nproc-per-node {told})")
        return ran(*loaded(plan, args), args)
    except PlanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def spawned(plan: dict[str, Any], args: argparse.Namespace) -> int:
    """Run the stages in processes on loopback; all are ended when one fails or the time is over.

    They are forked when the program is loaded, so that it is there once.
    """
    count, threads = len(plan["stages"]), int(os.environ.get("OMP_NUM_THREADS", "0"))
    torch.set_num_threads(threads or max(1, (os.cpu_count() or 1) // count))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ |= {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    found, until, fork = loaded(plan, args), time.monotonic() + args.timeout, multiprocessing.get_context("fork")
    children = [fork.Process(target=_forked, args=(*found, args, rank)) for rank in range(count)]
    try:
        for child in children:
            child.start()
        while any(child.exitcode is None for child in children) and not any(child.exitcode for child in children):
            if time.monotonic() > until:
                print(f"error: not done after {args.timeout:g} s", file=sys.stderr)
                return 1
            time.sleep(0.02)
        return max(abs(child.exitcode or 0) for child in children)
    finally:
        for child in children:
            if child.exitcode is None:
                child.kill()
            child.join()


def _forked(program: Program, stages: list[Stage], args: argparse.Namespace, rank: int) -> None:
    os.environ["RANK"] = os.environ["LOCAL_RANK"] = str(rank)
    sys.exit(ran(program, stages, args))


def loaded(plan: dict[str, Any], args: argparse.Namespace) -> tuple[Program, list[Stage]]:
    """The program, if it is that of the plan, and its stages."""
    path, digest = args.model or HERE / plan["model"]["file"], hashlib.sha256()
    if not path.is_file():
        raise PlanError(f"there is no file {path}: name the program's file with --model")
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    if digest.hexdigest() != plan["model"]["sha256"]:
        raise PlanError(f"{path} isn't the program of the plan: its SHA-256 is another")
    with zipfile.ZipFile(path) as archive:  # classes that it takes and returns, which their modules make known to torch
        text = b"".join(archive.read(name) for name in archive.namelist() if name.endswith(".json")).decode()
    for name in sorted(set(re.findall(r'\\"type\\": \\"([\w.]+)\.\w+\\"', text))):
        if name.partition(".")[0] not in ("builtins", "collections", "torch"):
            importlib.import_module(name)
    program = Program(torch.export.load(path))
    return program, split(program, [stage["operations"] for stage in plan["stages"]])


def ran(program: Program, stages: list[Stage], args: argparse.Namespace) -> int:
    """Run this process's stage; the last one compares."""
    rank, count = int(os.environ["RANK"]), len(stages)
    stage, batches = stages[rank], micro_batches(program, args.micro_batches)
    if os.environ["MASTER_ADDR"] == "127.0.0.1":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", timeout=timedelta(seconds=args.timeout))
    try:
        arriving = stages[rank - 1].gives if rank else []
        like = [tuple(value for _, value in values) for values in (arriving, stage.gives)]
        device = torch.device("cpu")
        runner = PipelineStage(stage.module, rank, count, device, input_args=like[0], output_args=like[1])
        schedule = ScheduleGPipe(runner, n_microbatches=len(batches))
        given = {name: torch.cat([batch[name] for batch in batches]) for name in stage.inputs}
        with torch.no_grad():
            dist.barrier()
            began = time.perf_counter()
            made = schedule.step(**given)
            seconds = time.perf_counter() - began
            if rank < count - 1:
                return 0
            said: dict[str, Any] = {
                "boundary_bytes": [sum(one.nbytes for _, one in stage.receives) for stage in stages[1:]]
            }
            if any(stage.handed for stage in stages):  # of these, what the network returns and no later stage reads
                said["result_bytes"] = [stage.handed for stage in stages[1:]]
            made = made if isinstance(made, tuple | list) else [made]
            return compared(program, batches, made, said | {"seconds": round(seconds, 4)}, args)
    finally:
        dist.destroy_process_group()


def micro_batches(program: Program, count: int) -> list[dict[str, Any]]:
    """Input -> tensor, for each micro-batch: the program's example inputs, and these rolled along."""
    tensors = [(name, like.detach()) for name, like in program.given if name is not None]
    return [{name: like.flatten().roll(i).reshape(like.shape or (1,)) for name, like in tensors} for i in range(count)]


def compared(program: Program, batches: Any, made: Any, said: dict[str, Any], args: argparse.Namespace) -> int:
    """Compare the outputs of all micro-batches with those of the unsplit program; print it as a line of JSON."""
    whole, worst, largest = program.exported.module(), 0.0, 0.0
    for i, batch in enumerate(batches):
        passed = [like if name is None else batch[name].reshape(like.shape) for name, like in program.given]
        positional, named = tree_unflatten(passed, program.exported.call_spec.in_spec)
        expected = [one for one in tree_leaves(whole(*positional, **named)) if is_tensor(one)]
        for ours, theirs in zip([one.chunk(len(batches))[i] for one in made], expected, strict=True):
            ours, theirs = ours.reshape(theirs.shape).double(), theirs.double()
            differs = ~((ours == theirs) | (ours.isnan() & theirs.isnan()))
            if differs.any():
                worst = max(worst, float((ours - theirs)[differs].abs().nan_to_num(nan=torch.inf).max()))
            if theirs.numel():
                largest = max(largest, float(theirs.abs().nan_to_num().max()))
    equal = worst <= args.tolerance * max(1.0, largest)
    found = {"stages": dist.get_world_size(), "micro_batches": len(batches), "largest_difference": worst}
    print(json.dumps({**found, "largest_output": largest, "equal": equal, **said}), flush=True)
    return 0 if equal else 1


def listed(stages: list[Stage]) -> int:
    """A line of JSON per stage."""
    for s, stage in enumerate(stages):
        arriving = [(name, list(value.shape), value.nbytes) for name, value in stage.receives]
        said = {"stage": s, "operators": stage.operators, "parameter_bytes": stage.parameters, "inputs": stage.inputs}
        print(json.dumps({**said, "receives": arriving, "bytes": sum(size for *_, size in arriving)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
