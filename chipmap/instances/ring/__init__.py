"""Family ``ring``: a graph of operations on the chips of a uni-directional ring package."""

from chipmap.instances.ring.instance import Forbidden, Package, Pin, RingInstance, RingSolution

__all__ = ["Forbidden", "Package", "Pin", "RingInstance", "RingSolution"]
