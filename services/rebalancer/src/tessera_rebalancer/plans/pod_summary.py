"""A pod as plans see it: what it holds or waits for, what it requests of its node, and what ties it
to that node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tessera_core.admission.pod_groups import GROUP_NAMES
from tessera_core.kube.owner_references import controller_of
from tessera_core.shared_values import SharedValues
from tessera_runtime.informers.pods import DecodedPod
from tessera_schema.annotation_keys import CHECKPOINT_KEY, LEAST_MEMORY_KEY, REBALANCE_KEY
from tessera_schema.grants import Grant
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Container, ObjectMeta, OwnerRef, Pod, PodStatus
from tessera_schema.requests import PodRequest

_KEYS_READ: Final = frozenset({REBALANCE_KEY, CHECKPOINT_KEY, LEAST_MEMORY_KEY, *GROUP_NAMES})
"""Annotations of pods that run which plans read; a pod's grant is the longest of the others."""


class _Meta(Struct, frozen=True, rename="camel"):
    owner_references: tuple[OwnerRef, ...] = ()


class _Volume(Struct, frozen=True, rename="camel"):
    empty_dir: Mapping[str, Any] | None = None
    host_path: Mapping[str, Any] | None = None
    persistent_volume_claim: Mapping[str, Any] | None = None
    ephemeral: Mapping[str, Any] | None = None


class _Port(Struct, frozen=True, rename="camel"):
    host_port: int = 0


class _Container(Struct, frozen=True):
    ports: tuple[_Port, ...] = ()


class _Spec(Struct, frozen=True, rename="camel"):
    volumes: tuple[_Volume, ...] = ()
    containers: tuple[_Container, ...] = ()
    host_network: bool | None = None
    termination_grace_period_seconds: float | None = None


class _Condition(Struct, frozen=True):
    type: str = ""
    reason: str = ""


