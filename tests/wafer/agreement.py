"""What the methods of family ``wafer`` prove of a small instance."""

from __future__ import annotations

from chipmap import solve
from chipmap.instances.wafer import WaferInstance
from tests.lanes import of_all


def all_prove(instance: WaferInstance, least: float | None, number: int, where: object) -> None:
    """Chain and CP-SAT prove the least objective (None: infeasible); the MIP is asked of a quarter in the short run.

    ``number`` says which of the instances it is, and ``where`` is printed where something differs.
    """
    for method in ("auto", "cpsat", *(("mip",) if of_all(2, few=1) == 2 or number % 4 == 0 else ())):
        result = solve(instance, method=f"wafer/{method}")
        assert result.objective == least, (where, method)
        reason = "infeasible" if least is None else "optimal"
        assert result.termination.reason == reason, (where, method)
