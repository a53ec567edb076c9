"""What an operator may set of the scheduler: variables `TESSERA_<FIELD>_<SUBFIELD>`.

A field that is renamed (`name="books"`) keeps the name that its variable had from the beginning.
"""

from __future__ import annotations

from msgspec import field

from tessera_runtime import dialect_config as dialects
from tessera_runtime.bus.outbox import OutboxSettings
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.kube.settings import KubeSettings, LeaseSettings
from tessera_runtime.service_settings import ServiceSettings
from tessera_scheduler.binding.settings import BindSettings
from tessera_scheduler.cache.hints import HintSettings
from tessera_scheduler.cache.packing import PackingSettings
from tessera_scheduler.cache.settings import (
    AgentLeaseSettings,
    ForeignQuotaSettings,
    LedgerSettings,
    NodeSelectionSettings,
)
from tessera_scheduler.gangs.settings import GangSettings
from tessera_scheduler.keys.signing_keys import SigningKeySettings
from tessera_scheduler.leadership.kube_scheduler_gate import GateSettings
from tessera_scheduler.placement_events import PlacementEventSettings
from tessera_scheduler.preemption.settings import PreemptionSettings
from tessera_scheduler.visibility.settings import VisibilitySettings
from tessera_scheduler.webhook.settings import WebhookSettings


class SchedulerDialectsSettings(dialects.DialectsSettings, frozen=True, kw_only=True):
    """How dialects are configured: the file, and what the cluster had before."""

    volcano_conf: str = "volcano-system/volcano-scheduler-configmap"
    """Namespace and name of Volcano's ConfigMap, whose arguments about cards count where the
    file does not have `volcano.scheduler_conf`; empty = none is read."""


class SchedulerSettings(ServiceSettings, frozen=True, kw_only=True):
    """All settings of the scheduler."""

    instance: str = ""
    """This replica's name in the Lease and in messages; empty = the host's."""
    kube: KubeSettings = KubeSettings(gather_s=0.05)
    bus: BusSettings = BusSettings()
    outbox: OutboxSettings = OutboxSettings(gather_s=0.1)
    """Pods are bound by the hundred in a second, and nobody waits for the message about one."""
    lease: LeaseSettings = LeaseSettings()
    """Its namespace is the scheduler's own: keys and certificates are there too."""
    gate: GateSettings = GateSettings()
    keys: SigningKeySettings = SigningKeySettings()
    dialects: SchedulerDialectsSettings = SchedulerDialectsSettings()
    ledger: LedgerSettings = field(default=LedgerSettings(), name="books")
    nodes: NodeSelectionSettings = NodeSelectionSettings()
    agents: AgentLeaseSettings = AgentLeaseSettings()
    quota: ForeignQuotaSettings = ForeignQuotaSettings()
    bind: BindSettings = BindSettings()
    gangs: GangSettings = GangSettings()
    preemption: PreemptionSettings = PreemptionSettings()
    placement_events: PlacementEventSettings = PlacementEventSettings()
    packing: PackingSettings = PackingSettings()
    hints: HintSettings = HintSettings()
    extender: HttpSettings = HttpSettings(port=8888, body_bytes=10 * 2**20)
    """What kube-scheduler calls; on 127.0.0.1, as it is a container of the same pod. 5,000 names
    and a pod have 200 KiB, so 10 MiB are plenty."""
    webhook: WebhookSettings = WebhookSettings()
    visibility: VisibilitySettings = VisibilitySettings()

    @property
    def namespace(self) -> str:
        """The scheduler's own namespace."""
        return self.lease.namespace

    def check(self) -> None:
        """Raises BadSettings where numbers contradict each other."""
        bind, call_s = self.bind, self.kube.call_s
        if self.ledger.reservation_s <= bind.whole_s + call_s:
            raise BadSettings(
                f"books.reservation_s: {self.ledger.reservation_s:g}: write more than bind.whole_s "
                f"+ kube.call_s ({bind.whole_s + call_s:g}), or cards are given away during a bind"
            )
        longest = self.gangs.barrier_s + bind.whole_s + call_s
        if self.gangs.on and longest >= self.gangs.http_timeout_s:
            raise BadSettings(
                f"gangs.barrier_s: {self.gangs.barrier_s:g}: with bind.whole_s and kube.call_s a "
                f"call takes up to {longest:g} s, and kube-scheduler gives it up after "
                f"gangs.http_timeout_s ({self.gangs.http_timeout_s:g}): write less, or raise "
                "httpTimeout in kube-scheduler's configuration and gangs.http_timeout_s with it"
            )
        if self.preemption.reclaim and not self.gangs.on:
            raise BadSettings(
                "preemption.reclaim: true: queues are read where gangs start whole: set gangs.on, "
                "by the component gangs, or leave preemption.reclaim out"
            )
        if self.hints.lend_memory and not self.hints.enabled:
            raise BadSettings(
                "hints.lend_memory: true: hints say what may be lent: leave hints.enabled out, or "
                "hints.lend_memory"
            )
        if bind.late_s <= call_s:
            raise BadSettings(
                f"bind.late_s: {bind.late_s:g}: write more than kube.call_s ({call_s:g}): a write "
                "may still come after its call was given up"
            )
