"""The record of one pod's latest decision, as `explain` answers it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from tessera_schema.json_codec import decoder
from tessera_schema.reasons import Reason


class ReasonRecord(Struct, frozen=True, kw_only=True):
    """One reason on one node. `node` is empty for reasons of the pod as a whole."""

    node: str = ""
    reason: Reason
    message: str


class DecisionRecord(Struct, frozen=True, kw_only=True):
    """What was decided, and for a pod that is not placed, why, node by node in numbers."""

    uid: str
    verdict: str
    """placed, waiting or rejected."""
    at: float
    """Unix time in seconds."""
    attempts: int = 1
    node: str = ""
    feasible_nodes: int = 0
    message: str = ""
    """One line."""
    reasons: tuple[ReasonRecord, ...] = ()


_encode = msgspec.json.Encoder().encode
_decode = decoder(DecisionRecord)


def encode_decision(record: DecisionRecord) -> bytes:
    """The record as JSON."""
    return _encode(record)


def decode_decision(data: bytes) -> DecisionRecord:
    """Raises msgspec.DecodeError."""
    return _decode(data)
