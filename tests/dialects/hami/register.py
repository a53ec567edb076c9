"""The node's register in JSON, as HAMi's newest plugins write it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tessera_core.dialect_kit.hami_format import RegisteredCard


def encode_register(entries: Sequence[RegisteredCard]) -> str:
    """The register's text; fields with zero values are left out, `health: false` among them."""
    return msgspec.json.encode(entries).decode()
