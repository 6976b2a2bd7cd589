"""Points solved by a Dask cluster (extra ``cluster``): one that runs already, or workers of this machine."""

from __future__ import annotations

from typing import Any

from chipmap.bench.pool import solve_isolated
from chipmap.bench.sweep import Point
from chipmap.records import InputError

#: Seconds to wait for a scheduler.
PATIENCE = 20


class ClusterPool:
    """Points go to the scheduler at ``address``, or, for ``local``, to ``workers`` Dask workers bound to loopback.

    The scheduler gives a point whose worker dies to another. Raises :class:`InputError` where Dask is absent or nobody
    answers.
    """

    def __init__(self, address: str, workers: int) -> None:
        try:
            from distributed import Client, LocalCluster
            from distributed.comm import resolve_address
        except ImportError:
            remedy = "Install the extra: pip install 'chipmap[cluster]'."
            raise InputError("Dask isn't installed", "--cluster", remedy) from None
        self._cluster: Any = None
        if address == "local":
            self._cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, processes=True
            )
            address = self._cluster.scheduler_address
        try:
            resolve_address(address)  # a client that can't be made would say so once more when it is collected
            self._client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            remedy = "Start one: dask scheduler; dask worker."
            raise InputError(f"no Dask scheduler answers: {error}", f"--cluster {address}", remedy) from None

    def submit(self, point: Point) -> Any:
        """Have ``point`` solved: a future of its row (JSON)."""
        return self._client.submit(solve_isolated, point.to_json(), pure=False)

    def executor(self) -> Any:
        """A :class:`concurrent.futures.Executor` that has any function run by the cluster's workers."""
        return self._client.get_executor(pure=False)

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()
