"""Credentials on NATS: passwords, nkeys and `.creds` files, read again at each connection.

An nkey is an Ed25519 key in base32 with a prefix and a checksum; signing the server's nonce needs
no more than that.
"""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from tessera_runtime.bus.settings import BusSettings

_SEED: Final = 18 << 3
_USER: Final = 20 << 3
_BLOCK: Final = re.compile(r"-----BEGIN (.+?)-----\s*(\S+)\s*-+END")


class BadSeed(ValueError):
    """A file that holds no user's nkey seed."""


class Nkey:
    """A user's key pair."""

    def __init__(self, seed: str) -> None:
        """`seed` is the text that begins with SU. Raises BadSeed."""
        self._key = Ed25519PrivateKey.from_private_bytes(_private(seed))
        raw = bytes([_USER]) + self._key.public_key().public_bytes_raw()
        crc = binascii.crc_hqx(raw, 0).to_bytes(2, "little")
        self.public = base64.b32encode(raw + crc).decode().rstrip("=")

    def sign(self, nonce: str) -> bytes:
        """The signature of the server's nonce, in base64."""
        return base64.b64encode(self._key.sign(nonce.encode()))


class NatsCredentials(Struct, frozen=True):
    """What a connection is opened with."""

    user: str | None = None
    password: str | None = None
    nkey: Nkey | None = None
    jwt: str = ""
    tls: ssl.SSLContext | None = None

    def options(self) -> dict[str, Any]:
        """Arguments of nats-py's connect."""
        made: dict[str, Any] = {}
        if self.user is not None:
            made |= {"user": self.user, "password": self.password}
        if self.nkey is not None:
            made["signature_cb"] = self.nkey.sign
        if self.jwt:
            made["user_jwt_cb"] = self.jwt.encode
        if self.tls is not None:
            made["tls"] = self.tls
        return made


def read_credentials(settings: BusSettings) -> NatsCredentials:
    """Read the files that the settings name. Blocks. Raises OSError, BadSeed, ssl.SSLError."""
    user = settings.user or None
    password = settings.password or None
    if settings.password_file:
        password = Path(settings.password_file).read_text(encoding="utf-8").strip()
    nkey, jwt = None, ""
    if settings.nkey_file:
        nkey = Nkey(Path(settings.nkey_file).read_text(encoding="utf-8"))
    if settings.creds_file:
        blocks = dict(_BLOCK.findall(Path(settings.creds_file).read_text(encoding="utf-8")))
        jwt = blocks.get("NATS USER JWT", "")
        nkey = Nkey(blocks.get("USER NKEY SEED", ""))
    return NatsCredentials(user, password, nkey, jwt, _tls(settings))


def _tls(settings: BusSettings) -> ssl.SSLContext | None:
    if not (settings.ca_file or settings.cert_file or "tls://" in settings.url):
        return None
    context = ssl.create_default_context(cafile=settings.ca_file or None)
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    return context


def _private(seed: str) -> bytes:
    text = seed.strip()
    try:
        raw = base64.b32decode(text + "=" * (-len(text) % 8))
    except binascii.Error as e:
        raise BadSeed("no nkey seed: write the text that begins with SU") from e
    if len(raw) != 36 or binascii.crc_hqx(raw[:-2], 0).to_bytes(2, "little") != raw[-2:]:
        raise BadSeed("no nkey seed: its length or checksum is wrong")
    # Two prefixes of five bits each: that it is a seed, and whose.
    whose = (raw[0] & 7) << 5 | raw[1] >> 3
    if raw[0] & 0xF8 != _SEED or whose != _USER:
        raise BadSeed("an nkey, but no user's seed: write the text that begins with SU")
    return raw[2:34]
