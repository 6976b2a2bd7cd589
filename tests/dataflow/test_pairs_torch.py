"""The order of passes in `dualpipe-v`, judged by PyTorch's own schedule."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.dataflow.pairs_run import Pass, Stage

torch: Any = pytest.importorskip("torch", reason="needs the extra torch")
schedules: Any = pytest.importorskip("torch.distributed.pipelining.schedules", reason="needs the extra torch")


def stages_of(rank: int, ranks: int) -> list[Any]:
    """What the schedule asks of a rank's two stages: its place in the network, and the same from behind."""
    group: dict[str, Any] = {"group": None, "group_size": ranks, "group_rank": rank, "num_stages": 2 * ranks}
    group |= {"device": "cpu", "submod": torch.nn.Identity(), "has_backward": False}
    return [
        SimpleNamespace(stage_index=at, is_first=at == 0, is_last=at == 2 * ranks - 1, **group)
        for at in (rank, 2 * ranks - 1 - rank)
    ]


def passes(action: Any, ranks: int) -> tuple[Pass, ...]:
    """The pass of an action, or both of a pair."""
    if action.sub_actions:
        return tuple(one for some in action.sub_actions for one in passes(some, ranks))
    kinds = schedules._ComputationType
    named = {kinds.FORWARD: "F", kinds.BACKWARD_INPUT: "B", kinds.BACKWARD_WEIGHT: "W", kinds.FULL_BACKWARD: "BW"}
    return ((named[action.computation_type], int(action.stage_index >= ranks), action.microbatch_index),)


@pytest.mark.parametrize(("ranks", "rounds"), [(2, 4), (2, 9), (3, 6), (4, 8), (4, 13), (5, 10), (8, 20)])
def test_every_rank_runs_the_page_s_order(ranks: int, rounds: int) -> None:
    """Of every rank the same passes and the same pairs, one after the other."""
    made = schedules.ScheduleDualPipeV(stages_of(0, ranks), rounds, loss_fn=lambda *_: 0)
    for rank in range(ranks):
        found = [passes(one, ranks) for one in made.pipeline_order[rank] if one is not None]
        assert found == Stage(ranks, rounds, rank).order
