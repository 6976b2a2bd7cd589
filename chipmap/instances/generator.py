"""What the named generators of all families share: keyword parameters, checked against their annotations."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar, cast, get_type_hints

import msgspec

from chipmap.records import InputError, choices

_REMEDY = "docs/instances.md lists the parameters with their types and ranges."
Instance = TypeVar("Instance")


class NamedGenerator(Generic[Instance]):
    """Makes instances from keyword parameters: those of ``network`` and the fields of the family's ``setting``.

    A setting is a record with a method ``instance``, which takes the generator's name and what ``network`` made.
    ``defaults`` are the generator's own, where they differ.
    """

    setting: ClassVar[type[Any]]

    def __init__(self, name: str, network: Callable[..., Any], **defaults: Any) -> None:
        self.name, self.network, self.defaults = name, network, defaults
        self.__doc__ = network.__doc__

    def __call__(self, **parameters: Any) -> Instance:
        """The instance with these parameters. Raises :class:`InputError` that names the valid ones."""
        setting, own = self.read(parameters)
        instance = setting.instance(self.name, self.network(**own))
        instance.check()
        return cast(Instance, instance)

    def parameters(self) -> dict[str, Any]:
        """Every parameter with its default (``inspect.Parameter.empty`` where one must be given)."""
        own = {p.name: p.default for p in inspect.signature(self.network).parameters.values()}
        return own | msgspec.structs.asdict(self.setting()) | self.defaults

    def types(self) -> dict[str, Any]:
        """The type of every parameter."""
        return get_type_hints(self.network, include_extras=True) | get_type_hints(self.setting)

    def read(self, parameters: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The setting, and the network's own parameters, converted to the types and checked against the ranges.

        A parameter that doesn't exist, is missing, or has the wrong type or range raises :class:`InputError`.
        """
        known = self.parameters()
        for name in parameters:
            if name not in known:
                raise InputError(f"{self.name} has no parameter {name!r}", "parameters", choices(name, known, "It has"))
        given = self.defaults | parameters
        for name, default in known.items():
            if default is inspect.Parameter.empty and name not in given:
                raise InputError("is missing", f"{self.name}: {name}", _REMEDY)
        hints, checked = self.types(), {}
        for name, value in given.items():
            try:
                checked[name] = msgspec.convert(value, hints[name])
            except msgspec.ValidationError as error:
                raise InputError(f"{error} (given: {value!r})", f"{self.name}: {name}", _REMEDY) from None
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"is {value}", f"{self.name}: {name}", "Give a finite number.")
        fields = self.setting.__struct_fields__
        return self.setting(**{name: checked.pop(name) for name in fields if name in checked}), checked
