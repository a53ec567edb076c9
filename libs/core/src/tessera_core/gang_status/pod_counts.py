"""The pods of a PodGroup, counted as the systems count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

from tessera_core.gangs.group_names import member_of
from tessera_core.kube.pod_requests import pod_requests
from tessera_core.kube.quantity import BadQuantity
from tessera_schema.kube import Pod


class MemberPod(Struct, frozen=True, kw_only=True):
    """What of a pod counts for its group's status."""

    uid: str
    namespace: str
    name: str
    phase: str
    node: str = ""
    role: str = ""
    terminating: bool = False
    annotated: bool = False
    """Whether its timeout is written on it (`koordinator.TIMEOUT`)."""
    owners: tuple[str, ...] = ()
    """Names of the objects that own it, all of its namespace."""
    requests: Mapping[str, int] = {}
    """By resource name: cpu in thousandths, memory in bytes, others in pieces."""


def member_pod(pod: Pod, timeout_key: str = "") -> MemberPod:
    """The summary of a pod. Amounts that cannot be read count for nothing, as on nodes."""
    try:
        requests = pod_requests(pod)
    except BadQuantity:
        requests = {}
    meta = pod.metadata
    return MemberPod(
        uid=meta.uid, namespace=meta.namespace or "default", name=meta.name,
        phase=pod.status.phase, node=pod.spec.node_name, role=member_of(pod).role,
        terminating=meta.deletion_timestamp is not None,
        annotated=timeout_key in meta.annotations, requests=requests,
        owners=tuple(owner.name for owner in meta.owner_references),
    )  # fmt: skip


class PodCounts(Struct, frozen=True, kw_only=True):
    """How many pods a group has, and how they are."""

    exist: int = 0
    """All, those that have ended too."""
    scheduled: int = 0
    """Those that have a node, or had one: terminating and ended ones too."""
    running: int = 0
    """Those that run and are not being deleted."""
    succeeded: int = 0
    failed: int = 0
    roles: Mapping[str, int] = {}
    """Role -> pods of it that have not failed."""
    owners: tuple[str, ...] = ()
    """Of the first pod, in the order of uids, as `namespace/name`, sorted."""


def count_pods(pods: Iterable[MemberPod]) -> PodCounts:
    """The counts of these pods."""
    found = list(pods)
    phases = Counter(pod.phase for pod in found)
    return PodCounts(
        exist=len(found),
        scheduled=sum(bool(pod.node) or pod.phase in ("Succeeded", "Failed") for pod in found),
        running=sum(pod.phase == "Running" and not pod.terminating for pod in found),
        succeeded=phases["Succeeded"], failed=phases["Failed"],
        roles=Counter(pod.role for pod in found if pod.phase != "Failed"),
        owners=_owners(min(found, key=lambda pod: pod.uid)) if found else (),
    )  # fmt: skip


def _owners(pod: MemberPod) -> tuple[str, ...]:
    return tuple(sorted(f"{pod.namespace}/{name}" for name in pod.owners))


def requested(pods: Iterable[MemberPod]) -> dict[str, int]:
    """What the pods that have a node and have not ended request together."""
    total: Counter[str] = Counter()
    for pod in pods:
        if pod.node and pod.phase not in ("Succeeded", "Failed"):
            total.update(pod.requests)
    return dict(total)
