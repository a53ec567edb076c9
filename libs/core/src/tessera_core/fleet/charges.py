"""What a pod's shares cost each card, given how long each container lives.

Kubernetes' own rule, per card: app containers and sidecars run together; an init container runs
together with the sidecars that were started before it. A card is charged the larger of the two
sums.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from tessera_core.fleet import cores
from tessera_schema.grants import Share
from tessera_schema.kube import Pod
from tessera_schema.requests import Role

MOST_EQUAL: Final = 4096
"""Charges, and uses in quotas, of which equal ones are one object; the oldest give way."""


class Charge(Struct, frozen=True, array_like=True, gc=False):
    """What one pod holds of one card. In logs it is a list of these numbers."""

    memory_bytes: int = 0
    cores_milli: int = 0
    """In the units of `tessera_core.fleet.cores`."""
    slots: int = 0
    exclusive: int = 0
    resident_bytes: int = 0
    """Memory that lies on the card (`tessera_core.fleet.overcommit`)."""
    best_effort: int = 0
    """Shares of best-effort containers."""
    lent_bytes: int = 0
    """Memory that is lent: it costs owners nothing, as `lent_slots` do."""
    lent_slots: int = 0

    @property
    def cores_percent(self) -> float:
        """Percent of a card."""
        return cores.percent(self.cores_milli)

    def plus(self, other: Charge) -> Charge:
        """Both at the same time."""
        return Charge(
            self.memory_bytes + other.memory_bytes,
            self.cores_milli + other.cores_milli,
            self.slots + other.slots,
            self.exclusive + other.exclusive,
            self.resident_bytes + other.resident_bytes,
            self.best_effort + other.best_effort,
            self.lent_bytes + other.lent_bytes,
            self.lent_slots + other.lent_slots,
        )

    def or_else(self, other: Charge) -> Charge:
        """One after the other: the larger of each."""
        return Charge(
            max(self.memory_bytes, other.memory_bytes),
            max(self.cores_milli, other.cores_milli),
            max(self.slots, other.slots),
            max(self.exclusive, other.exclusive),
            max(self.resident_bytes, other.resident_bytes),
            max(self.best_effort, other.best_effort),
            max(self.lent_bytes, other.lent_bytes),
            max(self.lent_slots, other.lent_slots),
        )

    def beyond(self, other: Charge) -> Charge:
        """What this is more than the other, in each number."""
        return Charge(
            max(self.memory_bytes - other.memory_bytes, 0),
            max(self.cores_milli - other.cores_milli, 0),
            max(self.slots - other.slots, 0),
            max(self.exclusive - other.exclusive, 0),
            max(self.resident_bytes - other.resident_bytes, 0),
            max(self.best_effort - other.best_effort, 0),
            max(self.lent_bytes - other.lent_bytes, 0),
            max(self.lent_slots - other.lent_slots, 0),
        )


def charge_of(share: Share) -> Charge:
    """One share by itself. Equal ones are one object: most pods hold one of a few sizes."""
    if share.lent is True:
        return _lent_charge(share.memory_bytes)
    return _charge(
        share.memory_bytes, share.cores_percent, share.exclusive, share.on_card_bytes,
        share.best_effort is True,
    )  # fmt: skip


@lru_cache(MOST_EQUAL)
def _charge(
    memory_bytes: int,
    cores_percent: float,
    exclusive: bool,  # noqa: FBT001  (a cache's arguments are positional)
    on_card_bytes: int,
    best_effort: bool,  # noqa: FBT001  (likewise)
) -> Charge:
    return Charge(
        memory_bytes, cores.milli(cores_percent), 1, int(exclusive), on_card_bytes, int(best_effort)
    )


@lru_cache(MOST_EQUAL)
def _lent_charge(memory_bytes: int) -> Charge:
    return Charge(best_effort=1, lent_bytes=memory_bytes, lent_slots=1)


def charges(shares: Iterable[Share], *, init_over: bool = False) -> dict[str, Charge]:
    """Card id -> charge. With `init_over` only what still runs counts."""
    if isinstance(shares, tuple) and len(shares) == 1:  # as most pods have it
        (only,) = shares
        over = init_over and only.role is Role.INIT
        return {} if over else {only.card: charge_of(only)}
    tally = Tally()
    for share in sorted(shares, key=lambda s: s.position):
        tally.add(share)
    if init_over or not tally.peaks:
        return tally.running
    return {card: tally.of(card) for card in {**tally.running, **tally.peaks}}


_NOTHING = Charge()


class Tally:
    """What shares that come one by one, in the order of their containers, cost their cards."""

    def __init__(self) -> None:
        """Nothing has come."""
        self.running: dict[str, Charge] = {}
        self.peaks: dict[str, Charge] = {}
        """While init containers run, together with what runs from before them."""

    def add(self, share: Share) -> None:
        """The next share."""
        now, before = charge_of(share), self.running.get(share.card)
        if before is not None:
            now = before.plus(now)
        if share.role is Role.INIT:
            self.peaks[share.card] = self.peaks.get(share.card, _NOTHING).or_else(now)
        else:
            self.running[share.card] = now

    def then(self, share: Share) -> Charge:
        """What all of them and the next share would cost its card at the busiest time."""
        card, now = share.card, self.running.get(share.card, _NOTHING).plus(charge_of(share))
        peak = self.peaks.get(card, _NOTHING).or_else(now)
        return peak.or_else(self.running.get(card, _NOTHING))

    def of(self, card: str) -> Charge:
        """What all of them cost a card at the busiest time."""
        return self.running.get(card, _NOTHING).or_else(self.peaks.get(card, _NOTHING))


def init_is_over(pod: Pod) -> bool:
    """True when no init container can run again: all ended well and the pod never restarts.

    With other restart policies kubelet runs init containers again when the sandbox is re-created
    (a reboot is enough), so their shares stay reserved. HAMi releases them at once.
    """
    statuses = pod.status.init_container_statuses
    inits = {c.name for c in pod.spec.init_containers if c.restart_policy != "Always"}
    done = {s.name for s in statuses if s.state.terminated and s.state.terminated.exit_code == 0}
    return pod.spec.restart_policy == "Never" and bool(inits) and inits <= done
