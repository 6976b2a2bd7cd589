"""A toy family with two objectives: the longest job's time, or the energy of all. It shows what ``in_force`` does.

A job runs fast or slowly. C1 (a limit on the energy) and T1 matter where the objective is ``time``, T2 where it is
``energy``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from chipmap.family import Family, get_family


@dataclass(frozen=True)
class Toy:
    """One instance: the jobs' lengths, and what counts."""

    objective: str
    jobs: tuple[int, ...] = (1, 2)


FAMILY: Family = replace(
    get_family("ring"),
    name="toy",
    check=f"{__name__}:check",
    constraints={"C0": "domain", "C1": "limit (of the energy)"},
    terms={"T1": "time", "T2": "energy"},
    oracle="",
    in_force=f"{__name__}:in_force",
)
PAGE = """
- **C0 domain** ...
- **C1 limit** ...

C1 and T1 are in force with the objective `time`, T2 with `energy`.
"""
#: A model that says nothing of energy.
MODEL = """
BY_DOMAIN = ("C0",)
def c1_limit(): ...
def t1_time(): ...
def build(): state(c1_limit, state(t1_time))
"""


def in_force(instance: Toy) -> frozenset[str]:
    """The labels that matter, by objective."""
    return frozenset({"C0", "T2"} if instance.objective == "energy" else {"C0", "C1", "T1"})


def check(instance: Toy, solution: tuple[bool, ...]) -> tuple[list[str], dict[str, int]]:
    """(violated labels, terms) of a choice of the jobs that run fast."""
    broken, terms = {"C0": list(c0_domain(instance, solution))}, dict[str, int]()
    if instance.objective == "time":
        broken["C1"] = list(c1_limit(instance, solution))
        terms["T1"] = t1_time(instance, solution)
    else:
        terms["T2"] = t2_energy(instance, solution)
    return [label for label, findings in broken.items() if findings], terms


def c0_domain(instance: Toy, solution: tuple[bool, ...]) -> Iterator[str]:
    """Every job has a speed."""
    yield from ["jobs"] if len(solution) != len(instance.jobs) else []


def c1_limit(instance: Toy, solution: tuple[bool, ...]) -> Iterator[str]:
    """At most one job runs fast."""
    yield from ["jobs"] if sum(solution) > 1 else []


def t1_time(instance: Toy, solution: tuple[bool, ...]) -> int:
    """The longest job's time."""
    return max(job * (1 if fast else 2) for job, fast in zip(instance.jobs, solution, strict=True))


def t2_energy(instance: Toy, solution: tuple[bool, ...]) -> int:
    """The energy of all jobs."""
    return sum(job * (3 if fast else 1) for job, fast in zip(instance.jobs, solution, strict=True))
