"""A live resize: what is asked of the scheduler, and its answer, both as annotations of the pod.

Only the scheduler changes the ledger and signs grants. A user who may set `tessera.dev/*` on pods
requests by `RESIZE_KEY`; the scheduler treats it like a new placement on the same cards, and in one
patch writes the grant with its next `revision` and takes the question away. What it refuses it
takes away too, and says why under `RESIZE_REFUSED_KEY`. The agent changes limits when it sees the
grant.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from tessera_schema.json_codec import decoder

RESIZE_KEY: Final = "tessera.dev/resize"
RESIZE_REFUSED_KEY: Final = "tessera.dev/resize-refused"


class ShareChange(Struct, frozen=True, kw_only=True):
    """What one container shall have of one card from now on. None = as it is."""

    container: str
    card: str
    memory_bytes: int | None = None
    cores_percent: float | None = None


class Resize(Struct, frozen=True, kw_only=True):
    """All changes together or none. `plan` names who asks, for messages."""

    plan: str = ""
    changes: tuple[ShareChange, ...]


_encode = msgspec.json.Encoder().encode
_decode = decoder(Resize)


def encode_resize(asked: Resize) -> str:
    """The annotation's value."""
    return _encode(asked).decode()


def decode_resize(text: str) -> Resize:
    """Raises msgspec.DecodeError."""
    return _decode(text)
