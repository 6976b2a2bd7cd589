"""What kernels exchange as it depends on others, for CP-SAT: the literals of :mod:`.exchanges`."""

from __future__ import annotations

from typing import Any

from chipmap.formulations.dataflow.cpsat_tensors import Tensors
from chipmap.instances.dataflow.alike import Alike


class CpRows:
    """A ``CpModel`` that is being stated."""

    def __init__(self, tensors: Tensors) -> None:
        self.tensors, self.tables, self.builder = tensors, tensors.tables, tensors.builder

    def literal(self, name: str, *key: Any) -> Any:
        """A literal."""
        return self.builder.literal(f"{name}[{','.join(map(str, key))}]")

    def row(self, _: str, constraint: Any) -> None:
        """A row that holds always."""
        self.builder.model.add(constraint)

    def picked(self, i: int, options: Alike) -> Any:
        """[copy i is sharded as in one of ``options``]."""
        return 1 if len(options) == len(self.tables.options(i)) else sum(self.builder.s[i, o] for o in options)

    def lies(self, i: int, options: Alike, c: int) -> Any:
        """[copy i lies in c, sharded as in one of ``options``]."""
        return sum(self.builder.lies(i, options, c))

    def upto(self, i: int, c: int) -> Any:
        """[copy i lies in a partition <= c]."""
        return self.builder.upto(i, c)

    def paired(self, e: int, g: int, h: int, c: int) -> Any:
        """[v of tensor e lies in c under its options h, and u anywhere under g]."""
        return sum(self.tensors.paired(e, g, h, c))
