"""Gangs that wait: for what, and members that wait at the bind barrier."""

from __future__ import annotations

import asyncio
from typing import Final

from tessera_cli.explain import explanations
from tessera_cli.kubeconfig import ClusterTarget
from tests.cluster.cluster import RealCluster
from tests.cluster.gangs.members import NO_CARD, a_member, create, make_group, members
from tests.cluster.objects import a_share_pod
from tests.cluster.tenants import reached
from tests.contract.client import Json

_ANCHOR: Final = {"app": "anchor"}
_NEAR_ANCHOR: Final[Json] = {"podAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": _ANCHOR}, "topologyKey": "kubernetes.io/hostname"},
    ],
}}  # fmt: skip
"""What kube-scheduler alone knows: the launcher has no node before a pod `anchor` has one."""


async def nothing_bound(cluster: RealCluster, waits: str) -> None:
    """No pod of the test has a node, and this one is behind its gate, or has been refused."""

    async def waiting() -> bool:
        status = (await cluster.admin.get(cluster.pods_path(waits))).done["status"]
        said = [c for c in status.get("conditions", ()) if c["type"] == "PodScheduled"]
        return any(
            c.get("reason") == "SchedulingGated" or "GangWaiting" in c.get("message", "")
            for c in said
        )

    await cluster.until(waiting, f"{waits} waits for its gang")
    await asyncio.sleep(1)  # were the others not to wait, they would be bound now
    assert await cluster.bound() == []


async def until_explained(cluster: RealCluster, name: str, words: str) -> None:
    """`tessera explain` says so about a pod that waits. One call a test: it makes the Service."""
    await reached(cluster)
    kubeconfig = str(cluster.plane.control.kubeconfig)
    target = ClusterTarget(kubeconfig=kubeconfig, namespace=cluster.own)

    async def said() -> bool:
        return words in (await explanations.read_explanation(target, name)).message

    await cluster.until(said, f"explain {name}: {words}")


async def make_gang_at_barrier(cluster: RealCluster, gang: str, workers: int) -> None:
    """A gang whose workers wait in bind for their launcher, which asks for no cards and has no node
    before `let_go`."""
    await make_group(cluster, gang, workers + 1)
    launcher = a_member(f"{gang}-launcher", gang, NO_CARD, role="launcher", affinity=_NEAR_ANCHOR)
    await create(cluster, [*members(gang, workers), launcher])
    await until_reserved(cluster, workers)


async def until_reserved(cluster: RealCluster, count: int) -> None:
    """Wait until the ledger of the leader holds cards for so many pods, and they are called for."""
    leader = await cluster.leader()

    async def reserved() -> bool:
        return await leader.metric('tessera_scheduler_grants{phase="reserved"}') >= count

    await cluster.until(reserved, f"{count} pods reserved")
    await asyncio.sleep(1)  # kube-scheduler comes to each of them, and calls bind


async def let_go(cluster: RealCluster, node: str) -> None:
    """The launcher has a place now: on this node."""
    anchor = a_share_pod("anchor", NO_CARD, labels=_ANCHOR, nodeName=node)
    await cluster.make(cluster.pods_path(), anchor)
