"""Who speaks for a node. All agents are one user of the message bus, so a message proves its node
itself: the agent signs what it publishes (Ed25519), and publishes the public half where only that
node's agent may write, in the annotation of its cards (`Published.speaks`).

What is signed is the source's epoch and sequence and the message's data, which names the node. A
message may come twice, and says nothing that was not true then; its reader knows old ones by
their order.
"""

from __future__ import annotations

import base64
import binascii
from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tessera_core.trust.grants import KEY_BYTES, BadKey

_KEYS: Final = 16_384
"""Public keys that are kept as objects: three vendors on 5,000 nodes."""


class MessageSigner:
    """Signs what one agent publishes."""

    def __init__(self, private: bytes) -> None:
        """`private` is the raw key, 32 bytes. Raises BadKey."""
        if len(private) != KEY_BYTES:
            raise BadKey(f"private key: {len(private)} bytes: an Ed25519 key has {KEY_BYTES}")
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()

    def sign(self, order: tuple[int, int], data: bytes) -> str:
        """The signature of a message, base64."""
        return base64.b64encode(self._key.sign(_signed(order, data))).decode()


def sender_problem(public: str, signature: str, order: tuple[int, int], data: bytes) -> str:
    """Why the message is not signed with this key; empty when it is."""
    if not signature:
        return "it is not signed"
    try:
        key, raw = _public(public), _bytes(signature)
        key.verify(raw, _signed(order, data))
    except (binascii.Error, ValueError):
        return "its signature, or the key that its node shows, is not in base64"
    except InvalidSignature:
        return "its signature is not by the key that its node shows"
    return ""


def _signed(order: tuple[int, int], data: bytes) -> bytes:
    return b"%d.%d." % order + data


@lru_cache(_KEYS)
def _public(text: str) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(_bytes(text))


def _bytes(text: str) -> bytes:
    """Of the one spelling that these bytes have in base64. Raises ValueError for any other: the
    last digit has bits to spare, and a message has one signature."""
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("not as base64 is written")
    return raw
