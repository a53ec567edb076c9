"""What can be set of an agent. Read once, in `__main__`; each variable is TESSERA_ and the path of
its field, such as TESSERA_HEALTH_POLL_S. Each section stands in the package that it is for."""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import fields

from tessera_agent.admission.resize import ResizeSettings
from tessera_agent.api.grant_keys import StoredKeySettings
from tessera_agent.device_plugin.settings import MOST_WAIT_S, PluginSettings
from tessera_agent.devices.settings import HealthSettings, InventorySettings
from tessera_agent.lending.settings import LendingSettings
from tessera_agent.nri_plugin.settings import NriSettings
from tessera_agent.readers import ReaderSettings
from tessera_agent.readers.device_handover import CardDelivery
from tessera_agent.usage.settings import UsageSettings
from tessera_runtime.bus.outbox import OutboxSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.service_settings import ServiceSettings

_POSITIVE: Final = {
    "reader": ("call_s",),
    "health": ("poll_s", "patience_s", "forget_s"),
    "inventory": ("slots", "write_s", "verify_s", "publish_s"),
    "usage": ("interval_s", "correct_s", "slack_mib", "context_mib", "overhead_mib"),
    "resize": ("look_s", "patience_s", "throttle_s"),
    "lending": ("tick_s", "loan_s", "idle_s", "active_s", "bounds_s"),
    "nri": ("keep_files_s",),
    "plugin": ("wait_s", "call_s", "look_s"),
}


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
    health: HealthSettings = HealthSettings()
    inventory: InventorySettings = InventorySettings()
    usage: UsageSettings = UsageSettings()
    lending: LendingSettings = LendingSettings()
    resize: ResizeSettings = ResizeSettings()
    nri: NriSettings = NriSettings()
    plugin: PluginSettings = PluginSettings()
    keys: StoredKeySettings = StoredKeySettings()
    outbox: OutboxSettings = OutboxSettings(capacity=2000)
    """Twenty minutes of usage and as many other messages: some 10 MB with 50 containers."""
    http: HttpSettings = HttpSettings()
    """Health and metrics; on a node any free port unless set otherwise."""

    def check(self) -> None:
        """Raises BadSettings."""
        for section, names in _POSITIVE.items():
            settings = getattr(self, section)
            for field in fields(settings):
                value = getattr(settings, field.name)
                if field.name in names and value <= 0:
                    name = f"{section}.{field.encode_name}"
                    raise BadSettings(f"{name}: {value}: write a number above 0")
        if not re.fullmatch("[0-9]{2}", self.nri.index):
            raise BadSettings(f'nri.index: "{self.nri.index}": write two digits, such as 10')
        if self.lending.loan_s < 2 * self.lending.tick_s:
            raise BadSettings(
                f"lending.loan_s: {self.lending.loan_s:g}: write at least twice lending.tick_s "
                f"({self.lending.tick_s:g}), or loans would end between two looks"
            )
        if self.plugin.wait_s > MOST_WAIT_S:
            raise BadSettings(
                f"plugin.wait_s: {self.plugin.wait_s:g}: write {MOST_WAIT_S:g} or less: kubelet "
                "admits no other pod while it waits"
            )
        if self.health.recover_polls < 0:
            raise BadSettings(f"health.recover_polls: {self.health.recover_polls}: write 0 or more")
