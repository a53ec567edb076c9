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


class PlanPodSummary(Struct, frozen=True, kw_only=True, gc=False):
    """One pod. `tied` says what binds it to its node, empty where nothing does; `local` = it has an
    emptyDir."""

    pod: Pod
    """As written while it waits; else what plans read of it, with parts that equal pods share and
    without its node."""
    node: str = ""
    """Empty while it waits."""
    request: PodRequest | None = None
    grant: Grant | None = None
    init_over: bool = False
    since: float = 0
    """Unix time: when its node took it, or, of one that waits, when it was created."""
    owner: str = ""
    owner_kind: str = ""
    local: bool = False
    grace_s: float = 30
    tied: str = ""

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def ended(self) -> bool:
        """Whether it holds nothing any more."""
        return self.pod.terminal

    @property
    def bound_pod(self) -> Pod:
        """The pod with its node."""
        return replace(self.pod, spec=replace(self.pod.spec, node_name=self.node))


def summary(
    decoded: DecodedPod, grant: Grant | None, profiles: frozenset[str], shared: SharedValues
) -> PlanPodSummary:
    """What plans need of a pod; `grant` is without injections, `profiles` are the names of
    Tessera's schedulers, `shared` has what pods have in common."""
    pod, request = decoded.pod, decoded.request
    if request is None:
        return PlanPodSummary(pod=_lean(pod, shared), node=intern(decoded.node))
    ties, unread = _ties_of(decoded.raw)
    if not decoded.node:
        tried = _was_tried(pod, ties.status, profiles)
        return PlanPodSummary(pod=pod, request=request if tried else None, since=decoded.created)
    owner = controller_of(ties.metadata.owner_references) or OwnerRef()
    return PlanPodSummary(
        pod=_running(pod, shared),
        node=intern(decoded.node),
        request=_request(request, pod, shared),
        grant=grant,
        init_over=decoded.init_over,
        since=decoded.started or decoded.created,
        owner=intern(owner.uid),
        owner_kind=intern(owner.kind),
        tied=unread or _tied(pod, ties.spec),
        local=any(v.empty_dir is not None for v in ties.spec.volumes),
        grace_s=_grace_s(ties.spec),
    )


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
    """What plans read of a pod that holds cards."""
    meta, spec = pod.metadata, pod.spec
    notes = {key: text for key, text in meta.annotations.items() if key in _KEYS_READ}
    return Pod(
        metadata=ObjectMeta(
            name=intern(meta.name), namespace=intern(meta.namespace), uid=intern(meta.uid),
            deletion_timestamp=meta.deletion_timestamp, labels=shared.one(meta.labels),
            annotations=shared.one(notes),
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
    """What is counted of a pod that holds no cards."""
    meta, spec = pod.metadata, pod.spec
    return Pod(
        metadata=ObjectMeta(name=meta.name, namespace=intern(meta.namespace), uid=meta.uid),
        spec=shared.one(
            replace(
                spec, node_name="", containers=_amounts(spec.containers), volumes=(),
                init_containers=_amounts(spec.init_containers), ephemeral_containers=(),
                affinity=None, tolerations=(), topology_spread_constraints=(),
            )
        ),
        status=shared.one(PodStatus(phase=pod.status.phase)),
    )  # fmt: skip


def _request(request: PodRequest, pod: Pod, shared: SharedValues) -> PodRequest:
    meta = pod.metadata
    return replace(
        request, namespace=intern(request.namespace), name=intern(meta.name), uid=intern(meta.uid),
        containers=shared.one(request.containers),
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
