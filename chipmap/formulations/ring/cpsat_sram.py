"""The least SRAM that an instance needs: the CP-SAT model with memory as its objective."""

from __future__ import annotations

from ortools.sat.python import cp_model

from chipmap.family import Scope
from chipmap.formulations.built import Built
from chipmap.formulations.ring.cpsat import RingCpChoices, add_ring, coders
from chipmap.instances.ring.instance import RingInstance
from chipmap.instances.ring.problem import ring_problem


def build(instance: RingInstance) -> Built:
    """Minimise the fullest chip's bytes (C4's left side) under the other constraints that ``instance`` names."""
    problem = ring_problem(instance)
    most = problem.most_bytes
    labels = dict.fromkeys((*instance.constraints, "C4"))
    roomy = instance.replace(package=instance.package.replace(sram_bytes=most), constraints=tuple(labels))
    model = cp_model.CpModel()
    variables = add_ring(model, roomy, RingCpChoices(objective="feasible"))
    sram = model.new_int_var(0, most, "sram")
    for used in variables.chip_memory:
        model.add(used <= sram)
    model.minimize(sram)
    return Built("cpsat", roomy, model, variables.statement, Scope.QUESTION, *coders(variables, roomy), variables)
