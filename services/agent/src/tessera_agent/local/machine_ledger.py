"""Who holds what of the machine's cards: the scheduler's ledger and its search, for one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from tessera_agent.readers.one_machine import VENDOR
from tessera_core.fleet.charges import Charge
from tessera_core.ledger.entries import ObservedPod
from tessera_core.ledger.ledger import Ledger
from tessera_core.placement.node_fit import NodeFit
from tessera_core.placement.units import units
from tessera_schema.cards import Card
from tessera_schema.grants import Grant
from tessera_schema.local_shares import LocalCard, ShareWanted
from tessera_schema.requests import (
    CardKey,
    ContainerRequest,
    PodRequest,
    Policy,
    Request,
    Role,
)

NODE: Final = "here"
PROCESS: Final = "process"
"""What stands for the container in a share's key and files."""
_DIALECT: Final = "local"
_GIB: Final = 1 << 30
_WHOLE: Final = 100


class NoRoom(Struct, frozen=True):
    """Why nothing is given."""

    why: str
    ever: bool = True
    """False = it would not fit on idle cards either: there is nothing to wait for."""


class LocalLedger:
    """The ledger of one machine."""

    def __init__(self) -> None:
        self._ledger = Ledger()
        self._cards: tuple[Card, ...] = ()

    @property
    def cards(self) -> Sequence[Card]:
        """The machine's cards, by index."""
        return self._cards

    def put_cards(self, cards: Sequence[Card]) -> bool:
        """The machine's cards as they are now; whether that changed anything."""
        if tuple(cards) == self._cards:
            return False
        self._cards = tuple(cards)
        self._ledger.put_node(NODE, self._cards)
        return True

    def take(self, name: str, user: str, wanted: ShareWanted, now: float) -> Grant | NoRoom:
        """Reserve a share of this name, or say why not."""
        request = self._request(name, user, wanted)
        if isinstance(request, NoRoom):
            return request
        grant = _fitted(self._ledger, request)
        if grant is None:
            return NoRoom(self._why(wanted), ever=_fitted(self._idle(), request) is not None)
        refused = self._ledger.assume([grant], now)
        return NoRoom(refused.message) if refused else grant

    def restore(self, grant: Grant, now: float) -> None:
        """Enter what is held already, whatever is free."""
        self._ledger.observe(ObservedPod(uid=grant.uid, grant=grant), now)

    def release(self, name: str) -> None:
        """What was held under that name is free."""
        self._ledger.dropped(name)

    def listed(self) -> tuple[LocalCard, ...]:
        """Each card with what is held of it."""
        charges = self._ledger.charges_on(NODE)
        return tuple(_listed(card, charges.get(card.id, Charge())) for card in self._cards)

    def _request(self, name: str, user: str, wanted: ShareWanted) -> PodRequest | NoRoom:
        ids = []
        for one in wanted.cards:
            found = [c.id for c in self._cards if one in (c.id, str(c.index))]
            if not found:
                known = ", ".join(str(card.index) for card in self._cards) or "none"
                return NoRoom(f"card {one!r}: this machine has {known}", ever=False)
            ids += found
        whole = not wanted.memory_bytes
        request = Request(
            vendor=VENDOR, dialect=_DIALECT, count=wanted.count, memory_bytes=wanted.memory_bytes,
            memory_percent=_WHOLE if whole else 0,
            cores_percent=_WHOLE if whole and not wanted.best_effort else wanted.cores_percent,
            best_effort=wanted.best_effort, needs_free_cores=False, ids=tuple(ids),
            models=(wanted.model,) if wanted.model else (),
            policy=Policy(cards=(CardKey.BINPACK,)),
        )  # fmt: skip
        container = ContainerRequest(
            container=PROCESS, position=0, role=Role.APP, requests=(request,)
        )
        return PodRequest(namespace=user, name=name, uid=name, containers=(container,))

    def _idle(self) -> Ledger:
        """The same cards, and nobody holds any of them."""
        idle = Ledger()
        idle.put_node(NODE, self._cards)
        return idle

    def _why(self, wanted: ShareWanted) -> str:
        what = f"{wanted.memory_bytes / _GIB:g} GiB" if wanted.memory_bytes else "all memory"
        cores = f" and {wanted.cores_percent:g} % of cores" if wanted.cores_percent else ""
        model = f" {wanted.model}" if wanted.model else ""
        cards = f"{wanted.count}{model} card{'s' * (wanted.count > 1)}"
        free = "; ".join(_free(card) for card in self.listed()) or "this machine has no cards"
        return f"{what}{cores} of {cards}: {free}"


def _fitted(ledger: Ledger, pod: PodRequest) -> Grant | None:
    """What the pod would get; None = it does not fit now."""
    row = ledger.fleet.rows.get(NODE)
    if row is None:
        return None
    fit = NodeFit(ledger.fleet, row, ledger.allowance(pod.namespace))
    if any(fit.take(unit) is not None for unit in units(pod)):
        return None
    return Grant(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, node=NODE, shares=tuple(fit.shares)
    )


def _listed(card: Card, held: Charge) -> LocalCard:
    return LocalCard(
        id=card.id, index=card.index, model=card.model, memory_bytes=card.memory_bytes,
        held_bytes=held.memory_bytes, held_percent=held.cores_percent, shares=held.slots,
        healthy=card.healthy,
    )  # fmt: skip


def _free(card: LocalCard) -> str:
    if not card.healthy:
        return f"card {card.index} is not healthy"
    memory = max(card.memory_bytes - card.held_bytes, 0) / _GIB
    return f"card {card.index} has {memory:g} GiB and {100 - card.held_percent:g} % free"
