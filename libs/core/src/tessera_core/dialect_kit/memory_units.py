"""What one unit of a resource that counts a card's memory is, and what a user meant who took it for
another: `gpumem: 8Gi` where MiB are counted, `gpu-memory: 8192` where bytes are.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from msgspec import Struct

from tessera_core.kube.quantity import binary_quantity
from tessera_schema.cards import MIB
from tessera_schema.kube import Quantity

MOST_CARD_BYTES: Final = 4 << 40
"""Memory that a request may ask of one card: 4 TiB, 4194304 MiB. The largest cards have 288 GiB,
and registered with ten times what they have (overcommit) they stay below. The usual mistake, a
suffix where MiB are counted, is beyond: `5Mi` reads as 5 TiB."""
LEAST_CARD_BYTES: Final = MIB
"""Memory that a request must ask of one card, 1 MiB: a process takes more before it has computed
anything, so less is an amount whose unit was left out."""
_GIB: Final = 1 << 30
_SIZE: Final = re.compile(
    r"(?P<number>\d{1,18}(?:\.\d{0,9})?) ?(?P<scale>[kmgt]?)(?P<i>i?)b?", re.I
)
_SCALES: Final = "kmgt"


class MemoryUnit(Struct, frozen=True):
    """The unit in which a resource counts memory."""

    bytes: int

    @property
    def most(self) -> int:
        """Units that one card may have."""
        return MOST_CARD_BYTES // self.bytes

    @property
    def words(self) -> str:
        """What is counted: `MiB`, `units of 256 MiB`."""
        names = {1: "bytes", MIB: "MiB", _GIB: "GiB"}
        return names.get(self.bytes) or f"units of {self.bytes // MIB} MiB"

    def units(self, memory_bytes: int) -> int:
        """So many bytes in this unit, rounded up."""
        return -(-memory_bytes // self.bytes)

    def hint(self, written: Quantity) -> str:
        """What the resource counts, and what to write for what was probably meant."""
        known = f"This resource counts {self.words}"
        meant = self._meant(written)
        return f"{known}. {meant}" if meant else f"{known}, so 16 GiB is {self.units(16 * _GIB)}."

    def too_much(self, written: Quantity, number: int, cards: int = 1) -> str:
        """The remedy for an amount that so many cards together do not have."""
        text = str(written)
        read = "" if text == str(number) else f"{text} is {number}: "
        who = "no card has" if cards == 1 else f"no {cards} cards have"
        most = binary_quantity(cards * self.most) if self.bytes == 1 else str(cards * self.most)
        meant = self._meant(written) or f"Write at most {most}."
        return f"{read}this resource counts {self.words}, and {who} that much. {meant}"

    def too_little(self, written: Quantity, number: int, cards: int) -> str:
        """The remedy for less than `LEAST_CARD_BYTES` of each of so many cards, of a resource that
        counts bytes."""
        text, counted = str(written), "1 byte" if number == 1 else f"{number} bytes"
        if text.isdecimal():
            gib = f"{number // 1024}Gi or " if number % 1024 == 0 else ""
            return f"{text} is {counted}: write {gib}{number}Mi if MiB were meant."
        over = f" for {cards} cards" if cards > 1 else ""
        return f"{text} is {counted}{over}: write {cards}Mi or more, nothing runs in less."

    def _meant(self, written: Quantity) -> str:
        """What to write for a size that was written; empty where it is none, or none of a card."""
        match = _SIZE.fullmatch(str(written))
        if match is None:
            return ""
        number, scale = match["number"], match["scale"].lower()
        binary = bool(match["i"]) or match["scale"] == "m"  # 500m is half of one: MiB were meant
        step, power = 1024 if binary else 1000, _SCALES.index(scale) + 1 if scale else 0
        size = int(Decimal(number) * step**power)
        name = f"{scale.upper()}{'i' if binary else ''}B"
        if not scale:
            name = "MiB" if self.bytes > MIB and size <= MOST_CARD_BYTES // MIB else "bytes"
            size *= MIB if name == "MiB" else 1
        if not LEAST_CARD_BYTES <= size <= MOST_CARD_BYTES:
            return ""
        units = f"{self.units(size)}{'' if size % self.bytes == 0 else ', rounded up'}"
        if scale:
            return f"For {number} {name} write {units}."
        return f"Write at most {self.most}; if {name} were meant, {units}."
