"""What pods hold: the grants on them that count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tessera_core.fleet.fleet import Fleet
from tessera_core.recovery.adopt import adopt
from tessera_core.registry.registry import DialectRegistry
from tessera_core.trust.grants import Verifier
from tessera_schema.grants import Grant
from tessera_schema.kube import Pod

LIVING: Final = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
"""Pods that hold something. One that ends is told as deleted."""


class GrantReader:
    """Reads grants by what is known at the moment."""

    def __init__(
        self, registry: DialectRegistry, fleet: Fleet, verifier: Callable[[], Verifier], *,
        migration: bool,
    ) -> None:  # fmt: skip
        """`verifier` gives the keys known at the moment; with `migration` what other systems wrote
        on pods counts too, for the fleet's cards."""
        self._registry = registry
        self._fleet = fleet
        self._verifier = verifier
        self._migration = migration

    def of(self, pod: Pod) -> Grant | None:
        """A bound pod's; None where it bears none that counts."""
        row = self._fleet.rows.get(pod.spec.node_name)
        cards = () if row is None else self._fleet.facts[row]
        return adopt(
            self._registry, pod, cards, verifier=self._verifier(), others=self._migration
        ).grant
