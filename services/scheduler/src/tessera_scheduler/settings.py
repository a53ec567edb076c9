"""What an operator may set of the scheduler: variables `TESSERA_<FIELD>_<SUBFIELD>`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from tessera_runtime import dialect_config as dialects
from tessera_runtime.bus.outbox import OutboxSettings
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.errors import BadSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.kube.settings import KubeSettings, LeaseSettings
from tessera_runtime.service_settings import ServiceSettings
from tessera_scheduler.cache.hints import HintSettings
from tessera_scheduler.cache.packing import PackingSettings
from tessera_scheduler.keys.signing_keys import SigningKeySettings
from tessera_scheduler.leadership.kube_scheduler_gate import GateSettings
from tessera_scheduler.visibility.settings import VisibilitySettings
from tessera_scheduler.webhook.settings import WebhookSettings

Seconds = Annotated[float, Meta(gt=0)]


class BindSettings(Struct, frozen=True, kw_only=True):
    """Bindings."""

    whole_s: Seconds = 8.0
    """Seconds within which a bind call starts its last attempt: kube-scheduler gives the call up
    after the `httpTimeout` of the extender's configuration, for which 30 s are recommended."""
    tries: Annotated[int, Meta(gt=0)] = 5
    """Attempts of one bind call, after conflicts and while the API server is busy."""
    late_s: Seconds = 75.0
    """Seconds after which a Binding that was lost cannot be written any more: the API server ends
    a request after 60 s (`--request-timeout`), its store needs a few more."""
    labels: bool = False
    """Write the labels of HAMi's pods (`hami.io/vgpu-node`) with a patch of their own after the
    Binding. Kubernetes 1.35 and later copy the labels of the Binding, earlier releases drop them.
    Off, because it is one more write for each such pod, for tools that few clusters have."""


class LedgerSettings(Struct, frozen=True, kw_only=True):
    """The ledger."""

    reservation_s: Seconds = 30.0
    """Seconds that cards are kept for a pod between filter and bind. In between kube-scheduler may
    only wait for volumes and permits; a pod that comes later is given other cards."""
    migration: bool = False
    """Count what HAMi, Volcano, Koordinator and GPU Manager wrote on running pods. Off, because
    tenants can write those annotations; on while such pods still run."""
    news_s: Seconds = 90.0
    """Seconds for which the bus alone may keep a card away: agents tell their state more often, and
    write it on their node within seconds."""
    audit_s: Seconds = 600.0
    """Seconds between two comparisons of the books with a fresh list of all pods: 50,000 pods cost
    the API server some 200 MB of answers."""
    fence_s: Seconds = 60.0
    """Seconds between two proofs that the API server refuses grants of former leaders."""
    start_s: Seconds = 300.0
    """Seconds within which a bound pod should start on a node where a device plugin allocates. Then
    it is told of, and if kubelet has admitted it, equal pods wait for it no longer. Pulling a large
    image takes minutes; one that cannot be pulled must not keep a node to itself."""
    sweep_s: Seconds = 1.0
    """Seconds between two looks for reservations that have run out."""
    custom_s: Seconds = 60.0
    """Seconds between two looks for custom resources whose definition was not there."""
    wake_s: Seconds = 1.0
    """Seconds for which changes are gathered before kube-scheduler is made to look again."""
    errands: Annotated[int, Meta(gt=0)] = 16
    """Reads and repairs of single pods at once."""
    errand_first_s: Seconds = 0.5
    """Seconds until such a call is made a second time; doubled from then on."""
    errand_most_s: Seconds = 10.0
    """Most seconds between two such calls about one pod."""


class ForeignQuotaSettings(Struct, frozen=True, kw_only=True):
    """Quota objects of other systems."""

    gpu_quota: str = "kube-system/gpuquota"
    """Namespace and name of GPU Manager's ConfigMap of quotas; empty = none is read."""


class SchedulerDialectsSettings(dialects.DialectsSettings, frozen=True, kw_only=True):
    """The dialects."""

    volcano_conf: str = "volcano-system/volcano-scheduler-configmap"
    """Namespace and name of Volcano's ConfigMap, whose arguments about cards are served where the
    file says nothing of `volcano.scheduler_conf`; empty = none is read."""


class SchedulerSettings(ServiceSettings, frozen=True, kw_only=True):
    """Everything."""

    instance: str = ""
    """This replica's name in the Lease and in messages; empty = the host's."""
    kube: KubeSettings = KubeSettings(gather_s=0.05)
    bus: BusSettings = BusSettings()
    outbox: OutboxSettings = OutboxSettings(gather_s=0.1)
    """Pods are bound by the hundred in a second, and nobody waits for the news of one."""
    lease: LeaseSettings = LeaseSettings()
    """Its namespace is ours: keys and certificates are there too."""
    gate: GateSettings = GateSettings()
    keys: SigningKeySettings = SigningKeySettings()
    dialects: SchedulerDialectsSettings = SchedulerDialectsSettings()
    books: LedgerSettings = LedgerSettings()
    quota: ForeignQuotaSettings = ForeignQuotaSettings()
    bind: BindSettings = BindSettings()
    packing: PackingSettings = PackingSettings()
    hints: HintSettings = HintSettings()
    extender: HttpSettings = HttpSettings(port=8888, body_bytes=10 * 2**20)
    """What kube-scheduler calls; on 127.0.0.1, as it is a container of the same pod. 5,000 names
    and a pod have 200 KiB, so 10 MiB are plenty."""
    webhook: WebhookSettings = WebhookSettings()
    visibility: VisibilitySettings = VisibilitySettings()

    @property
    def namespace(self) -> str:
        """Ours."""
        return self.lease.namespace

    def check(self) -> None:
        """Raises BadSettings where numbers contradict each other."""
        bind, call_s = self.bind, self.kube.call_s
        if self.books.reservation_s <= bind.whole_s + call_s:
            raise BadSettings(
                f"books.reservation_s: {self.books.reservation_s:g}: write more than bind.whole_s "
                f"+ kube.call_s ({bind.whole_s + call_s:g}), or cards are given away during a bind"
            )
        if bind.late_s <= call_s:
            raise BadSettings(
                f"bind.late_s: {bind.late_s:g}: write more than kube.call_s ({call_s:g}): a write "
                "may still come after its call was given up"
            )
