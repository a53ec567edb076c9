"""How far the rebalancer lets each container be lent to, by its last message about this node.

A message, not the truth: without it, and when it has not been renewed for a while, the agent's own
setting holds. The bus shows its last value to every new reader, however old that is; so its age
counts from the newest usage that it was made of, which has this node's own timestamp.
"""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

import msgspec

from tessera_agent.containers.hook_files import ContainerKey
from tessera_core.hook.records import uuid_key
from tessera_runtime import logs
from tessera_runtime.bus.api import Bus, Resync
from tessera_runtime.clock import Clock
from tessera_schema.messages.hints import NodeHints, decode_hints
from tessera_schema.subjects import HINTS_BUCKET, token

_log: Final = logs.named("tessera.agent.bounds")


class LendingBounds:
    """The bounds of the newest message."""

    def __init__(self, clock: Clock, *, valid_s: float) -> None:
        """A message counts until its usage is `valid_s` seconds old by the clock."""
        self._clock = clock
        self._valid_s = valid_s
        self._most: dict[tuple[ContainerKey, str], float] = {}
        self._made = float("-inf")
        """The loop's time at the newest usage in it."""

    def on_message(self, hints: NodeHints, now: float) -> None:
        """Take the node's newest hints. `now` is the loop's time: the clock is read once, and may
        jump later; a timestamp ahead of it counts as new."""
        self._made = now - max(self._clock.time() - hints.at, 0.0)
        self._most = {
            (ContainerKey(uid=bound.uid, container=bound.container), uuid_key(bound.card)):
            bound.most_cores_percent
            for bound in hints.bounds
        }  # fmt: skip

    def most(self, key: ContainerKey, card: str, now: float) -> float | None:
        """Percent of the card that the container may come to; None = no valid message says."""
        if now - self._made > self._valid_s:
            return None
        return self._most.get((key, uuid_key(card)))

    async def follow(self, bus: Bus, node: str) -> NoReturn:
        """Receive the node's hints, for ever."""
        loop = asyncio.get_running_loop()
        async with bus.watch(HINTS_BUCKET, token(node)) as messages:
            async for message in messages:
                if isinstance(message, Resync):
                    continue
                try:
                    self.on_message(decode_hints(message.data), loop.time())
                except msgspec.DecodeError as e:
                    _log.warning("hints not readable", why=str(e))
        raise AssertionError("a watch has no end")
