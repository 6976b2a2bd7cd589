"""A pipeline in terms of modules: split points, and lists of the modules of each stage, where the plan is one.

=============  ======================================================================================================
split points   ``{"layers.2": "BEGINNING"}``, as ``torch.distributed.pipelining.pipeline`` takes them: each stage is a
               stretch of the trace, and begins with the first operation of a module
lists          ``[["embed", "layers.0"], ["layers.1", "head"]]``, as torchtitan takes them: each module is in one stage
               or is cut into those that it holds, and a module that is cut computes nothing itself
=============  ======================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def split_points(stages: Sequence[Sequence[str]], modules: Mapping[str, str]) -> dict[str, str] | str:
    """The split points, or why there are none; ``modules``: operation -> its module, in the trace's order."""
    stage_of = {name: s for s, names in enumerate(stages) for name in names}
    if sum(map(len, stages)) > len(stage_of):
        return "an operator runs in several stages"
    trace = [name for name in modules if name in stage_of]
    found: dict[str, str] = {}
    opened: set[str] = set()  # modules of which something has run
    before = 0
    for name in trace:
        s, paths = stage_of[name], _inside(modules[name])
        if s < before:
            return (
                f"stages aren't stretches of the trace: {name!r} of stage {s} runs behind operators of stage {before}"
            )
        if s > before:
            fresh = [path for path in paths if path not in opened]
            if s > before + 1 or not fresh:
                where = f"inside module {modules[name]!r}" if modules[name] else "between modules"
                return f"stage {s} begins {where}, at {name!r}"
            found[fresh[0]] = "BEGINNING"
        before = s
        opened.update(paths)
    return found


def module_lists(stages: Sequence[Sequence[str]], modules: Mapping[str, str]) -> list[list[str]] | str:
    """The modules of each stage, or why the plan can't be said so."""
    inside: dict[str, set[int]] = {"": set()}
    own: dict[str, str] = {}  # module -> an operation of its own
    for s, names in enumerate(stages):
        for name in names:
            module = modules.get(name, "")
            own.setdefault(module, name)
            for path in ("", *_inside(module)):
                inside.setdefault(path, set()).add(s)
    lists: list[list[str]] = [[] for _ in stages]
    for path, where in inside.items():
        if len(where) > 1 and path in own:
            what = f"module {path!r}" if path else "the network"
            return f"{what} is cut, and computes {own[path]!r} itself"
        cut = [outer for outer in ("", *_inside(path))[:-1] if len(inside[outer]) == 1]
        if len(where) == 1 and not cut:
            lists[min(where)].append(path)
    return lists


def _inside(module: str) -> list[str]:
    """A module's path, and before it those of the modules around it: ``a``, ``a.b``, ``a.b.c``."""
    parts = module.split(".") if module else []
    return [".".join(parts[: i + 1]) for i in range(len(parts))]
