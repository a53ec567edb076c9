"""The ledger against what agents report that containers hold, card by card.

Containers never hold more than the ledger has: a pod's cards are charged before it is bound, and
for longer than its containers run. So what an agent reports beyond the ledger is a grant that the
ledger has lost, or a container that outlived its pod. A report may cross the end of a pod on its
way, so a difference counts only when the agent repeats it after a while. It is counted and logged:
only an operator can find out which of the two is right, and the agent keeps others off the card
meanwhile."""

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
"""Seconds after which a difference that is reported again counts: agents report every 30."""
_log = logs.named("tessera.scheduler.audit")


class _Beyond(Struct):
    """Cards of which one agent reports more held than the ledger has."""

    at: float
    """When it reported so last."""
    since: dict[str, float] = {}
    """Card -> when it reported so first."""

    def confirmed(self) -> set[str]:
        return {card for card, since in self.since.items() if self.at - since >= PATIENCE_S}


class AgentReportAudit:
    """Compares each report with the ledger when it comes."""

    def __init__(self, ledger: Ledger, *, report_s: float) -> None:
        """What an agent reported counts for `report_s` seconds."""
        self._ledger = ledger
        self._report_s = report_s
        self._beyond: dict[tuple[str, str], _Beyond] = {}

    @property
    def differing(self) -> int:
        """Cards of which agents report more held than the ledger has."""
        return sum(len(found.confirmed()) for found in self._beyond.values())

    def on_device_state(self, state: DeviceState, now: float) -> None:
        """Compare an agent's report."""
        former = self._beyond.pop((state.node, state.vendor), _Beyond(now))
        more = {held.card: held for held in _more(state, self._ledger)}
        if not more:
            return
        found = _Beyond(now, {card: former.since.get(card, now) for card in more})
        self._beyond[state.node, state.vendor] = found
        for card in sorted(found.confirmed() - former.confirmed()):
            _log.alert(
                "agent sees more than the books", node=state.node, card=card, agent=more[card],
                books=self._ledger.charges_on(state.node).get(card, Charge()),
            )  # fmt: skip

    def expire(self, now: float) -> None:
        """Forget what agents have not repeated."""
        for key in [k for k, found in self._beyond.items() if found.at < now - self._report_s]:
            del self._beyond[key]


def _more(state: DeviceState, ledger: Ledger) -> Iterator[CardHeld]:
    if state.node not in ledger.fleet.rows:
        return
    charges = ledger.charges_on(state.node)
    for held in state.held or ():
        charge = charges.get(held.card, Charge())
        if (
            held.memory_bytes > charge.memory_bytes
            or held.containers > charge.slots
            or milli(held.cores_percent) > charge.cores_milli
        ):
            yield held
