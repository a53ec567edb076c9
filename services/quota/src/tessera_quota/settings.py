"""What an operator may set of the quota monitor: variables `TESSERA_<FIELD>_<SUBFIELD>`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from tessera_runtime.informers.grant_keys import GrantKeySettings
from tessera_runtime.service_settings import ServiceSettings

Seconds = Annotated[float, Meta(gt=0)]


class ThrottleSettings(Struct, frozen=True, kw_only=True):
    """What happens to running pods of a quota that is exceeded. An AcceleratorQuota's
    `spec.throttle` takes precedence."""

    after_s: Annotated[float, Meta(ge=0)] = 600.0
    """Seconds of grace: enough to end a job in good order, or to ask for more."""
    cores_percent: Annotated[float, Meta(ge=1, le=100)] = 50.0
    """Of the cores that a container was granted, what it gets then: it is felt, and nothing
    breaks. 100 = nobody is throttled."""
    repeat_s: Seconds = field(name="tell_s", default=60.0)
    """Seconds after which a throttle in force is published again, for agents that have come
    since."""


class UsageCountSettings(Struct, frozen=True, kw_only=True):
    """How use is counted."""

    every_s: Seconds = 5.0
    """Seconds between two evaluations of all quotas."""
    stale_s: Seconds = 30.0
    """Seconds after which what a node measured counts no more: agents report every ten."""
    idle_s: Seconds = 3600.0
    """Seconds without any GPU time after which a pod's cards are reported as idle."""
    idle_shown: Annotated[int, Meta(ge=0)] = 10
    """Idle pods that a status names; it counts them all."""
    migration: bool = False
    """Count what HAMi, Volcano, Koordinator and GPU Manager wrote on running pods, as the scheduler
    does with the same setting."""
    look_s: Seconds = 60.0
    """Seconds between two looks for AcceleratorQuota's definition while it is not installed."""


class StatusSettings(Struct, frozen=True, kw_only=True):
    """How often statuses are written. A new phase never waits."""

    write_s: Seconds = 15.0
    """Seconds between two writes of one status."""
    calm_s: Seconds = 300.0
    """Seconds between two writes when only measurements have changed: 1,000 quotas are three
    writes a second."""


class QuotaSettings(ServiceSettings, frozen=True, kw_only=True):
    """All settings of the quota monitor."""

    instance: str = "quota"
    """This process's name in messages."""
    keys: GrantKeySettings = GrantKeySettings()
    throttle: ThrottleSettings = ThrottleSettings()
    count: UsageCountSettings = UsageCountSettings()
    status: StatusSettings = StatusSettings()
