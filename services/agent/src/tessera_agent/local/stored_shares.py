"""The shares that are held, as the daemon that starts next finds them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from tessera_agent.local.processes import LocalProcess
from tessera_runtime import atomic_write
from tessera_schema.grants import Grant
from tessera_schema.local_shares import ShareWanted

_NAME: Final = "shares.json"
_PRIVATE: Final = 0o600


class StoredShare(Struct, frozen=True, kw_only=True):
    """A share that is held."""

    grant: Grant
    wanted: ShareWanted
    owner: LocalProcess
    """The process that holds it. Of a reserved share, the one that asked for it: only whose it was
    counts."""
    since: float
    """Unix time."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self.grant.uid

    @property
    def reserved(self) -> bool:
        """Whether it is held until it is removed, rather than by a process."""
        return bool(self.wanted.name)


def write_shares(folder: Path, shares: Iterable[StoredShare]) -> None:
    """Write all of them. It blocks. Raises OSError."""
    atomic_write.replace(folder / _NAME, msgspec.json.encode(list(shares)), _PRIVATE)


def read_shares(folder: Path) -> list[StoredShare]:
    """What was written last. It blocks. Raises OSError, msgspec.DecodeError."""
    try:
        return msgspec.json.decode((folder / _NAME).read_bytes(), type=list[StoredShare])
    except FileNotFoundError:
        return []
