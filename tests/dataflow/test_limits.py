"""Limits while problems are set up and searched: the clock is looked at, and a bound and a mapping stand early.

The clock here is a count of looks, so that nothing depends on the machine.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chipmap.deadline import Deadline, Stop, StopReason
from chipmap.heuristics.dataflow.program.label_setting import NO_LIMIT
from chipmap.heuristics.dataflow.stages.program import StageProgram
from chipmap.heuristics.dataflow.stages.within_dram import WithinDram
from chipmap.inputs.reading import read
from chipmap.instances.dataflow import DataflowInstance
from chipmap.instances.dataflow import making as problems
from chipmap.instances.dataflow.floors import first_ticks, lacks_sram, least_sram, plain_floor
from chipmap.instances.dataflow.generators import llama
from chipmap.instances.dataflow.making import dataflow_problem
from chipmap.instances.dataflow.plans import allowed_degrees, settled, useful_plans
from chipmap.methods.dataflow.cases import Choices, has_no_room
from chipmap.methods.dataflow.chain import auto
from chipmap.run import Run, SolveOptions
from chipmap.validation.dataflow.checker import check


def looks(most: int) -> tuple[Deadline, Callable[[], int]]:
    """A deadline that is over after so many looks at it, and how many there were."""
    seen = [0]

    def ended() -> StopReason | None:
        seen[0] += 1
        return "time" if seen[0] > most else None

    return Deadline(ended=ended), lambda: seen[0]


def many_choices() -> DataflowInstance:
    """A layer of Llama in both directions on 4 x 4 x 2 chips, with everything that can be chosen left open."""
    made = llama(
        model="llama3-8b",
        sizes=[4, 4, 2],
        batch=64,
        micro_batch=None,
        step="forward",
        backward=True,
        purpose="training",
        recompute=None,
        schedule="interleaved",
        dram_bytes=80 * 10**9,
        sram_bytes=10**12,
        fused=False,
    )
    assert isinstance(made, DataflowInstance)
    return made


def test_choices_are_stated_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first case of all is found without stating every choice, and no bound is above it."""
    stated = [0]
    plain = problems.all_options

    def counted(*given: object) -> object:
        stated[0] += 1
        return plain(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(problems, "all_options", counted)
    instance = many_choices()
    whole = [(d, plan) for d in allowed_degrees(instance) for plan in useful_plans(instance, d)]
    choices = Choices(instance)
    assert len(choices) == len(whole) > 250 and not stated[0]
    first = next(iter(choices))
    assert 0 < stated[0] < len(whole) / 2
    fitting = [one for d, plan in whole if not has_no_room(one := dataflow_problem(instance, d, *plan))]
    assert first.bound == min(map(first_ticks, fitting))
    assert all(plain_floor(instance, d, plan) <= first_ticks(dataflow_problem(instance, d, *plan)) for d, plan in whole)


def test_stating_a_choice_looks_at_the_clock() -> None:
    """Each option that is made is a look: the set-up ends at once, wherever the time runs out."""
    instance = many_choices()
    for most in (0, 7, 40, 200):
        deadline, seen = looks(most)
        with deadline.heeded(), pytest.raises(Stop):
            list(Choices(instance))
        assert seen() == most + 1


def test_a_bound_and_a_mapping_stand_when_the_time_is_over() -> None:
    """However early the run ends: a bound from the start on, soon a mapping, and both better the longer it may take."""
    bounds, objectives = list[int](), list[int]()
    for most in (300, 2_000, 12_000):
        instance = many_choices()
        deadline, _ = looks(most)
        run = Run(instance, SolveOptions(threads=1), check, outer=deadline)
        assert auto(instance, run).reason in ("no_solution_found", "feasible")
        assert run.lower is not None
        bounds.append(run.lower.value)
        objectives.append(run.upper or 2**62)
    assert bounds == sorted(bounds) and objectives == sorted(objectives, reverse=True)
    assert objectives[-1] < 2**62 and bounds[-1] <= objectives[-1]


@pytest.mark.parametrize("kind", [StageProgram, WithinDram])
def test_compiled_loops_of_stages_end_with_the_time(kind: type[StageProgram]) -> None:
    """A deadline that is over takes the loop's allowance of work away."""
    instance = read("dataflow/resnet50-8")
    assert isinstance(instance, DataflowInstance)
    memory = instance.system.memory.replace(capacity_bytes=12 * 10**6)
    instance = instance.replace(system=instance.system.replace(memory=memory))
    degrees = next(one for one in allowed_degrees(instance) if one.pipeline == 8)
    program = kind(dataflow_problem(instance, degrees), instance.mapped_layers)
    deadline, _ = looks(3)
    with pytest.raises(Stop):
        program.divide(None, False, True, NO_LIMIT, deadline)


def test_numbers_are_the_same_whichever_plan_comes_first() -> None:
    """What plans share is kept by what decides it: each problem is that of the plan by itself."""
    instance, other = many_choices(), many_choices()
    whole = [(d, plan) for d in allowed_degrees(instance) for plan in useful_plans(instance, d)][::17]
    for degrees, plan in reversed(whole):
        dataflow_problem(instance, degrees, *plan)
    for degrees, plan in whole:
        alone = settled(other, *plan)
        alone.__dict__.pop("_shared", None)
        mine, own = dataflow_problem(instance, degrees, *plan), dataflow_problem(alone, degrees)
        assert mine.options == own.options and (mine.behind, mine.filled) == (own.behind, own.filled)


def test_a_kernel_that_fits_nowhere_is_no_choice() -> None:
    """A byte of SRAM less than the largest kernel needs: no case is stated, and the message names the kernel."""
    instance = read("dataflow/table6-free-8x1")
    assert isinstance(instance, DataflowInstance)
    (degrees,) = allowed_degrees(instance)
    needs = least_sram(dataflow_problem(instance, degrees))
    for size, lacks in ((max(needs), False), (max(needs) - 1, True)):
        chip = instance.system.chip.replace(sram_bytes=size)
        less = instance.replace(system=instance.system.replace(chip=chip))
        assert lacks_sram(dataflow_problem(less, degrees)) is lacks
        assert bool(list(Choices(less))) is not lacks
        if lacks:
            run = Run(less, SolveOptions(threads=1), check)
            auto(less, run)
            (reason,) = run.infeasibility
            assert reason.label == "C2" and "kernel 'FFN0'" in reason.message
