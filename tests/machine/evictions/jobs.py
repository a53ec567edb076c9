"""What users run in the walks of evictions: single pods and gangs of three priorities, in two
queues."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from tessera_schema.kube import Pod
from tests.machine.gangs.users_gangs import GATE, VOLCANO

PRIORITIES: Final = (1, 5, 10)
QUEUES: Final = ("red", "blue")
NAMESPACES: Final = ("one", "two", "three")
PODS_OF: Final = "/api/v1/namespaces/{}/pods"
GROUPS_OF: Final = "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups"
MIB_OF_HALVES: Final = {1: "8000", 2: "16000"}
"""Two pods of a half share a card, no pod shares one with a pod of a whole."""


class Job(Struct, frozen=True, kw_only=True):
    """A pod by itself, or a gang."""

    name: str
    """No other job ever has it; it has no hyphen."""
    namespace: str
    queue: str
    priority: int
    halves: int
    """Of a card, that each pod asks for."""
    least: int = 0
    """How many pods start together; 0 for a pod by itself."""

    @property
    def id(self) -> str:
        """As plans name the gang; empty for a pod by itself."""
        return f"volcano/{self.namespace}/{self.name}" if self.least else ""

    @property
    def names(self) -> list[str]:
        """Of its pods."""
        return [f"{self.name}-{n}" for n in range(self.least or 1)]

    def pod(self, name: str, *, gated: bool) -> dict[str, Any]:
        """One of its pods; with `gated` the webhook was there when it was made."""
        notes = {"tessera.dev/preemptible": "true"}
        if self.least:
            notes["scheduling.k8s.io/group-name"] = self.name
        else:
            notes["scheduling.volcano.sh/queue-name"] = self.queue
        limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": MIB_OF_HALVES[self.halves]}
        container = {"name": "c", "image": "i", "resources": {"limits": limits}}
        spec: dict[str, Any] = {
            "schedulerName": "tessera-scheduler", "priority": self.priority,
            "containers": [container],
        }  # fmt: skip
        if gated and self.least:
            spec["schedulingGates"] = [{"name": GATE}]
        return {"metadata": {"name": name, "annotations": notes}, "spec": spec}

    def group(self) -> dict[str, Any]:
        """Its PodGroup."""
        return {
            "apiVersion": VOLCANO, "kind": "PodGroup", "metadata": {"name": self.name},
            "spec": {"minMember": self.least, "queue": self.queue},
        }  # fmt: skip


def job_of(name: str) -> str:
    """Name of the job that a pod of this name belongs to."""
    return name.partition("-")[0]


def a_queue(name: str, deserved: int, weight: int) -> dict[str, Any]:
    """A queue that deserves so many cards."""
    return {
        "apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name},
        "spec": {"weight": weight, "deserved": {"nvidia.com/gpu": str(deserved)}},
        "status": {"state": "Open"},
    }  # fmt: skip


def waits(pod: Pod) -> bool:
    """Whether the pod has no node, and may get one yet."""
    return not pod.spec.node_name and not pod.terminal and not pod.metadata.deletion_timestamp
