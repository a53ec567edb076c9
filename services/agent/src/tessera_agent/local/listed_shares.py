"""Shares, and the processes that wait for one, as a user of the machine may see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.containers.hook_files import ContainerFiles
from tessera_agent.local.processes import LocalProcess, user_name
from tessera_agent.local.stored_shares import StoredShare
from tessera_core.hook.records import uuid_key
from tessera_core.hook.usage_file import CardRecord
from tessera_schema.local_shares import LocalShare, LocalWaiting, ShareWanted

_ROOT: Final = 0
_PERMILLE: Final = 10


class WaitingProcess(Struct):
    """A process that waits for room."""

    process: LocalProcess
    wanted: ShareWanted
    since: float
    """Unix time."""
    why: str = ""
    """Why nothing was given so far."""


def share_rows(
    stored: StoredShare, files: ContainerFiles, used: Mapping[str, CardRecord], viewer: int,
    now_ns: int,
) -> list[LocalShare]:  # fmt: skip
    """A row for each card of the share. `used` is by the card's `uuid_key`."""
    lent = {
        card.uuid: card.lent_permille if now_ns < card.lent_until_ns else 0
        for card in files.limits.cards
    }
    rows = []
    for share in stored.grant.shares:
        record = used.get(uuid_key(share.card))
        rows.append(
            LocalShare(
                name=stored.name, user=user_name(stored.owner.uid),
                pid=0 if stored.reserved else stored.owner.pid, card=share.card,
                index=share.index, memory_bytes=share.memory_bytes,
                used_bytes=record.charged_bytes if record else 0,
                cores_percent=share.cores_percent,
                lent_percent=lent.get(share.card, 0) / _PERMILLE,
                best_effort=bool(share.best_effort), since=stored.since,
                command=stored.wanted.command if viewer in (_ROOT, stored.owner.uid) else "",
                gpu_ns=record.gpu_ns if record else 0,
                throttled_ns=record.throttled_ns if record else 0,
            )
        )  # fmt: skip
    return rows


def waiting_row(one: WaitingProcess, viewer: int) -> LocalWaiting:
    """The row of one that waits."""
    shown = one.wanted if viewer in (_ROOT, one.process.uid) else replace(one.wanted, command="")
    return LocalWaiting(
        user=user_name(one.process.uid), pid=one.process.pid, wanted=shown, since=one.since,
        why=one.why,
    )  # fmt: skip
