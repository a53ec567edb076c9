"""Gangs as their users write them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tests.cluster.cluster import CLIENTS, RealCluster
from tests.cluster.gangs.kinds import VOLCANO
from tests.cluster.objects import a_share, a_share_pod
from tests.contract.client import Json

CARD: Final = a_share(20000)
"""So much of a card that no second pod fits on it."""
NO_CARD: Final = {"cpu": "100m"}
GANG: Final = "gang"
"""The label that tests know a pod's gang by, whatever its system calls it."""
_KOORD: Final = "gang.scheduling.koordinator.sh"


def pod_groups(cluster: RealCluster, name: str = "", api: str = VOLCANO) -> str:
    """Where PodGroups of the test are."""
    path = f"/apis/{api}/namespaces/{cluster.own}/podgroups"
    return f"{path}/{name}" if name else path


async def make_group(
    cluster: RealCluster, name: str, least: int, api: str = VOLCANO, **spec: Any
) -> Json:
    """Create a PodGroup."""
    return await cluster.make(pod_groups(cluster, api=api), {
        "apiVersion": api, "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"minMember": least, **spec},
    })  # fmt: skip


def a_member(
    name: str, gang: str, limits: Mapping[str, str] = CARD, *, role: str = "worker", **spec: Any
) -> Json:
    """A pod of a Volcano gang, as the Job controller makes it."""
    notes = {
        "scheduling.k8s.io/group-name": gang, "volcano.sh/task-spec": role,
        "volcano.sh/task-index": name.rpartition("-")[2], **spec.pop("annotations", {}),
    }  # fmt: skip
    return a_share_pod(name, limits, annotations=notes, labels={GANG: gang}, **spec)


def a_koordinator_member(
    name: str, gang: str, least: int, bundle: Sequence[str] = (), **spec: Any
) -> Json:
    """A pod of a gang that its own annotations describe; `bundle` is of `namespace/name`."""
    notes = {f"{_KOORD}/name": gang, f"{_KOORD}/min-available": str(least)}
    if bundle:
        notes[f"{_KOORD}/groups"] = json.dumps(bundle)
    return a_share_pod(name, CARD, annotations=notes, labels={GANG: gang}, **spec)


def members(gang: str, count: int, **spec: Any) -> list[Json]:
    """Pods `<gang>-0` and so on."""
    return [a_member(f"{gang}-{n}", gang, **spec) for n in range(count)]


async def create(cluster: RealCluster, pods: Iterable[Json]) -> None:
    """Create pods, many at once."""
    left = list(reversed(list(pods)))

    async def client() -> None:
        while left:
            await cluster.make(cluster.pods_path(), left.pop())

    async with asyncio.TaskGroup() as group:
        for i in range(CLIENTS):
            group.create_task(client(), name=f"client {i}")


async def make_gang(cluster: RealCluster, gang: str, count: int, **spec: Any) -> list[str]:
    """A PodGroup and its pods, all of which are its minimum; the pods' names."""
    await make_group(cluster, gang, count)
    pods = members(gang, count, **spec)
    await create(cluster, pods)
    return [pod["metadata"]["name"] for pod in pods]
