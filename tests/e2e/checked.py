"""What `tessera check` says of the cluster."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE

from tests.contract.client import Json
from tests.e2e.cluster import HOME, Cluster


async def findings(cluster: Cluster) -> list[Json]:
    """All of them."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tessera_cli", "check", "-o", "json", "--all",
        f"--kubeconfig={cluster.plane.kubeconfig}", stdout=PIPE,
    )  # fmt: skip
    said, _ = await program.communicate()
    listed: list[Json] = json.loads(said)["findings"]
    return listed


async def faults(cluster: Cluster) -> dict[str, Json]:
    """Check -> its finding, of those that are not ok."""
    return {one["name"]: one for one in await findings(cluster) if one["state"] != "ok"}


async def everything_is_right(cluster: Cluster) -> None:
    """Wait until each check is ok. The nodes' runtimes require the agent, which an administrator
    says by a ConfigMap."""
    given = {"apiVersion": "v1", "kind": "ConfigMap"}
    await cluster.apply(given | {"metadata": {"name": "tessera-agent-required", "namespace": HOME}})
    found: dict[str, Json] = {}

    async def is_green() -> bool:
        found.clear()
        found.update(await faults(cluster))
        return not found

    try:
        await cluster.until(is_green, "tessera check finds everything right")
    finally:
        print(f"not ok: {found}")  # noqa: T201  (what it found last)
