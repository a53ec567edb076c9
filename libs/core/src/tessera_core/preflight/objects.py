"""The objects of a cluster that checks compare, each cut down to what they need of it.

Decoding skips every other field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Raw, Struct

from tessera_core.kube.node_affinity import NodeAffinity
from tessera_schema.kube import Node, ObjectMeta, PodSpec, Quantity
from tessera_schema.node_cards import ALLOCATE

PART_OF: Final = "app.kubernetes.io/part-of"
NAME_LABEL: Final = "app.kubernetes.io/name"
VENDOR_LABEL: Final = "app.kubernetes.io/component"
PRODUCT: Final = "tessera"
_DELIVERY: Final = "TESSERA_GIVING"


class KeySelector(Struct, frozen=True):
    """A key of a Secret that a variable is read from."""

    name: str = ""
    key: str = ""
    optional: bool = False


class VariableSource(Struct, frozen=True, rename="camel"):
    """Where a variable is read from."""

    secret_key_ref: KeySelector | None = None


class TemplateVariable(Struct, frozen=True, rename="camel"):
    """An environment variable of a container."""

    name: str = ""
    value: str = ""
    value_from: VariableSource | None = None


class TemplateContainer(Struct, frozen=True, rename="camel"):
    """A container of a workload's template."""

    name: str = ""
    image: str = ""
    env: tuple[TemplateVariable, ...] = ()


class SecretItem(Struct, frozen=True):
    """A key of a Secret that becomes a file."""

    key: str = ""


class SecretVolume(Struct, frozen=True, rename="camel"):
    """A Secret that is mounted."""

    secret_name: str = ""
    items: tuple[SecretItem, ...] = ()
    optional: bool = False


class ConfigMapVolume(Struct, frozen=True):
    """A ConfigMap that is mounted."""

    name: str = ""


class TemplateVolume(Struct, frozen=True, rename="camel"):
    """A volume of a workload's template."""

    name: str = ""
    secret: SecretVolume | None = None
    config_map: ConfigMapVolume | None = None


class TemplateSpec(Struct, frozen=True, rename="camel"):
    """The pod of a workload's template."""

    containers: tuple[TemplateContainer, ...] = ()
    init_containers: tuple[TemplateContainer, ...] = ()
    volumes: tuple[TemplateVolume, ...] = ()
    runtime_class_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] | None = None


class PodTemplate(Struct, frozen=True):
    """What a workload makes pods of."""

    spec: TemplateSpec = TemplateSpec()


class WorkloadSpec(Struct, frozen=True):
    """Of a Deployment, StatefulSet or DaemonSet."""

    replicas: int | None = None
    template: PodTemplate = PodTemplate()


class WorkloadStatus(Struct, frozen=True, rename="camel"):
    """How many pods are ready, of how many."""

    ready_replicas: int = 0
    number_ready: int = 0
    desired_number_scheduled: int = 0


class Owner(Struct, frozen=True):
    """What made an object."""

    kind: str = ""
    name: str = ""


class ManagedFields(Struct, frozen=True):
    """When a client last wrote, by the API server's clock."""

    time: str | None = None


class FullMeta(Struct, frozen=True, rename="camel"):
    """Metadata with owners and times of writes."""

    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    owner_references: tuple[Owner, ...] = ()
    managed_fields: tuple[ManagedFields, ...] = ()


class WorkloadFacts(Struct, frozen=True):
    """A Deployment, StatefulSet or DaemonSet."""

    metadata: FullMeta = FullMeta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    @property
    def part(self) -> str:
        """Which part of Tessera it is; empty where it is none."""
        labels = self.metadata.labels
        return labels.get(NAME_LABEL, "") if labels.get(PART_OF) == PRODUCT else ""

    @property
    def vendor(self) -> str:
        """The vendor whose agent it is."""
        return self.metadata.labels.get(VENDOR_LABEL, "")

    @property
    def all_containers(self) -> tuple[TemplateContainer, ...]:
        """Init containers first."""
        spec = self.spec.template.spec
        return (*spec.init_containers, *spec.containers)

    @property
    def allocates(self) -> bool:
        """Whether this agent is a device plugin, so that the runtime does not call it."""
        return any(v.name == _DELIVERY and v.value == ALLOCATE
                   for c in self.all_containers for v in c.env)  # fmt: skip

    @property
    def selector(self) -> Callable[[NodeFacts], bool]:
        """Whether its node selector and affinity let its pods run on a node."""
        spec = self.spec.template.spec
        affinity = NodeAffinity(PodSpec(node_selector=spec.node_selector, affinity=spec.affinity))
        return lambda node: affinity.refusal(Node(metadata=node.metadata)) is None


