"""The limits file: what the agent writes for the hook in one container. 4,096 bytes, pure encoding.

Writing it under its sequence rule is `tessera_agent.containers.hook_files`' part.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from struct import error as out_of_range
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple

from tessera_core.hook.records import CARDS, HEAD, LAYOUT, UUID_BYTES, RecordLayout, padded, text_of

MAGIC: Final = int.from_bytes(b"TLIMITS1", "little")
SIZE: Final = 4096
PATH: Final = "/usr/local/tessera/limits"
"""Where the hook looks for it, in the container."""
SEQUENCE_AT: Final = HEAD.offsets["sequence"]

LEAST_PERMILLE: Final = 10
"""Of the card's time, which a container has that lives on what others leave when they leave
nothing: a launch must come to an end."""
_CARD_AT: Final = 512
_CONTAINER_BYTES: Final = 128
_UINT32: Final = (1 << 32) - 1
_UINT64: Final = (1 << 64) - 1
_RANGE: Final = {"I": (0, _UINT32), "Q": (0, _UINT64), "i": (-(1 << 31), (1 << 31) - 1)}

CARD: Final = RecordLayout(
    "tessera_card_limit", 176,
    {
        "uuid": "64s", "memory_bytes": "Q", "resident_bytes": "Q", "cores_permille": "I",
        "lent_permille": "I", "lent_until_ns": "Q", "mode": "I", "flags": "I", "index": "I",
        "priority": "i", "measured_ns": "Q", "measured_at_ns": "Q", "measured_usage_ns": "Q",
        "reserved": "40s",
    },
)  # fmt: skip
_NUMBERS: Final = {field: _RANGE[form] for field, form in CARD.formats.items() if form in _RANGE}
"""Field of a card -> the least and the most that it can hold."""
FILE: Final = RecordLayout(
    "tessera_limits", SIZE,
    {
        "head": "64s", "flags": "I", "log_level": "I", "generation": "Q", "container": "128s",
        "hold_until_ns": "Q", "reserved": "296s", "card": f"{CARDS * 176}s", "reserved_end": "768s",
    },
)  # fmt: skip
_BODY: Final = FILE.packed("flags", "hold_until_ns")
"""What follows the head, without what is reserved."""
_SEQUENCE: Final = HEAD.packed("sequence", "sequence")


class Mode(IntEnum):
    """How GPU time is limited."""

    OFF = 0
    """It is only counted."""
    HARD = 1
    ELASTIC = 2
    """`lent_permille` on top, until `lent_until_ns`."""


class Flag(IntFlag):
    """What holds for the whole container."""

    NONE = 0
    SUSPEND = 1
    """Every launch and allocation waits."""
    HOLD_LAUNCHES = 2
    """Launches wait, until `hold_until_ns`: a more important neighbour is busy."""
    CLOSED = 4
    """Without a usage file memory is refused."""
    SCALE_UTILIZATION = 8
    """Utilisation is shown as a part of the share, not of the card."""


class CardFlag(IntFlag):
    """What holds for one card."""

    NONE = 0
    OVERSUBSCRIBE = 1
    CHARGE_OVERHEAD = 2
    REST = 4
    """Elastic, of what others leave alone: `cores_permille` is a floor, and 0 is none."""
    RECLAIM = 8
    """Memory that the limit has room for and the driver refuses is waited for: the agent takes it
    from best-effort containers."""


_REST: Final = int(CardFlag.REST)
_HOLD: Final = int(Flag.HOLD_LAUNCHES)
"""As numbers: `&` of two flags makes a third one, which takes ten times as long."""


class CardLimit(Struct, frozen=True, kw_only=True):
    """What the container may use of one card; fields in the order of the record's."""

    uuid: str
    memory_bytes: int = 0
    """0 = no limit."""
    resident_bytes: int = 0
    """Where oversubscribed: how much may lie on the card."""
    cores_permille: int = 0
    """Of the card's time; 0, or 1000 and more = no limit."""
    lent_permille: int = 0
    lent_until_ns: int = 0
    """Wall clock: a loan ends here even if the agent is gone."""
    mode: Mode = Mode.HARD
    flags: CardFlag = CardFlag.NONE
    index: int = 0
    priority: int = 0
    measured_ns: int = 0
    """The container's GPU time so far as the driver counts it."""
    measured_at_ns: int = 0
    """Wall clock of that measurement; 0 = none."""
    measured_usage_ns: int = 0
    """What the hook's `raw_ns` read at that moment."""

    @property
    def is_rest(self) -> bool:
        """Whether it is a best-effort container's, which has what others leave."""
        return int(self.flags) & _REST != 0


