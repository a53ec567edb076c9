"""The parts of Kubernetes objects that Tessera reads.

Decoding skips every other field, which keeps a list of 50,000 pods cheap. Quantities stay as
written (`tessera_core.kube.quantity` reads them); absent lists and maps are empty. What is decoded
has no cycles, so that Python's garbage collector need not walk over it (`gc=False`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct

Quantity = str | int | float
"""A resource quantity as a manifest may spell it; the API server always sends strings."""

TERMINAL_PHASES: Final = frozenset({"Succeeded", "Failed"})


class OwnerRef(Struct, frozen=True, gc=False):
    """An entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Struct, frozen=True, rename="camel", gc=False):
    """Identity and free-form keys of any object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: tuple[OwnerRef, ...] = ()


class EnvVar(Struct, frozen=True, rename="camel", gc=False):
    """One environment variable; `valueFrom` variables have an empty value here."""

    name: str
    value: str = ""
    value_from: dict[str, Any] | None = None


class Resources(Struct, frozen=True, gc=False):
    """`resources` of a container."""

    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}


class Capabilities(Struct, frozen=True, gc=False):
    """Capabilities that a container has beyond the runtime's own."""

    add: tuple[str, ...] = ()


class SELinuxOptions(Struct, frozen=True, gc=False):
    """How SELinux confines a process."""

    type: str = ""


class SecurityProfile(Struct, frozen=True, gc=False):
    """A seccomp or AppArmor profile: what of the kernel a process may use."""

    type: str = ""


class WindowsOptions(Struct, frozen=True, rename="camel", gc=False):
    """Of processes on Windows nodes."""

    host_process: bool | None = None


class SecurityContext(Struct, frozen=True, rename="camel", gc=False):
    """The security fields, of a container or a pod, that defeat device isolation by themselves."""

    privileged: bool | None = None
    capabilities: Capabilities | None = None
    proc_mount: str | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: WindowsOptions | None = None
    seccomp_profile: SecurityProfile | None = None
    app_armor_profile: SecurityProfile | None = None


class VolumeMount(Struct, frozen=True, rename="camel", gc=False):
    """Where a container sees a volume."""

    name: str = ""
    mount_path: str = ""
    read_only: bool = False


class VolumeDevice(Struct, frozen=True, rename="camel", gc=False):
    """Where a container sees a volume as a block device."""

    device_path: str = ""


class HostPath(Struct, frozen=True, gc=False):
    """A file or folder of the node."""

    path: str = ""


class Volume(Struct, frozen=True, rename="camel", gc=False):
    """A volume of a pod; only what comes from the node matters here."""

    name: str = ""
    host_path: HostPath | None = None


class Container(Struct, frozen=True, rename="camel", gc=False):
    """A container, an init container, or a sidecar (init container with restartPolicy Always)."""

    name: str = ""
    resources: Resources = Resources()
    env: tuple[EnvVar, ...] = ()
    restart_policy: str | None = None
    security_context: SecurityContext | None = None
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    target_container_name: str = ""
    """Of a container that is added for debugging: whose processes it sees."""


class ResourceClaim(Struct, frozen=True, gc=False):
    """Devices that a pod claims in addition to its resources (dynamic resource allocation)."""

    name: str = ""


class Toleration(Struct, frozen=True, gc=False):
    """See `core/v1 Toleration`; an empty key with operator Exists tolerates everything."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Spread(Struct, frozen=True, rename="camel", gc=False):
    """A topology spread constraint; only whether it is a wish or a demand matters here."""

    when_unsatisfiable: str = ""


class SchedulingGroup(Struct, frozen=True, rename="camel", gc=False):
    """Kubernetes' own gangs (1.36)."""

    pod_group_name: str = ""


class SchedulingGate(Struct, frozen=True, gc=False):
    """What keeps a pod from being scheduled until somebody removes it."""

    name: str = ""


class PodSpec(Struct, frozen=True, rename="camel", gc=False):
    """What placement needs of a pod's spec. `affinity` stays raw: few pods have one."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    """Added to a running pod to debug it; they cannot ask for resources."""
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()
    security_context: SecurityContext | None = None
    """Of all containers."""
    share_process_namespace: bool | None = None
    """Whether the containers see each other's processes."""
    host_pid: bool = msgspec.field(name="hostPID", default=False)
    host_ipc: bool = msgspec.field(name="hostIPC", default=False)
    node_name: str = ""
    active_deadline_seconds: int | None = None
    """Seconds after its start at which kubelet ends it."""
    termination_grace_period_seconds: float | None = None
    """Seconds that its containers get to end by themselves; the API server always says."""
    scheduler_name: str = ""
    priority: int | None = None
    """As admission resolved the pod's priority class; none = 0."""
    priority_class_name: str = ""
    preemption_policy: str | None = None
    """`Never`: no pod is evicted for it."""
    restart_policy: str = "Always"
    runtime_class_name: str | None = None
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    affinity: dict[str, Any] | None = None
    overhead: dict[str, Quantity] = {}
    topology_spread_constraints: tuple[Spread, ...] = ()
    scheduling_group: SchedulingGroup | None = None
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    resources: Resources = Resources()
    """Of the pod as a whole (Kubernetes 1.34)."""


class ContainerStateRunning(Struct, frozen=True, gc=False):
    """A container runs."""


class ContainerStateTerminated(Struct, frozen=True, rename="camel", gc=False):
    """A container's end."""

    exit_code: int = 0


class ContainerState(Struct, frozen=True, gc=False):
    """Neither = it waits."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Struct, frozen=True, gc=False):
    """Status of one container."""

    name: str = ""
    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True, rename="camel", gc=False):
    """Phase, how far containers are, and where kube-scheduler made room."""

    phase: str = ""
    start_time: str = ""
    """When kubelet reported the pod first, which it has admitted then; empty = not yet."""
    nominated_node_name: str = ""
    """The node on which pods were evicted for this one."""
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Struct, frozen=True, rename="camel", gc=False):
    """A pod as placement sees it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def name(self) -> str:
        """`namespace/name`, as messages print it."""
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"

    @property
    def terminal(self) -> bool:
        """True when the pod holds nothing any more."""
        return self.status.phase in TERMINAL_PHASES

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers first, then app containers: the order of every dialect's lists."""
        return (*self.spec.init_containers, *self.spec.containers)

    def container(self, position: int) -> Container:
        """One of `all_containers`, without making a list of them."""
        inits = self.spec.init_containers
        if position < len(inits):
            return inits[position]
        return self.spec.containers[position - len(inits)]


class Taint(Struct, frozen=True, gc=False):
    """A node's taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True, gc=False):
    """What keeps pods off a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeStatus(Struct, frozen=True, gc=False):
    """Resources of a node, by name."""

    capacity: dict[str, Quantity] = {}
    allocatable: dict[str, Quantity] = {}


class Node(Struct, frozen=True, gc=False):
    """A node as placement sees it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.metadata.name


class Custom(Struct, frozen=True, gc=False):
    """A custom resource that a dialect may read cards from (Koordinator's Device)."""

    kind: str
    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
