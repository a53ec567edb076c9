"""Everything that the manifests say, sorted: nodes, bound pods, pods to plan, limits."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from tessera_cli.errors import Malformed, Repeated
from tessera_cli.input.manifests import BAD_JSON, Item, named
from tessera_cli.place.decode import called, convert
from tessera_cli.place.gang_objects import GROUP_KINDS, QUEUE_KINDS, GangObjects
from tessera_cli.place.lenient import repaired, without_nulls
from tessera_cli.place.node_settings import node_settings
from tessera_cli.place.operator_workloads import OPERATED
from tessera_cli.place.other_kinds import Others
from tessera_cli.place.preemption.objects import BUDGET, PRIORITY_CLASS, PreemptionObjects
from tessera_cli.place.quota_objects import GPU_QUOTA, accelerator_quota, gpu_quota, resource_quota
from tessera_cli.place.reservations import RESERVATION, reserved
from tessera_cli.place.volcano_jobs import GANGS_OF_WORKLOADS, VOLCANO_JOBS
from tessera_cli.place.workloads import WORKLOADS, Copies, Read, Workload
from tessera_cli.text import several
from tessera_core.admission.admit import claims_on, is_result
from tessera_core.admission.pod_size import too_many_bytes
from tessera_core.gangs.gang import GangOrigin
from tessera_core.inventory.node_settings import NodeSettings
from tessera_core.kube.pod_requests import pod_requests
from tessera_core.kube.quantity import BadQuantity
from tessera_core.recovery.cluster import Cluster
from tessera_core.registry.registry import DialectRegistry
from tessera_schema.annotation_keys import GROUP, NODE_SETTINGS, QUOTA_KIND
from tessera_schema.kube import Node, NodeStatus, ObjectMeta, Pod
from tessera_schema.quotas import Limit

_SPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "https://tessera.dev/pods")
_MAKE_PODS: Final[Mapping[tuple[str, str], Read]] = {
    **WORKLOADS,
    **VOLCANO_JOBS,
    **OPERATED,
}
_decode_pod: Final = msgspec.json.Decoder(Pod).decode


class Planned(Struct, frozen=True):
    """A pod to plan, and what its manifest should have said otherwise."""

    pod: Pod
    warnings: tuple[str, ...] = ()


class ClusterInput:
    """Collects objects one by one. Adding raises Malformed, Repeated or NotKubernetes."""

    def __init__(
        self,
        registry: DialectRegistry,
        notify: Callable[[str], None],
        preemption: PreemptionObjects | None = None,
    ) -> None:
        """`notify` is called with what the user should know and what stops nothing; `preemption`
        gets what it needs, where that is wanted."""
        self.registry = registry
        self._notify = notify
        self._nodes: list[Node] = []
        self._bound: list[Pod] = []
        self.planned: list[Planned] = []
        self.gangs = GangObjects(registry)
        self._limits: list[Limit] = []
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._settings: NodeSettings | None = None
        self._others = Others()
        self._places: dict[str, str] = {}
        self._to_plan: set[str] = set()
        self._uids: set[str] = set()
        self._made_already: list[str] = []
        self.gaps: list[str] = []
        """What the plan lacks, or has counted though it will not be so: one sentence each."""
        self._kinds: Mapping[tuple[str, str], Callable[[Item], None]] = {
            ("", "Node"): self._node,
            ("", "Pod"): self._pod,
            ("", "Namespace"): self._namespace,
            ("", "ConfigMap"): self._config_map,
            ("", "ResourceQuota"): self._resource_quota,
            (GROUP, QUOTA_KIND): self._accelerator_quota,
            RESERVATION: self._reservation,
            **dict.fromkeys(GROUP_KINDS, self.gangs.add_group),
            **dict.fromkeys(QUEUE_KINDS, self.gangs.add_queue),
            **dict.fromkeys(_MAKE_PODS, self._workload),
        }
        self._preemption = preemption
        if preemption is not None:
            self._kinds = {
                **self._kinds,
                PRIORITY_CLASS: preemption.add_class,
                BUDGET: preemption.add_budget,
            }

    def add(self, item: Item) -> None:
        """Take in one object."""
        self._kinds.get((item.group, item.kind), self._others.add)(item)

    def cluster(self) -> Cluster:
        """What planning starts from. Reports which objects were of no use."""
        customs = self._others.sort({node.name for node in self._nodes})
        if self._others.skipped():
            self._notify(self._others.skipped())
        self.gaps += self._others.gaps()
        if self._made_already:
            self._notify(
                f"{several(self._made_already)}: in the cluster already, so are the pods: "
                "not planned again (remove metadata.uid to plan its template)"
            )
        return Cluster(
            nodes=self._nodes, bound=self._bound, customs=customs, limits=self._limits,
            namespaces=self._namespaces, settings=self._settings,
        )  # fmt: skip

    # -- kinds

    def _node(self, item: Item) -> None:
        raw = item.generic()
        where = called(item, raw)
        try:
            node = msgspec.convert(raw, Node)
        except msgspec.ValidationError:
            node = convert(
                repaired(raw, lambda text: self._notify(f"{where}: {text}")), Node, where
            )
        self._once(f"Node {_name(node.metadata, where)}", where)
        self._nodes.append(_completed(node))

    def _pod(self, item: Item) -> None:
        pod = _as_it_is(item)
        if pod is None or not pod.spec.node_name:
            raw = item.generic()
            where = called(item, raw)
            warnings: list[str] = []
            pod = convert(repaired(raw, warnings.append), Pod, where)
            if not pod.spec.node_name:
                if not pod.terminal and pod.metadata.deletion_timestamp is None:
                    self._weigh(pod, raw, where)
                    self._plan(pod, self._pod_name(pod, raw, where), where, warnings)
                return
        bound = self._bind(pod, item.where)
        if self._preemption is not None and not bound.terminal:
            self._preemption.add_bound(bound, item)
        self.gangs.pods.append(bound)

    def _bind(self, pod: Pod, where: str) -> Pod:
        if not pod.terminal:
            if self._is_new(pod):
                on = f"{where}, Pod {pod.metadata.name}: spec.nodeName: {pod.spec.node_name}"
                self.gaps.append(
                    f"{on}: without uid, status and annotations of a scheduler it is no pod that "
                    "runs: counted as one, but refused when it is created; leave it out, and name "
                    "the node in nodeSelector"
                )
            pod = self._identified(pod, _name(pod.metadata, where))
            self._once(f"Pod {pod.name}", where)
            self._bound.append(pod)
        return pod

    def _weigh(self, pod: Pod, raw: Mapping[str, Any], where: str) -> None:
        """Report a manifest that the webhook would not read. Pods that are stored have grown."""
        wrong = too_many_bytes(len(msgspec.json.encode(raw)))
        if wrong is not None and not pod.metadata.uid and claims_on(self.registry, pod):
            self.gaps.append(f"{where}: refused when it is created: {wrong.message}")

    def _is_new(self, pod: Pod) -> bool:
        """Whether a pod that asks for shares and names its node is still to be created."""
        meta = pod.metadata
        made = meta.uid or pod.status.phase or any(
            is_result(self.registry, key) for key in meta.annotations
        )  # fmt: skip
        return not made and bool(claims_on(self.registry, pod))

    def _workload(self, item: Item) -> None:
        raw = item.generic()
        where = called(item, raw)
        meta = convert(without_nulls(raw.get("metadata") or {}), _Owner, where, field="metadata")
        if meta.uid:
            self._made_already.append(f"{item.kind} {meta.name}")
            return
        spec = raw.get("spec")
        if not isinstance(spec, dict):
            raise Malformed(where, "spec", named(spec), "write a mapping")
        name = _name(ObjectMeta(name=meta.name), where)
        workload = Workload(name, spec, where, self._notify, self.gaps.append)
        if (item.group, item.kind) in GANGS_OF_WORKLOADS:
            group, source = GANGS_OF_WORKLOADS[item.group, item.kind](workload)
            own = replace(group.metadata, namespace=meta.namespace)
            self.gangs.add(GangOrigin.VOLCANO, replace(group, metadata=own), where, source)
        for copies in _MAKE_PODS[item.group, item.kind](workload):
            self._copies(copies, meta.namespace, where)

    def _copies(self, copies: Copies, namespace: str, where: str) -> None:
        warnings: list[str] = []
        pod = convert(
            repaired(copies.template, warnings.append, copies.field), Pod, where, field=copies.field
        )
        self._weigh(pod, copies.template, where)
        for number, name in enumerate(copies.names):
            meta = replace(
                pod.metadata, name=name, namespace=namespace, uid="",
                annotations={**pod.metadata.annotations, **copies.annotations(number)},
            )  # fmt: skip
            copy = replace(pod, metadata=meta)
            if copy.spec.node_name:
                self.gangs.pods.append(self._bind(copy, where))
            else:
                self._plan(copy, name, where, warnings)

    def _reservation(self, item: Item) -> None:
        raw = without_nulls(item.generic())
        where = called(item, raw)
        found = reserved(raw)
        if found.gap:
            self.gaps.append(f"{where}: {found.gap}")
        if found.pod is not None:
            made = repaired(found.pod, lambda text: self._notify(f"{where}: {text}"))
            self._bind(convert(made, Pod, where), where)

    def _namespace(self, item: Item) -> None:
        raw = without_nulls(item.generic())
        where = called(item, raw)
        meta = convert(raw.get("metadata") or {}, ObjectMeta, where, field="metadata")
        self._namespaces[_name(meta, where)] = meta.labels

    def _config_map(self, item: Item) -> None:
        """Two of all: settings of cards, and GPU Manager's quotas."""
        raw = without_nulls(item.generic())
        meta = raw.get("metadata")
        at = (meta.get("namespace"), meta.get("name")) if isinstance(meta, dict) else None
        if at == GPU_QUOTA:
            self._limits += gpu_quota(raw, called(item, raw))
        elif at is not None and at[1] == NODE_SETTINGS:
            where = called(item, raw)
            self._settings = node_settings(raw, self.registry, where, self._notify)
        else:
            self._others.add(item)

    def _resource_quota(self, item: Item) -> None:
        raw = without_nulls(item.generic())
        where = called(item, raw)
        self._limits += resource_quota(raw, self.registry, where, self._notify)

    def _accelerator_quota(self, item: Item) -> None:
        raw = without_nulls(item.generic())
        where = called(item, raw)
        self._limits.append(accelerator_quota(raw, self.registry, where, item.version))

    # -- pods

    def _plan(self, pod: Pod, name: str, where: str, warnings: Iterable[str]) -> None:
        pod = self._identified(pod, name)
        warnings = [*warnings, *self._namesakes(pod, where)]
        _check_containers(pod, where)
        try:
            pod_requests(pod, self.registry.resources)
        except BadQuantity as e:
            raise Malformed(where, str(e)) from e
        self.planned.append(Planned(pod, tuple(warnings)))
        self.gangs.pods.append(pod)

    def _identified(self, pod: Pod, name: str) -> Pod:
        """The pod with a namespace, a name, and a uid that no other pod has."""
        namespace = pod.metadata.namespace or "default"
        uid = pod.metadata.uid
        salt = f"{namespace}/{name}"
        while not uid or uid in self._uids:
            uid = str(uuid.uuid5(_SPACE, salt))
            salt += "/again"
        self._uids.add(uid)
        return replace(pod, metadata=replace(pod.metadata, name=name, namespace=namespace, uid=uid))

    def _pod_name(self, pod: Pod, raw: Mapping[str, Any], where: str) -> str:
        prefix = (raw.get("metadata") or {}).get("generateName")
        if not pod.metadata.name and isinstance(prefix, str) and prefix:
            return f"{prefix}{len(self.planned)}"
        return _name(pod.metadata, where)

    def _namesakes(self, pod: Pod, where: str) -> Iterator[str]:
        """Documents about a system often call all their pods alike: those are planned, with a
        warning. A pod that runs already cannot be planned under its own name."""
        what = f"Pod {pod.name}"
        if what in self._to_plan:
            yield (
                f"{self._places[what]} has a pod of this name too: the API server would take them "
                "for one; planned as two, give each a name of its own"
            )
            return
        self._once(what, where)
        self._to_plan.add(what)

    def _once(self, what: str, where: str) -> None:
        if what in self._places:
            text = f"{what} is also in {self._places[what]}"
            raise Repeated(where, text, "rename or remove one of the two")
        self._places[what] = where


