"""The record that ties family ``toy`` together."""

from __future__ import annotations

from chipmap.family import Family, Formulation, Generator, Method

FAMILY = Family(
    name="toy",
    title="tasks on two machines",
    schema="toy/1",
    instance="chipmap.instances.toy.instance:ToyInstance",
    solution="chipmap.instances.toy.instance:ToySolution",
    check="chipmap.validation.toy:check",
    candidates="chipmap.validation.toy:candidates",
    tick="1 ms",
    unit="s",
    unit_per_tick=1e-3,
    constraints={"C0": "domain", "C1": "apart"},
    terms={"T1": "time", "T2": "energy"},
    methods=(
        Method("toy/cpsat", "chipmap.methods.toy:cpsat", "the CP-SAT model"),
        Method("toy/greedy", "chipmap.methods.toy:greedy", "task by task to the machine that is done sooner"),
    ),
    default_method="toy/cpsat",
    formulations=(Formulation("toy/cpsat", "cpsat", "chipmap.formulations.toy.cpsat:build", "docs/families/toy.md"),),
    warm_starts={"greedy": "chipmap.methods.toy:greedy"},
    generators=(Generator("toy-random", "chipmap.instances.toy.instance:generate", "random tasks"),),
    shipped="chipmap.instances.toy.instance:SHIPPED",
    from_graphs="chipmap.instances.toy.instance:from_graphs",
    units="chipmap.instances.toy.instance:units",
)
