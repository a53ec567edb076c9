"""What can be set of an agent. Read once, in `__main__`; each variable is TESSERA_ and the path of
its field, such as TESSERA_HEALTH_POLL_S. Each section stands in the package that it is for."""

from __future__ import annotations

from tessera_agent.admission.resize import ResizeSettings
from tessera_agent.api.grant_keys import StoredKeySettings
from tessera_agent.delivery.settings import CardDelivery, DeliverySettings, ToolkitSettings
from tessera_agent.device_plugin.settings import PluginSettings
from tessera_agent.devices.settings import HealthSettings, InventorySettings, NodeSettingsSource
from tessera_agent.lending.settings import LendingSettings
from tessera_agent.nri_plugin.settings import NriSettings
from tessera_agent.readers import ReaderSettings
from tessera_agent.reclaim.settings import ReclaimSettings
from tessera_agent.usage.settings import UsageSettings
from tessera_runtime.bus.outbox import OutboxSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.kube.heartbeat import HeartbeatSettings
from tessera_runtime.service_settings import ServiceSettings


class AgentSettings(ServiceSettings, frozen=True, kw_only=True):
    """One vendor's agent on one node."""

    node: str
    """The node's name in Kubernetes."""
    vendor: str
    """Whose cards this agent looks after."""
    folder: str = "/var/lib/tessera"
    """Where the limits and usage files of containers are kept."""
    giving: CardDelivery = CardDelivery.RUNTIME
    """`runtime`, or `allocate` on nodes whose container runtime has no NRI. For a vendor whose own
    device plugin gives its cards nothing but `runtime` will do."""
    reader: ReaderSettings = ReaderSettings()
    delivery: DeliverySettings = DeliverySettings()
    toolkit: ToolkitSettings = ToolkitSettings()
    health: HealthSettings = HealthSettings()
    inventory: InventorySettings = InventorySettings()
    node_settings: NodeSettingsSource = NodeSettingsSource()
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    usage: UsageSettings = UsageSettings()
    lending: LendingSettings = LendingSettings()
    reclaim: ReclaimSettings = ReclaimSettings()
    resize: ResizeSettings = ResizeSettings()
    nri: NriSettings = NriSettings()
    plugin: PluginSettings = PluginSettings()
    keys: StoredKeySettings = StoredKeySettings()
    outbox: OutboxSettings = OutboxSettings(capacity=2000)
    """An hour and a half of usage at the least, and as many other messages: some 10 MB with 50
    containers."""
    http: HttpSettings = HttpSettings()
    """Health and metrics; on a node any free port unless set otherwise."""

    def check(self) -> None:
        """Raises BadSettings for settings that do not go together."""
        self.delivery.chosen(self.giving)
        if self.plugin.numa and self.giving is CardDelivery.RUNTIME:
            raise BadSettings(
                f"plugin.numa: true: kubelet asks device plugins alone: write false, or giving "
                f"{CardDelivery.ALLOCATE}"
            )
