"""A deadline by the CPU seconds of this process, so that the load of the machine changes next to nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from chipmap.deadline import Deadline


@dataclass(frozen=True)
class CpuDeadline(Deadline):
    """A deadline by the process's CPU time."""

    @property
    def seconds(self) -> float:
        """CPU seconds left."""
        return max(0.0, self.until - time.process_time())

    def within(self, seconds: float) -> CpuDeadline:
        """In so many CPU seconds from now, or this one if that comes first."""
        return replace(self, until=min(self.until, time.process_time() + seconds))
