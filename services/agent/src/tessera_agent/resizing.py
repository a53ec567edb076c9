"""A running container's limits changed, live: the seam for whoever decides that.

The grant is not touched: what is changed here holds until the container starts again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from tessera_agent.files import Key
from tessera_agent.given import cores_permille
from tessera_agent.holdings import Holding, Holdings
from tessera_core.hookfiles.limits import CardLimit, Limits, Mode
from tessera_core.judging import no_room
from tessera_runtime.errors import Lasting
from tessera_schema.cards import Card
from tessera_schema.grants import Share


class NotHeld(Lasting):
    """The container does not run, has no limits here, or holds nothing of that card."""


class NoRoom(Lasting):
    """The card has not enough left; nothing was changed."""


class Resizer:
    """Changes limits."""

    def __init__(self, holdings: Holdings, cards: Callable[[], Mapping[str, Card] | None]) -> None:
        """`cards` are those of the node, by id."""
        self._holdings = holdings
        self._cards = cards

    async def set_limits(self, key: Key, share: Share) -> Limits:
        """Give the container this much of the share's card, memory and cores, and return what is in
        force. Raises NotHeld, NoRoom, and OSError where its file cannot be written."""
        held = self._holdings.get(key)
        known = self._cards() or {}
        old = next((s for s in held.shares if s.card == share.card), None) if held else None
        if held is None or old is None or held.files is None or share.card not in known:
            raise NotHeld(f"container {key.container} of pod {key.uid}: card {share.card}")
        full = no_room(key.uid, _with(held, share), known, self._holdings.held(but=key))
        if full:
            raise NoRoom(full)
        self._holdings.change(key, held.id, shares=_with(held, _larger(old, share)))
        try:
            limits = await asyncio.to_thread(
                held.files.change_card, share.card, lambda limit: _limited(limit, share)
            )
        except BaseException:
            self._holdings.change(key, held.id, shares=held.shares)
            raise
        self._holdings.change(key, held.id, shares=_with(held, share))
        return limits


def _with(held: Holding, share: Share) -> tuple[Share, ...]:
    return tuple(share if s.card == share.card else s for s in held.shares)


def _larger(old: Share, new: Share) -> Share:
    return replace(
        new, memory_bytes=max(old.memory_bytes, new.memory_bytes),
        cores_percent=max(old.cores_percent, new.cores_percent),
    )  # fmt: skip


def _limited(limit: CardLimit, share: Share) -> CardLimit:
    permille = cores_permille(share)
    begins = permille and not limit.cores_permille
    return replace(
        limit, memory_bytes=share.memory_bytes or limit.memory_bytes, cores_permille=permille,
        mode=Mode.HARD if begins else limit.mode,
    )  # fmt: skip
