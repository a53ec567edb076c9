"""Settings of the ledger: what it counts, and how long without confirmation."""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from tessera_runtime.errors import BadSettings

Seconds = Annotated[float, Meta(gt=0)]
_KEY: Final = r"[\w./-]+"
_VALUE: Final = r"[\w.-]*"
_TERM: Final = (
    rf"\s*(?:!?{_KEY}|{_KEY}\s*(?:==?|!=)\s*{_VALUE}|{_KEY}\s+(?:in|notin)\s*\([\w.,\s-]*\))\s*"
)
_SELECTOR: Final = re.compile(rf"{_TERM}(?:,{_TERM})*")


class LedgerSettings(Struct, frozen=True, kw_only=True):
    """What the ledger counts, and how it is kept in step with the cluster."""

    reservation_s: Seconds = 30.0
    """Seconds that cards are kept for a pod between filter and bind. In between kube-scheduler may
    only wait for volumes and permits; a pod that comes later is given other cards."""
    migration: bool = False
    """Count what HAMi, Volcano, Koordinator and GPU Manager wrote on running pods. Off, because
    tenants can write those annotations; on while such pods still run."""
    report_s: Seconds = field(default=90.0, name="news_s")
    """Seconds for which the bus alone may take a card away: agents publish their state more often,
    and write it on their node within seconds."""
    audit_s: Seconds = 600.0
    """Seconds between two comparisons of the ledger with a fresh list of all pods: 50,000 pods cost
    the API server some 200 MB of answers."""
    fence_s: Seconds = 60.0
    """Seconds between two proofs that the API server refuses grants of former leaders."""
    start_s: Seconds = 300.0
    """Seconds within which a bound pod should start on a node where a device plugin allocates. Then
    it gets an event, and if kubelet has admitted it, equal pods wait for it no longer. Pulling a
    large image takes minutes; one that cannot be pulled must not keep a node to itself."""
    sweep_s: Seconds = 1.0
    """Seconds between two checks for reservations that have run out."""
    custom_s: Seconds = 60.0
    """Seconds between two checks for custom resources whose definition was not installed."""
    wake_s: Seconds = 1.0
    """Seconds for which changes are gathered before kube-scheduler is made to try waiting pods
    again."""
    retries_at_once: Annotated[int, Meta(gt=0)] = field(default=16, name="errands")
    """Reads and repairs of single pods at once."""
    retry_first_s: Seconds = field(default=0.5, name="errand_first_s")
    """Seconds until such a call is made a second time; doubled from then on."""
    retry_most_s: Seconds = field(default=10.0, name="errand_most_s")
    """Most seconds between two such calls about one pod."""


class NodeSelectionSettings(Struct, frozen=True, kw_only=True):
    """Which nodes the scheduler reads."""

    selector: str = ""
    """Label selector, such as `pool in (shared,batch),!draining`: other nodes get no pods that ask
    for shares, whatever cards they have; empty = all nodes."""

    def check(self) -> None:
        """Raises BadSettings."""
        if self.selector and not _SELECTOR.fullmatch(self.selector):
            raise BadSettings(
                f"nodes.selector: {self.selector!r}: write a label selector as kubectl takes it, "
                "such as pool=shared or pool in (shared,batch),!draining"
            )


class AgentLeaseSettings(Struct, frozen=True, kw_only=True):
    """The Leases by which agents show that they are there."""

    namespace: str = "tessera-agent-leases"
    """Where they are; agents have the same setting (`TESSERA_HEARTBEAT_NAMESPACE`)."""
    pulse_s: Seconds = 5.0
    """Seconds between renewals of the leader's own Lease there, by which a watch that delivers is
    distinguished from one that does not: less than the 10 s that a gap counts at most."""


class ForeignQuotaSettings(Struct, frozen=True, kw_only=True):
    """Quota objects of other systems, where their place can be set."""

    gpu_quota: str = "kube-system/gpuquota"
    """Namespace and name of GPU Manager's ConfigMap of quotas; empty = none is read."""
