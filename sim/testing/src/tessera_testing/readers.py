"""Cards that a test describes, in the place of a driver's."""

from __future__ import annotations

from msgspec.structs import replace

from tessera_agent.readers import DriverSilent
from tessera_core.dialect_kit.readings import CardReading, Fault, ProcessReading, Readings
from tessera_schema.cards import MIB


def a_reading(index: int = 0, *, mib: int = 16384) -> CardReading:
    """A card as its driver shows it: `GPU-<index>`."""
    return CardReading(id=f"GPU-{index}", index=index, model="A", memory_bytes=mib * MIB)


class FakeReader:
    """`tessera_agent.readers.CardReader`: each poll answers what was put here last."""

    def __init__(self, *cards: CardReading) -> None:
        """These cards, all well."""
        self.polls = 0
        self.show(*cards)

    async def poll(self, *, times_only: bool = False) -> Readings | DriverSilent:
        """See `Reader.poll`."""
        self.polls += 1
        return self._answer

    def show(self, *cards: CardReading) -> None:
        """From now on these cards answer."""
        self._answer: Readings | DriverSilent = Readings(cards=cards, driver="570", session=1)

    def fail(self, index: int, what: str = "it fell off the bus") -> None:
        """From now on this card is at fault."""
        self._change(index, standing=(Fault(what=what),))

    def run(self, index: int, *processes: ProcessReading) -> None:
        """From now on these processes are on the card."""
        self._change(index, processes=processes)

    def be_silent(self, why: str) -> None:
        """From now on the driver does not answer."""
        self._answer = DriverSilent(why=why)

    def _change(self, index: int, **fields: object) -> None:
        if isinstance(self._answer, Readings):
            self.show(*(
                replace(card, **fields) if card.index == index else card
                for card in self._answer.cards
            ))  # fmt: skip
