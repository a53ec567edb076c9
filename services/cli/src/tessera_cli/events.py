"""`tessera events`: follows the message bus, a line a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tessera_cli.bus_connection import CONNECT_S, served_by
from tessera_runtime.bus.api import Message
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.settings import BusSettings
from tessera_schema.json_codec import decoder
from tessera_schema.subjects import ROOT

IDLE_S: Final = 60.0
"""Seconds after which NATS forgets what was read through: the user `viewer` may not delete it."""
_is_json: Final = decoder(dict[str, Any] | list[Any] | str | int | float | bool | None)


async def follow(
    settings: BusSettings,
    subject: str,
    put: Callable[[Message], None],
    *,
    cluster: str = "",
    most: int = 0,
    wait_s: float = CONNECT_S,
) -> None:
    """Give every message from now on to `put`, for ever, or until `most` have come.

    `cluster` is the one that somebody named; empty = whichever the bus serves. Raises BadConfigFile
    where it serves another one, and InputUnreadable where it does not answer within
    `wait_s` seconds.
    """
    served = await served_by(settings, cluster, wait_s)
    settings = replace(settings, cluster=served or cluster or settings.cluster)
    count = 0
    wanted = subject or f"{ROOT}.{settings.cluster}.>"
    async with open_bus(settings, "cli", "events") as bus, bus.subscribe(wanted) as messages:
        async for message in messages:
            put(message)
            count += 1
            if count == most:
                return


def as_json(message: Message) -> str:
    """For programs: the whole message as one JSON object."""
    whole = {
        "subject": message.subject,
        "envelope": msgspec.to_builtins(message.envelope),
        "data": _data(message.data),
    }
    return msgspec.json.encode(whole).decode()


def _data(data: bytes) -> msgspec.Raw | str:
    """A message's data; as text where it is no JSON, for anybody may publish anything."""
    try:
        _is_json(data)
    except msgspec.DecodeError:
        return data.decode(errors="replace")
    return msgspec.Raw(data)