class NodeSystemInfo(Struct, frozen=True, rename="camel"):
    """What kubelet says of itself."""

    container_runtime_version: str = ""
    kubelet_version: str = ""


class RuntimeHandler(Struct, frozen=True):
    """A handler that the node's container runtime knows; the default one has no name."""

    name: str = ""


class NodeFactsStatus(Struct, frozen=True, rename="camel"):
    """The status of a node."""

    capacity: dict[str, Quantity] = {}
    allocatable: dict[str, Quantity] = {}
    node_info: NodeSystemInfo = NodeSystemInfo()
    runtime_handlers: tuple[RuntimeHandler, ...] = ()


class NodeFacts(Struct, frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    status: NodeFactsStatus = NodeFactsStatus()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.metadata.name


class Condition(Struct, frozen=True):
    """A condition of a pod."""

    type: str = ""
    status: str = ""


class Waiting(Struct, frozen=True):
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


class FactsState(Struct, frozen=True):
    """The state of a container."""

    waiting: Waiting | None = None


class FactsStatus(Struct, frozen=True):
    """The status of a container."""

    name: str = ""
    state: FactsState = FactsState()


class PodFactsStatus(Struct, frozen=True, rename="camel"):
    """The status of a pod."""

    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[FactsStatus, ...] = ()
    container_statuses: tuple[FactsStatus, ...] = ()


class PodFactsSpec(Struct, frozen=True, rename="camel"):
    """Where a pod runs."""

    node_name: str = ""


class PodFacts(Struct, frozen=True):
    """A pod of Tessera's."""

    metadata: FullMeta = FullMeta()
    spec: PodFactsSpec = PodFactsSpec()
    status: PodFactsStatus = PodFactsStatus()

    @property
    def ready(self) -> bool:
        """Whether kubelet calls it ready."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def waits(self) -> Waiting | None:
        """What its first container that does not run waits for."""
        status = self.status
        all_of_it = (*status.init_container_statuses, *status.container_statuses)
        return next((c.state.waiting for c in all_of_it if c.state.waiting is not None), None)


class LeaseFactsSpec(Struct, frozen=True, rename="camel"):
    """The times of a Lease."""

    lease_duration_seconds: int = 0
    renew_time: str | None = None


class LeaseFacts(Struct, frozen=True):
    """An agent's Lease."""

    metadata: FullMeta = FullMeta()
    spec: LeaseFactsSpec = LeaseFactsSpec()


class BindingSpec(Struct, frozen=True, rename="camel"):
    """What a policy's binding does."""

    policy_name: str = ""
    validation_actions: tuple[str, ...] = ()


class PolicyBinding(Struct, frozen=True):
    """A ValidatingAdmissionPolicyBinding."""

    metadata: FullMeta = FullMeta()
    spec: BindingSpec = BindingSpec()


class PolicyFacts(Struct, frozen=True):
    """A ValidatingAdmissionPolicy."""

    metadata: FullMeta = FullMeta()


class ServiceReference(Struct, frozen=True):
    """The Service that a webhook calls."""

    namespace: str = ""
    name: str = ""


class ClientConfig(Struct, frozen=True, rename="camel"):
    """How a webhook is called."""

    service: ServiceReference | None = None


class RegisteredWebhook(Struct, frozen=True, rename="camel"):
    """One webhook of a configuration."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()


class WebhookRegistration(Struct, frozen=True):
    """A mutating or validating webhook configuration."""

    metadata: FullMeta = FullMeta()
    webhooks: tuple[RegisteredWebhook, ...] = ()


class RuntimeClassFacts(Struct, frozen=True):
    """A RuntimeClass."""

    metadata: FullMeta = FullMeta()
    handler: str = ""


class ConfigMapFacts(Struct, frozen=True):
    """A ConfigMap of Tessera's namespace, or of another scheduler's."""

    metadata: FullMeta = FullMeta()
    data: dict[str, str] = {}


class SecretKeys(Struct, frozen=True):
    """A Secret: its keys count, its values are not decoded."""

    data: dict[str, Raw] = {}


class InvolvedObject(Struct, frozen=True):
    """What an Event is about."""

    namespace: str = ""
    name: str = ""


class EventSource(Struct, frozen=True):
    """Where an Event was recorded."""

    host: str = ""


class EventFacts(Struct, frozen=True, rename="camel"):
    """An Event about a pod."""

    involved_object: InvolvedObject = InvolvedObject()
    reason: str = ""
    source: EventSource = EventSource()
