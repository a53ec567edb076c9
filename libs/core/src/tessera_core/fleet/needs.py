"""What a request needs of each card."""

from __future__ import annotations

from msgspec import Struct

from tessera_core.fleet.arrays import Bools, Ints


class CardNeeds(Struct, frozen=True):
    """What is needed of each card, in columns or one number for all."""

    memory: Ints | int
    """What it costs of what can be granted (`tessera_core.fleet.overcommit`)."""
    cores: Ints | int
    """In the units of `tessera_core.fleet.cores`."""
    alone: Bools | bool
    """The card must be idle, and becomes its holder's own."""
    slots: int = 1
    unfit: Bools | bool = False
    """The card's model has no size for a share that is large enough."""
    best_effort: bool = False
    """Quotas may count it apart."""
    granted: Ints | int | None = None
    """Memory that the share has, where it costs more."""

    @property
    def share_memory(self) -> Ints | int:
        """Memory of the share, which is what limits of namespaces count."""
        return self.memory if self.granted is None else self.granted