class _Status(Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _Ties(Struct, frozen=True):
    """What binds a pod to its node."""

    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class PodShape(Struct, frozen=True, kw_only=True):
    """What the pods of a controller have in common. `tied` says what binds such a pod to its node,
    empty where nothing does; `local` = it has an emptyDir."""

    pod: Pod
    """Of one that waits as written; else what plans read, without its name, uid and node."""
    request: PodRequest | None = None
    """Of one that runs without its name and uid."""
    init_over: bool = False
    owner: str = ""
    owner_kind: str = ""
    local: bool = False
    grace_s: float = 30
    tied: str = ""


class PlanPodSummary(Struct, frozen=True, kw_only=True, gc=False):
    """One pod: its shape, which equal pods share, and what is its own. There are 100,000 of these:
    what can be made of them is made when it is read."""

    uid: str
    name: str
    shape: PodShape
    node: str = ""
    """Empty while it waits."""
    grant: Grant | None = None
    since: float = 0
    """Unix time: when its node took it, or, of one that waits, when it was created."""

    @property
    def ended(self) -> bool:
        """Whether it holds nothing any more."""
        return self.shape.pod.terminal

    @property
    def init_over(self) -> bool:
        """Whether its init containers have ended."""
        return self.shape.init_over

    @property
    def pod(self) -> Pod:
        """The pod, without its node."""
        pod = self.shape.pod
        return replace(pod, metadata=replace(pod.metadata, name=self.name, uid=self.uid))

    @property
    def bound_pod(self) -> Pod:
        """The pod with its node."""
        pod = self.pod
        return replace(pod, spec=replace(pod.spec, node_name=self.node))

    @property
    def request(self) -> PodRequest | None:
        """What it requests; None where it requests no cards."""
        request = self.shape.request
        return None if request is None else replace(request, name=self.name, uid=self.uid)


def summary(
    decoded: DecodedPod, grant: Grant | None, profiles: frozenset[str], shared: SharedValues
) -> PlanPodSummary:
    """What plans need of a pod; `grant` is without injections, `profiles` are the names of
    Tessera's schedulers, `shared` has what pods have in common."""
    pod, request = decoded.pod, decoded.request
    uid, name = (grant.uid, grant.name) if grant else (pod.metadata.uid, pod.metadata.name)
    if request is None:
        shape = shared.one(PodShape(pod=_lean(pod, shared)))
        return PlanPodSummary(uid=uid, name=name, shape=shape, node=intern(decoded.node))
    ties, unread = _ties_of(decoded.raw)
    if not decoded.node:
        tried = _was_tried(pod, ties.status, profiles)
        shape = PodShape(pod=pod, request=request if tried else None)
        return PlanPodSummary(uid=uid, name=name, shape=shape, since=decoded.created)
    owner = controller_of(ties.metadata.owner_references) or OwnerRef()
    shape = PodShape(
        pod=_running(pod, shared),
        request=replace(request, name="", uid="", containers=shared.one(request.containers)),
        init_over=decoded.init_over,
        owner=owner.uid,
        owner_kind=intern(owner.kind),
        tied=unread or _tied(pod, ties.spec),
        local=any(v.empty_dir is not None for v in ties.spec.volumes),
        grace_s=_grace_s(ties.spec),
    )
    return PlanPodSummary(
        uid=uid, name=name, shape=shared.one(shape), node=intern(decoded.node), grant=grant,
        since=decoded.started or decoded.created,
    )  # fmt: skip


def _was_tried(pod: Pod, status: _Status, profiles: frozenset[str]) -> bool:
    """Whether one of Tessera's schedulers found no place for it: not a pod whose gates are closed,
    and not another scheduler's."""
    reasons = (c.reason for c in status.conditions if c.type == "PodScheduled")
    return pod.spec.scheduler_name in profiles and "Unschedulable" in reasons


def _ties_of(raw: bytes) -> tuple[_Ties, str]:
    """What binds it, and why that cannot be read: a pod of an odd form holds its cards all the
    same, and stays where it is."""
    try:
        return _ties(raw), ""
    except msgspec.DecodeError as e:
        return _Ties(), f"its manifest cannot be read whole: {e}"


def _running(pod: Pod, shared: SharedValues) -> Pod:
    """What plans read of a pod that holds cards, and others like it."""
    meta, spec = pod.metadata, pod.spec
    notes = {key: text for key, text in meta.annotations.items() if key in _KEYS_READ}
    return Pod(
        metadata=ObjectMeta(
            namespace=intern(meta.namespace), deletion_timestamp=meta.deletion_timestamp,
            labels=shared.one(meta.labels), annotations=shared.one(notes),
        ),
        spec=shared.one(
            replace(
                spec, node_name="", containers=_amounts(spec.containers), volumes=(),
                init_containers=_amounts(spec.init_containers), ephemeral_containers=(),
            )
        ),
        status=shared.one(PodStatus(phase=pod.status.phase)),
    )  # fmt: skip


def _lean(pod: Pod, shared: SharedValues) -> Pod:
    """What is counted of a pod that holds no cards, and of others like it."""
    spec = pod.spec
    return Pod(
        metadata=ObjectMeta(namespace=intern(pod.metadata.namespace)),
        spec=shared.one(
            replace(
                spec, node_name="", containers=_amounts(spec.containers), volumes=(),
                init_containers=_amounts(spec.init_containers), ephemeral_containers=(),
                affinity=None, tolerations=(), topology_spread_constraints=(),
            )
        ),
        status=shared.one(PodStatus(phase=pod.status.phase)),
    )  # fmt: skip


def _amounts(containers: Iterable[Container]) -> tuple[Container, ...]:
    return tuple(
        Container(name=c.name, resources=c.resources, restart_policy=c.restart_policy)
        for c in containers
    )


def _tied(pod: Pod, spec: _Spec) -> str:
    """What may bind it to its node in a way that plans do not evaluate."""
    affinity: dict[str, Any] = pod.spec.affinity or {}
    spreads = pod.spec.topology_spread_constraints
    signs = (
        ("affinity between pods", "podAffinity" in affinity or "podAntiAffinity" in affinity),
        ("topology spread", any(s.when_unsatisfiable != "ScheduleAnyway" for s in spreads)),
        ("a volume", any(_bound(v) for v in spec.volumes)),
        ("host ports", any(p.host_port for c in spec.containers for p in c.ports)),
        ("the host's network", bool(spec.host_network)),
    )
    return " and ".join(name for name, there in signs if there)


def _grace_s(spec: _Spec) -> float:
    seconds = spec.termination_grace_period_seconds
    return 30 if seconds is None else seconds  # as the API server fills it in


def _bound(volume: _Volume) -> bool:
    kinds = (volume.host_path, volume.persistent_volume_claim, volume.ephemeral)
    return any(kind is not None for kind in kinds)


_ties = decoder(_Ties)
