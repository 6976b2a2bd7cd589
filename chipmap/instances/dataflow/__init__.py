"""Family ``dataflow``: a dataflow graph sharded across chips and fused into partitions inside each chip."""

from chipmap.instances.dataflow.instance import DataflowInstance, DataflowSolution, Degrees, Forbidden, Pin, Task
from chipmap.instances.dataflow.system import Chip, Dimension, Memory, System
from chipmap.instances.dataflow.workload import Kernel, Workload

__all__ = [
    "Chip",
    "DataflowInstance",
    "DataflowSolution",
    "Degrees",
    "Dimension",
    "Forbidden",
    "Kernel",
    "Memory",
    "Pin",
    "System",
    "Task",
    "Workload",
]
