"""Idle cores of a machine's shares, lent as an agent lends those of its node."""

from __future__ import annotations

import asyncio
from typing import Final

from tessera_agent.api.pods import NodePods
from tessera_agent.containers.holdings import ContainerRegistry
from tessera_agent.containers.namespace_allowances import LabelledNamespaces, NamespaceAllowances
from tessera_agent.lending.bounds import LendingBounds
from tessera_agent.lending.lending import LendingLoop
from tessera_agent.lending.members import LendingMembers
from tessera_agent.lending.settings import LendingSettings
from tessera_agent.lending.throttle import ThrottledNamespaces
from tessera_agent.readers.one_machine import VENDOR
from tessera_agent.usage.driver_evidence import DriverEvidence
from tessera_runtime.clock import Clock
from tessera_runtime.metrics import MetricsRegistry

_NEVER_S: Final = 1.0


def local_lending(holdings: ContainerRegistry, clock: Clock) -> LendingLoop:
    """Lends among these holdings: no cluster bounds it, and no quota throttles it."""
    settings = LendingSettings()
    members = LendingMembers(
        NodePods(),
        LendingBounds(clock, valid_s=settings.bounds_s),
        ThrottledNamespaces(
            VENDOR, asyncio.Event(), valid_s=_NEVER_S, now=asyncio.get_running_loop().time()
        ),
        NamespaceAllowances(holdings, LabelledNamespaces()),
        DriverEvidence(_NEVER_S),
        most_percent=settings.most_percent,
    )
    return LendingLoop(settings, holdings, members, clock, MetricsRegistry("local"))
