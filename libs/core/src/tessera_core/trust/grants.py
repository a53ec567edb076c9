"""Signatures of grants: a tenant may write annotations, but not what counts as a grant.

The signature (Ed25519) stands at the end of the annotation's own JSON object, as its last field
`"signature":"<key id>:<base64>"`; what is signed is the object without that field, byte for byte,
so that nothing depends on how a writer orders or spaces JSON. It covers the pod's uid and node: a
grant that is copied to another pod is a valid signature on something that does not apply there,
which `tessera_core.recovery.adopt` refuses.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_SIGNATURE: Final = re.compile(r',"signature":"([0-9a-f]{16}):([A-Za-z0-9+/]{86}==)"\}\Z')
KEY_BYTES: Final = 32


class BadKey(ValueError):
    """A key that cannot be read; the message says what is expected."""


class Signer:
    """Signs grants. There is one in the cluster: the scheduler."""

    def __init__(self, private: bytes) -> None:
        """`private` is the raw key, 32 bytes. Raises BadKey."""
        if len(private) != KEY_BYTES:
            raise BadKey(f"private key: {len(private)} bytes: an Ed25519 key has {KEY_BYTES}")
        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.public = self._key.public_key().public_bytes_raw()
        self.id = key_id(self.public)

    def sign(self, grant: str) -> str:
        """The annotation's value: a grant's JSON object with its signature."""
        made = base64.b64encode(self._key.sign(grant.encode())).decode()
        return f'{grant[:-1]},"signature":"{self.id}:{made}"}}'


class Verifier:
    """Knows which grants Tessera's scheduler signed, with any of its current and former keys."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        """`keys` are public keys in base64, by key id. Raises BadKey."""
        self._keys = {name: _public(name, text) for name, text in keys.items()}

    def problem(self, text: str) -> str:
        """Why the annotation's value is no grant of Tessera's; empty when it is one."""
        found = _SIGNATURE.search(text)
        if found is None:
            return "it has no signature"
        key = self._keys.get(found[1])
        if key is None:
            return f"it is signed with key {found[1]}, which is not known here"
        raw = base64.b64decode(found[2])
        if base64.b64encode(raw).decode() != found[2]:  # the last digit has bits to spare
            return "its signature is not in base64"
        try:
            key.verify(raw, (text[: found.start()] + "}").encode())
        except (InvalidSignature, UnicodeEncodeError):
            return "its signature does not match what it says"
        return ""


def key_id(public: bytes) -> str:
    """A public key's name: 16 hexadecimal digits of its hash."""
    return hashlib.sha256(public).hexdigest()[:16]


def published_key(public: bytes) -> tuple[str, str]:
    """Key id and base64: an entry of the ConfigMap of public keys."""
    return key_id(public), base64.b64encode(public).decode()


def new_key() -> bytes:
    """A new private key, 32 bytes."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def _public(name: str, text: str) -> Ed25519PublicKey:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != KEY_BYTES or key_id(raw) != name:
        raise BadKey(
            f"public key {name}: {text[:60]!r}: write {KEY_BYTES} bytes in base64 under the key's "
            "own id, as the scheduler does"
        )
    return Ed25519PublicKey.from_public_bytes(raw)
