"""Named tuples of arrays in compiled code: handed over by address.

numba hands a named tuple of twenty arrays to a function as 140 values, and takes the whole of it from memory where the
function wants one of the arrays. Writing and optimising that is most of what compiling costs. Here a compiled function
gets the tuple's address, and loads what it uses. A tuple is never changed, so that the address is as good as a copy
while the function runs; whoever calls it holds the references to the arrays.

This concerns named tuples of this package only, so that others who use numba in the same process notice nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils, ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.datamodel import default_manager
from numba.core.datamodel.models import TupleModel, UniTupleModel
from numba.core.imputils import impl_ret_borrowed
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

#: Tuples with at least so many arrays are handed over by address.
FEWEST = 2
_PACKAGE = __name__.partition(".")[0]
_BYTE_POINTER = llvm.IntType(8).as_pointer()


def is_record(numba_type: Any) -> bool:
    """Whether values of this type are handed over by address."""
    if not isinstance(numba_type, types.BaseNamedTuple):
        return False
    named: Any = numba_type
    ours = named.instance_class.__module__.partition(".")[0] == _PACKAGE
    return ours and sum(isinstance(one, types.Buffer) or is_record(one) for one in named) >= FEWEST


class _ByAddress:
    """How compiled code holds a named tuple: numba's way, but for arguments."""

    _fe_type: Any
    get_value_type: Any

    def get_argument_type(self) -> Any:
        """The type of an argument."""
        return _BYTE_POINTER if is_record(self._fe_type) else super().get_argument_type()  # type: ignore[misc]

    def as_argument(self, builder: Any, value: Any) -> Any:
        """What the function is given: an address that is known, or that of a copy."""
        if not is_record(self._fe_type):
            return super().as_argument(builder, value)  # type: ignore[misc]
        known = getattr(value, "address", None)
        if known is None:
            known = builder.bitcast(cgutils.alloca_once_value(builder, value), _BYTE_POINTER)
        return known

    def from_argument(self, builder: Any, value: Any) -> Any:
        """The tuple at the address."""
        if is_record(self._fe_type):
            return loaded(builder, value, self.get_value_type())
        return super().from_argument(builder, value)  # type: ignore[misc]


class _Tuple(_ByAddress, TupleModel):  # type: ignore[misc]
    """Of members of several types."""


class _UniTuple(_ByAddress, UniTupleModel):  # type: ignore[misc]
    """Of members of one type."""


def loaded(builder: Any, address: Any, value_type: Any) -> Any:
    """The value at an address, which it remembers."""
    value = builder.load(builder.bitcast(address, value_type.as_pointer()))
    value.address = address
    return value


default_manager.register(types.NamedTuple, _Tuple)
default_manager.register(types.NamedUniTuple, _UniTuple)


class _Lower(Lower):  # type: ignore[misc]
    """numba's writer of machine code, but for records: variables that hold one are its address."""

    def pre_lower(self) -> None:
        """Say what is known of the addresses that are arguments."""
        super().pre_lower()
        self._address: dict[str, Any] = {}
        self._times = Counter(one.target.name for block in self.blocks.values() for one in block.find_insts(ir.Assign))
        for value, numba_type in zip(self.fnargs, self.fndesc.argtypes, strict=True):
            if is_record(numba_type):
                value.address.add_attribute("noalias")
                value.address.attributes.dereferenceable = self.context.get_abi_sizeof(value.type)

    def lower_inst(self, inst: Any) -> None:
        """A variable that is a record has no memory of its own, if it is one and the same all the time."""
        if (
            isinstance(inst, ir.Assign)
            and is_record(self.typeof(inst.target.name))
            and self._times[inst.target.name] == 1
        ):
            known = self._known(inst.value, inst.target.name in self._singly_assigned_vars)
            if known is not None and known[1] == self.typeof(inst.target.name):
                self._address[inst.target.name] = known[0]
                return
        super().lower_inst(inst)

    def _known(self, value: Any, local: bool) -> tuple[Any, Any] | None:
        """The address and type of an argument, or of a known record or a member of one where the variable is ``local``:
        all that uses it stands behind this in the same block."""
        if isinstance(value, ir.Arg):
            return self.fnargs[value.index].address, self.fndesc.argtypes[value.index]
        if local and isinstance(value, ir.Var) and value.name in self._address:
            return self._address[value.name], self.typeof(value.name)
        if local and isinstance(value, ir.Expr) and value.op == "getattr" and value.value.name in self._address:
            return self._member(value)
        return None

    def _member(self, expr: Any) -> tuple[Any, Any]:
        """The address and type of a record's member."""
        whole = self.typeof(expr.value.name)
        number = whole.fields.index(expr.attr)
        inside, target = self.context.get_value_type(whole), self.context.target_data
        if isinstance(inside, llvm.ArrayType):
            offset = number * inside.element.get_abi_size(target)
        else:
            offset = inside.get_element_offset(target, number)
        address = self.builder.gep(self._address[expr.value.name], [llvm.IntType(64)(offset)], inbounds=True)
        return address, whole.types[number]

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """A member of a record is loaded alone."""
        if expr.op == "getattr" and expr.value.name in self._address:
            address, member = self._member(expr)
            value = loaded(self.builder, address, self.context.get_value_type(member))
            value = impl_ret_borrowed(self.context, self.builder, member, value)
            return self.context.cast(self.builder, value, member, resty)
        return super().lower_expr(resty, expr)

    def loadvar(self, name: str) -> Any:
        """The variable's value."""
        if name in self._address:
            return loaded(self.builder, self._address[name], self.context.get_value_type(self.typeof(name)))
        return super().loadvar(name)

    def delvar(self, name: str) -> None:
        """The variable's end."""
        if name not in self._address:
            super().delvar(name)


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(NativeLowering):  # type: ignore[misc]
    """The pass that writes machine code."""

    _name = "record_native_lowering"

    @property
    def lowering_class(self) -> Any:
        """Who writes it."""
        return _Lower
