"""The sections of settings that every service has."""

from __future__ import annotations

from msgspec import Struct

from tessera_runtime.bus.outbox import OutboxSettings
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.dialect_config import DialectsSettings
from tessera_runtime.http.profile import ProfileSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.kube.settings import EventSettings, KubeSettings
from tessera_runtime.process import ProcessSettings
from tessera_runtime.tracing.tracing import TelemetrySettings


class ServiceSettings(Struct, frozen=True, kw_only=True):
    """A service's settings begin with these; it may give a section other defaults."""

    process: ProcessSettings = ProcessSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    dialects: DialectsSettings = DialectsSettings()
    """The file is the same for every service."""
    kube: KubeSettings = KubeSettings()
    bus: BusSettings = BusSettings(arrange=False)
    """The scheduler alone arranges the streams."""
    outbox: OutboxSettings = OutboxSettings()
    events: EventSettings = EventSettings()
    http: HttpSettings = HttpSettings(port=8080)
    """Health and metrics."""
    profile: ProfileSettings = ProfileSettings()
