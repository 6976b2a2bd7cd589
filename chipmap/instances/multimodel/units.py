"""The units of a multimodel instance's objective and terms."""

from __future__ import annotations

from chipmap.instances.multimodel.instance import MultiInstance
from chipmap.instances.multimodel.problem import multi_problem
from chipmap.records import Unit, Units

#: J·s of 1 ns · pJ, as a power of ten.
_POWER = -21


def units(instance: MultiInstance) -> Units:
    """Latency in s, energy in J, their product in J·s by the tick of the instance's scale, weight of dropped frames."""
    time, energy = Unit(name="s", per_tick=1e-9), Unit(name="J", per_tick=1e-12)
    if instance.task.objective == "frames":
        dropped = Unit(name="frames", per_tick=1.0)
        return Units(objective=dropped, terms={"T2": energy, "T3": dropped})
    objective = {"latency": time, "energy": energy, "weighted": energy}.get(instance.task.objective)
    if objective is None:
        power = _POWER + len(str(multi_problem(instance).edp_tick)) - 1
        objective = Unit(name="J·s", per_tick=float(f"1e{power}"))
    return Units(objective=objective, terms={"T1": time, "T2": energy})
