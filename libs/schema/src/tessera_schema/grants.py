"""Shares and grants: who holds what. The grant is one annotation, written with the Binding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from tessera_schema.cards import MIB
from tessera_schema.injections import Injection
from tessera_schema.json_codec import decoder
from tessera_schema.requests import Role

GRANT_VERSION: Final = 1
GRANT_KEY: Final = "tessera.dev/grant"


class Share(Struct, frozen=True, kw_only=True, gc=False):
    """A part of one card given to one container. It always takes one slot of the card."""

    container: str
    position: int
    role: Role = Role.APP
    vendor: str
    dialect: str
    card: str
    """The card's id."""
    index: int
    memory_bytes: int
    cores_percent: float = 0
    exclusive: bool = False
    resident_bytes: int | UnsetType = UNSET
    """How much of the memory may lie on the card, where more of the card can be granted than it
    has; the rest may lie in the host's memory. Unset = all of it."""
    best_effort: Literal[True] | UnsetType = UNSET
    """True = no cores are granted: the container has the card's time that others leave. Unset = it
    has its cores, and where they are 0 no limit of them."""
    lent: Literal[True] | UnsetType = UNSET
    """True = the memory is lent: others were granted it and leave it, and may be granted it still.
    Best-effort shares alone have that. Unset = it is granted."""

    @property
    def on_card_bytes(self) -> int:
        """How much of the memory may lie on the card."""
        return self.memory_bytes if self.resident_bytes is UNSET else self.resident_bytes

    @property
    def memory_mib(self) -> int:
        """Memory in whole MiB, rounded down."""
        return self.memory_bytes // MIB


class Grant(Struct, frozen=True, kw_only=True, gc=False):
    """All the shares of one pod. `version` is first on the wire so that old readers can stop."""

    version: int = GRANT_VERSION
    uid: str
    namespace: str
    name: str
    node: str
    shares: tuple[Share, ...]
    revision: int = 0
    """Grows with each live resize: of two valid grants of a pod the one with the larger holds."""
    given: Mapping[str, Injection] = {}
    """Container -> what its dialect's node side adds (variables, mounts): the scheduler knows the
    pod and the dialect's options, the agent knows neither and must not have to."""


class UnknownGrantVersion(Exception):
    """A grant of a newer release: its node must be treated as full, never as free."""


class _Version(Struct, frozen=True):
    version: int


_encoder = msgspec.json.Encoder()
_decode_version = decoder(_Version)
_decode_grant = decoder(Grant)


def encode_grant(grant: Grant) -> str:
    """The annotation's value."""
    return _encoder.encode(grant).decode()


def decode_grant(text: str) -> Grant:
    """Read an annotation's value.

    Raises UnknownGrantVersion for another version, msgspec.DecodeError (which
    msgspec.ValidationError is) for anything malformed.
    """
    version = _decode_version(text).version
    if version != GRANT_VERSION:
        raise UnknownGrantVersion(f"grant version {version}, this release reads {GRANT_VERSION}")
    return _decode_grant(text)
