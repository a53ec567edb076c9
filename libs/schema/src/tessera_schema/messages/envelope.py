"""The headers of every message: CloudEvents 1.0 in binary mode, W3C trace context, and the
source's epoch and sequence, by which a consumer recognises repeats, gaps and restarts.

A message comes at least once and may be late. Within one source a greater (epoch, sequence) is
newer; an epoch is the time in milliseconds at which the source started.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

SCHEMA_VERSION: Final = 1
MESSAGE_ID: Final = "Nats-Msg-Id"
"""JetStream drops a second message with an equal id within its window."""
SIGNATURE: Final = "ce-signature"
_MOST: Final = 1 << 53


class BadEnvelope(ValueError):
    """Headers that are missing or make no sense; the message names header and value."""


class Envelope(Struct, frozen=True, kw_only=True):
    """Who says what, when, and in which order."""

    id: str
    source: str
    """`/tessera/<service>/<instance>`."""
    type: str
    """`dev.tessera.<what>.<event>`."""
    time: str
    """RFC 3339, UTC."""
    epoch: int
    sequence: int
    schema: int = SCHEMA_VERSION
    traceparent: str = ""
    """W3C trace context of what made it happen; empty = none."""
    signature: str = ""
    """By which an agent proves its node (`NodeCardsAnnotation.speaks`); empty = none."""

    @property
    def order(self) -> tuple[int, int]:
        """Greater is newer, within one source."""
        return self.epoch, self.sequence

    def headers(self) -> dict[str, str]:
        """The message's headers."""
        made = {
            "ce-specversion": "1.0",
            "ce-id": self.id,
            "ce-source": self.source,
            "ce-type": self.type,
            "ce-time": self.time,
            "ce-datacontenttype": "application/json",
            "ce-schemaversion": str(self.schema),
            "ce-epoch": str(self.epoch),
            "ce-sequence": str(self.sequence),
            MESSAGE_ID: self.id,
        }
        if self.traceparent:
            made["traceparent"] = self.traceparent
        if self.signature:
            made[SIGNATURE] = self.signature
        return made


def read_envelope(headers: Mapping[str, str]) -> Envelope:
    """The envelope of a message. Raises BadEnvelope."""
    low = {name.lower(): value for name, value in headers.items()}
    return Envelope(
        id=_text(low, "ce-id"), source=_text(low, "ce-source"), type=_text(low, "ce-type"),
        time=_text(low, "ce-time"), epoch=_number(low, "ce-epoch"),
        sequence=_number(low, "ce-sequence"), schema=_number(low, "ce-schemaversion"),
        traceparent=low.get("traceparent", ""), signature=low.get(SIGNATURE, ""),
    )  # fmt: skip


def _text(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name, "")
    if not value:
        raise BadEnvelope(f"header {name}: missing: every message of Tessera has it")
    return value


def _number(headers: Mapping[str, str], name: str) -> int:
    value = _text(headers, name)
    if not (value.isascii() and value.isdecimal()) or int(value[:20]) > _MOST:
        raise BadEnvelope(f"header {name}: {value[:40]!r}: write a whole number up to 2^53")
    return int(value)
