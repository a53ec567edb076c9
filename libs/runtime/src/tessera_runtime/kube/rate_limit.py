"""A bound on how many calls a process makes to the API server.

A bucket of tokens: calls wait in turn for one each. Calls about Leases go past it, because a
process that waits to renew its Lease loses it.
"""

from __future__ import annotations

import asyncio
from typing import Final

_LEASES: Final = "/apis/coordination.k8s.io/"


class CallRate:
    """Lets calls pass at a rate; `open_kube` makes it."""

    def __init__(self, qps: float, burst: int) -> None:
        """`qps` calls a second, 0 = no bound, and `burst` at once."""
        self._qps, self._burst = qps, burst
        self._free_at = float("-inf")
        """When the bucket is as it is now after all that were let pass; full `burst` later."""

    async def turn(self, path: str) -> None:
        """Wait until a call to the path may begin."""
        if not self._qps or path.startswith(_LEASES):
            return
        now = asyncio.get_running_loop().time()
        full_s = self._burst / self._qps
        self._free_at = max(self._free_at, now - full_s) + 1 / self._qps
        if self._free_at > now:
            await asyncio.sleep(self._free_at - now)
