"""What the page says of an instance, worked out once: brute force asks it again for each of its candidates."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from chipmap.records import kept

Function = TypeVar("Function", bound=Callable[..., Any])


def once(work_out: Function) -> Function:
    """A function of an ``instance`` and of values that can be looked up, whose results are kept with the instance.

    Arguments are given by place. Who gets a result leaves it as it is.
    """
    place, key = [*signature(work_out).parameters].index("instance"), f"{work_out.__module__}.{work_out.__qualname__}"

    @wraps(work_out)
    def known(*arguments: Any) -> Any:
        results: dict[Any, Any] = kept(arguments[place], key, lambda _: {})
        rest = arguments[:place] + arguments[place + 1 :]
        try:
            return results[rest]
        except KeyError:
            return results.setdefault(rest, work_out(*arguments))

    return cast(Function, known)
