"""Pods that come, are tried by kube-scheduler, run and end, while gangs wait."""

from __future__ import annotations

from tessera_schema.annotation_keys import EXPECTED_KEY
from tessera_schema.kube import Pod
from tests.core.gang_scheduling.gang_cluster import GangCluster


def said(seconds: float | None) -> dict[str, str]:
    return {} if seconds is None else {EXPECTED_KEY: f"{seconds:g}"}


def created(cluster: GangCluster, *pods: Pod) -> None:
    cluster.create(*pods)
    cluster.watch()
    cluster.step()


def tried(cluster: GangCluster, *names: str) -> set[str]:
    """Those of the pods that have a node afterwards."""
    for _ in range(2):
        for name in names:
            if name in cluster.waiting():
                cluster.try_pod(name)
        cluster.watch()
        cluster.step()
    return set(names) & set(cluster.bound())


class ComingPods:
    """Pods that end by themselves; kube-scheduler tries all that wait."""

    def __init__(self, cluster: GangCluster) -> None:
        self.cluster = cluster
        self._ends: dict[str, float] = {}
        """Uid -> how many seconds after its start it ends."""

    def name(self) -> str:
        """Of the next pod."""
        return f"s{len(self._ends)}"

    def create(self, pod: Pod, lasts: float) -> None:
        """A pod comes, and ends so many seconds after its start."""
        self._ends[pod.metadata.uid] = lasts
        created(self.cluster, pod)

    def go_on(self, seconds: float) -> None:
        """So much time passes, 20 s at a time; those end whose time has come."""
        cluster, until = self.cluster, self.cluster.now + seconds
        while cluster.now < until:
            cluster.now = min(cluster.now + 20, until)
            for uid, lasts in self._ends.items():
                if uid in cluster.grants and cluster.now >= cluster.since[uid] + lasts:
                    cluster.delete(uid)
            cluster.watch()
            cluster.step()
            tried(cluster, *cluster.waiting())
            self.check()

    def check(self) -> None:
        """What has to be true at any time."""