class _Owner(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


def _as_it_is(item: Item) -> Pod | None:
    """The pod as an API server gives it; None when the manifest is looser than that."""
    try:
        if isinstance(item.content, Raw):
            return _decode_pod(item.content)
        return msgspec.convert(item.content, Pod)
    except BAD_JSON:
        return None


def _completed(node: Node) -> Node:
    """Capacity and allocatable stand in for each other, as the API server has it for one of them;
    manifests written by hand often have only one."""
    capacity = node.status.capacity or node.status.allocatable
    allocatable = node.status.allocatable or node.status.capacity
    return replace(node, status=NodeStatus(capacity=capacity, allocatable=allocatable))


def _name(meta: ObjectMeta, where: str) -> str:
    if not meta.name:
        raise Malformed(where, "metadata.name", "missing", "name the object")
    for field, text in (("name", meta.name), ("namespace", meta.namespace)):
        if not text.isprintable() or " " in text:
            raise Malformed(
                where, f"metadata.{field}", named(text), "write small letters, digits, - and ."
            )
    return meta.name


def _check_containers(pod: Pod, where: str) -> None:
    if not pod.spec.containers:
        raise Malformed(where, "spec.containers", "none", "write at least one container")
    seen: set[str] = set()
    inits = len(pod.spec.init_containers)
    for i, container in enumerate(pod.all_containers):
        field = f"spec.initContainers[{i}]" if i < inits else f"spec.containers[{i - inits}]"
        if not container.name:
            raise Malformed(where, f"{field}.name", "missing", "name the container")
        if container.name in seen:
            raise Malformed(where, f"{field}.name", f"{container.name} comes twice", "rename one")
        seen.add(container.name)
