"""Family ``wafer``: kernels with free execution arguments on the fabric of a wafer-scale engine."""

from chipmap.instances.wafer.instance import Fabric, Kernel, Placement, WaferInstance, WaferSolution, Weights

__all__ = ["Fabric", "Kernel", "Placement", "WaferInstance", "WaferSolution", "Weights"]
