"""The order of passes in `1f1b` and `interleaved`, judged by PyTorch's own schedules."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.dataflow.test_schedules import Pass, order

pytest.importorskip("torch", reason="needs the extra torch")
schedules: Any = pytest.importorskip("torch.distributed.pipelining.schedules", reason="needs the extra torch")


def ordered(actions: list[Any], stages: int) -> list[Pass]:
    """(forward?, chunk, micro-batch) of a rank's passes, without steps in which it waits or adds up gradients."""
    forward = schedules._ComputationType.FORWARD
    done = [one for one in actions if one is not None and one.microbatch_index is not None]
    passes = [(one.computation_type == forward, one.stage_index // stages, one.microbatch_index) for one in done]
    first = min(i for ahead, _, i in passes if ahead)  # the last rank of 1F1B counts forward passes from 1
    return [(ahead, chunk, i - first if ahead else i) for ahead, chunk, i in passes]


def stage(rank: int, stages: int, chunk: int, chunks: int) -> Any:
    """What the schedules ask of a stage."""
    place = {"stage_index": chunk * stages + rank, "num_stages": stages * chunks, "device": "cpu"}
    group = {"group": None, "group_size": stages, "group_rank": rank}
    return SimpleNamespace(**place, **group, is_first=place["stage_index"] == 0, is_last=False, has_backward=False)


@pytest.mark.parametrize(("stages", "rounds"), [(2, 2), (2, 5), (4, 4), (4, 9), (4, 16), (5, 7)])
def test_one_forward_one_backward(stages: int, rounds: int) -> None:
    """Of every rank, with as many micro-batches as stages or more."""
    made = schedules.Schedule1F1B(stage(0, stages, 0, 1), rounds, loss_fn=lambda *_: 0)
    found = made._get_pipeline_order()
    for s in range(stages):
        assert ordered(found[s], stages) == order(stages, 1, rounds, s, 1)


@pytest.mark.parametrize(
    ("stages", "chunks", "rounds"), [(2, 2, 2), (2, 2, 4), (4, 2, 8), (4, 3, 12), (3, 4, 6), (2, 3, 8)]
)
def test_chunks_in_turn(stages: int, chunks: int, rounds: int) -> None:
    own = [stage(0, stages, chunk, chunks) for chunk in range(chunks)]
    found = schedules.ScheduleInterleaved1F1B(own, rounds, loss_fn=lambda *_: 0).pipeline_order
    for s in range(stages):
        assert ordered(found[s], stages) == order(stages, chunks, rounds, s)