class HookLimits(Struct, frozen=True, kw_only=True):
    """The file's content."""

    container: str
    """`namespace/pod/container`, for messages."""
    cards: tuple[CardLimit, ...]
    generation: int = 0
    """Counts changes; the hook repeats in its usage file the one that is in force."""
    flags: Flag = Flag.NONE
    hold_until_ns: int = 0
    """Wall clock: a hold ends here even if the agent is gone; 0 = without end."""
    log_level: int = 0
    """0 = not said."""

    @property
    def holds_launches(self) -> bool:
        """Whether its launches wait, unless `hold_until_ns` has passed."""
        return int(self.flags) & _HOLD != 0


class BadLimits(ValueError):
    """Limits that the file cannot hold, or a file that holds none; the message says which."""


def encode_limits(limits: HookLimits, sequence: int, now_ns: int) -> bytes:
    """The whole file. Raises BadLimits."""
    if len(limits.cards) > CARDS:
        raise BadLimits(
            f"container {limits.container}: {len(limits.cards)} cards: the hook limits {CARDS} at "
            "most; give the container fewer"
        )
    if not 0 <= limits.hold_until_ns <= _UINT64:
        raise BadLimits(
            f"container {limits.container}: hold_until_ns {limits.hold_until_ns}: "
            f"write 0 to {_UINT64}"
        )
    data = bytearray(SIZE)
    HEAD.pack(
        data, 0, LAYOUT, SIZE, len(limits.cards), sequence & _UINT32, now_ns, b"", MAGIC
    )  # fmt: skip
    _BODY.pack_into(
        data, HEAD.size, limits.flags, limits.log_level, limits.generation & _UINT64,
        padded(limits.container, _CONTAINER_BYTES), limits.hold_until_ns,
    )  # fmt: skip
    for position, card in enumerate(limits.cards):
        _encode_card(data, _CARD_AT + position * CARD.size, card)
    return bytes(data)


def _encode_card(into: bytearray, at: int, card: CardLimit) -> None:
    if not card.uuid or len(card.uuid) >= UUID_BYTES:
        raise BadLimits(f"card {card.uuid!r}: an id has 1 to {UUID_BYTES - 1} characters")
    try:
        CARD.pack(into, at, padded(card.uuid, UUID_BYTES), *astuple(card)[1:], b"")
    except out_of_range:
        for field, (least, most) in _NUMBERS.items():
            number = int(getattr(card, field))
            if not least <= number <= most:
                raise BadLimits(
                    f"card {card.uuid}: {field} {number}: write {least} to {most}"
                ) from None
        raise


def decode_limits(data: bytes) -> HookLimits:
    """A file that this release wrote. Raises BadLimits for any other."""
    if len(data) != SIZE:
        raise BadLimits(f"{len(data)} bytes, not {SIZE}")
    head = HEAD.read(data)
    if head["magic"] != MAGIC or head["layout"] != LAYOUT or head["size"] != SIZE:
        raise BadLimits("no limits file of this layout")
    if head["sequence"] % 2 or head["cards"] > CARDS:
        raise BadLimits("it was being written when its writer ended")
    body = FILE.read(data)
    try:
        cards = tuple(_card(data, _CARD_AT + i * CARD.size) for i in range(head["cards"]))
    except ValueError as e:
        raise BadLimits(str(e)) from e
    return HookLimits(
        container=text_of(body["container"]), cards=cards, generation=body["generation"],
        flags=Flag(body["flags"]), hold_until_ns=body["hold_until_ns"],
        log_level=body["log_level"],
    )  # fmt: skip


def _card(data: bytes, at: int) -> CardLimit:
    values = CARD.read(data, at)
    del values["reserved"]
    values |= {
        "uuid": text_of(values["uuid"]), "mode": Mode(values["mode"]),
        "flags": CardFlag(values["flags"]),
    }  # fmt: skip
    return CardLimit(**values)


def sequence_of(data: bytes) -> int:
    """The sequence number of whatever is there, 0 where there is nothing."""
    if len(data) < HEAD.size:
        return 0
    sequence: int = _SEQUENCE.unpack_from(data, SEQUENCE_AT)[0]
    return sequence


def sequence_bytes(sequence: int) -> bytes:
    """What is written at `SEQUENCE_AT` before and after the body."""
    return _SEQUENCE.pack(sequence & _UINT32)
