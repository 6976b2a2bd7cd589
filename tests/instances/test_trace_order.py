"""Where a trace can be cut, against the two forms that runtimes take."""

from __future__ import annotations

import random

from chipmap.instances.trace_order import cuts
from chipmap.plans.torch_pipeline.modules import module_lists, split_points


def test_cuts_are_those_that_runtimes_can_say() -> None:
    """Random traces: each cut in two, by the functions that write split points and lists of modules."""
    chooser = random.Random(0)
    for _ in range(60):
        paths = sorted(
            tuple(chooser.choice("ab") for _ in range(chooser.randrange(4))) for _ in range(chooser.randrange(1, 9))
        )
        if chooser.random() < 0.3:
            chooser.shuffle(paths)
        known, names = cuts(paths), [f"n{i}" for i in range(len(paths))]
        modules = {name: ".".join(path) for name, path in zip(names, paths, strict=True)}
        for cut in range(1, len(paths)):
            stages = [names[:cut], names[cut:]]
            points = not isinstance(split_points(stages, modules), str)
            assert (cut in known.split) == points
            assert (cut in known.list) == (points and not isinstance(module_lists(stages, modules), str))
        assert set(known.list) <= set(known.split) <= set(known.any) == set(range(1, len(paths)))
