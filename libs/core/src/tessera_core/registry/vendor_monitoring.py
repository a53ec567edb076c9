"""What is monitored of each vendor's cards: the `MONITORING` of its module."""

from __future__ import annotations

import importlib

from tessera_core.dialect_kit.monitoring import MonitoringSpec
from tessera_core.registry.registry import DialectRegistry


def monitoring(registry: DialectRegistry) -> dict[str, MonitoringSpec]:
    """Vendor -> its spec."""
    return {
        name: importlib.import_module(f"tessera_core.vendors.{name}").MONITORING
        for name in registry.vendors
    }
