"""What kernels exchange as it depends on others, for the MIP: the literals of :mod:`.exchanges` as variables."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

import pyomo.environ as pyo

from chipmap.deadline import look
from chipmap.formulations.dataflow.exchanges import Exchanged
from chipmap.formulations.dataflow.mip_assignment import picked, placed, upto
from chipmap.formulations.dataflow.mip_tensors import paired
from chipmap.formulations.dataflow.tables import Tables
from chipmap.instances.dataflow.alike import Alike


class MipRows:
    """A block that is being stated: variables ``free``, ``summed``, … and rows ``def_free``, ``def_summed``, …"""

    def __init__(self, block: pyo.Block, tables: Tables) -> None:
        self.block, self.tables = block, tables
        self._number = count()

    def _component(self, name: str, make: Any) -> Any:
        if self.block.component(name) is None:
            self.block.add_component(name, make())
        return self.block.component(name)

    def literal(self, name: str, *key: Any) -> Any:
        """A variable in [0, 1]."""
        look()
        return self._component(name, lambda: pyo.Var(pyo.Any, dense=False, bounds=(0, 1))).add(key)

    def row(self, name: str, constraint: Any) -> None:
        """A row of ``def_<name>``."""
        look()
        self._component(f"def_{name}", lambda: pyo.Constraint(pyo.Any))[next(self._number)] = constraint

    def picked(self, i: int, options: Alike) -> Any:
        """[copy i is sharded as in one of ``options``]."""
        return picked(self.block, self.tables, i, options)

    def lies(self, i: int, options: Alike, c: int) -> Any:
        """[copy i lies in c, sharded as in one of ``options``]."""
        return placed(self.block, self.tables, i, options, c)

    def upto(self, i: int, c: int) -> Any:
        """[copy i lies in a partition <= c]."""
        return upto(self.block, self.tables, i, c)

    def paired(self, e: int, g: int, h: int, c: int) -> Any:
        """[v of tensor e lies in c under its options h, and u anywhere under g]."""
        return paired(self.block, self.tables, e, g, h, c)


def def_exchanges(block: pyo.Block, tables: Tables) -> None:
    """``exchanged``: what mappings pay beside their schemes, as it depends on what ran before."""
    block.exchanged = Exchanged(MipRows(block, tables))


def amounts(parts: Iterable[tuple[int, Any]], unit: int = 1) -> list[Any]:
    """Amounts times their expressions, in units."""
    return [amount / unit * one for amount, one in parts]
