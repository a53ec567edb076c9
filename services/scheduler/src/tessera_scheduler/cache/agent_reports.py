"""The books against what agents say that containers hold, card by card.

Containers never hold more than the books say: a pod's cards are charged before it is bound, and for
longer than its containers run. So what an agent sees beyond the books is a grant that they have
lost, or a container that outlived everything. News may cross the end of a pod on its way, so a
difference counts only when the agent repeats it after a while. It is counted and logged: which of
the two is right only a look can tell, and the agent keeps others off the card meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from tessera_core.fleet.charges import Charge
from tessera_core.fleet.cores import milli
from tessera_core.ledger.ledger import Ledger
from tessera_runtime import logs
from tessera_schema.messages.device_reports import CardHeld, DeviceState

PATIENCE_S: Final = 10.0
"""Seconds after which a difference that is told again counts: agents repeat themselves every 30."""
_log = logs.named("tessera.scheduler.audit")


class _Beyond(Struct):
    """Cards of which one agent sees more held than the books do."""

    at: float
    """When it told so last."""
    since: dict[str, float] = {}
    """Card -> when it told so first."""

    def lasting(self) -> set[str]:
        return {card for card, since in self.since.items() if self.at - since >= PATIENCE_S}


class AgentReportAudit:
    """Compares each state with the books when it comes."""

    def __init__(self, ledger: Ledger, *, news_s: float) -> None:
        """What an agent said counts for `news_s` seconds."""
        self._ledger = ledger
        self._news_s = news_s
        self._beyond: dict[tuple[str, str], _Beyond] = {}

    @property
    def differing(self) -> int:
        """Cards of which agents see more held than the books do."""
        return sum(len(found.lasting()) for found in self._beyond.values())

    def on_device_state(self, state: DeviceState, now: float) -> None:
        """An agent's news."""
        former = self._beyond.pop((state.node, state.vendor), _Beyond(now))
        seen = {held.card: held for held in _more(state, self._ledger)}
        if not seen:
            return
        found = _Beyond(now, {card: former.since.get(card, now) for card in seen})
        self._beyond[state.node, state.vendor] = found
        for card in sorted(found.lasting() - former.lasting()):
            _log.alert(
                "agent sees more than the books", node=state.node, card=card, agent=seen[card],
                books=self._ledger.held(state.node).get(card, Charge()),
            )  # fmt: skip

    def expire(self, now: float) -> None:
        """Forget what agents have not said again."""
        for key in [k for k, found in self._beyond.items() if found.at < now - self._news_s]:
            del self._beyond[key]


def _more(state: DeviceState, ledger: Ledger) -> Iterator[CardHeld]:
    if state.node not in ledger.fleet.rows:
        return
    books = ledger.held(state.node)
    for held in state.held or ():
        charge = books.get(held.card, Charge())
        if (
            held.memory_bytes > charge.memory_bytes
            or held.containers > charge.slots
            or milli(held.cores_percent) > charge.cores_milli
        ):
            yield held
