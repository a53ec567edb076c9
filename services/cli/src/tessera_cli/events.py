"""`tessera events`: follows the message bus, a line a message."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from tessera_cli.errors import BadConfigFile, InputUnreadable
from tessera_runtime import errors
from tessera_runtime.bus.api import Message
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.cluster import served_cluster
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.errors import BusAway
from tessera_schema.json_codec import decoder
from tessera_schema.subjects import ROOT

CONNECT_S: Final = 10.0
"""Seconds in which the bus has to answer first: somebody at a terminal waits for it. When it is
lost later it is waited for, as the log says."""
IDLE_S: Final = 60.0
"""Seconds after which NATS forgets what was read through: the user `viewer` may not delete it."""
_AGAIN_S: Final = 0.5
_is_json: Final = decoder(dict[str, Any] | list[Any] | str | int | float | bool | None)
_OPTIONS: Final = {
    "url": "--url", "cluster": "--cluster", "user": "--user", "creds_file": "--creds",
}  # fmt: skip


def check(settings: BusSettings) -> None:
    """See whether one could connect so. Raises BadSettings, and Unreadable for a file of
    credentials: a service would wait for it, nobody at a terminal would."""
    if bool(settings.user) != bool(settings.password_file):
        raise BadConfigFile("--user: give it with --password-file, or neither")
    try:
        settings.check()
    except errors.BadSettings as e:
        text = str(e)
        for field, option in _OPTIONS.items():
            text = text.replace(f"bus.{field}", option)
        raise BadConfigFile(text) from e
    for name in filter(None, (settings.password_file, settings.creds_file)):
        try:
            Path(name).read_bytes()
        except OSError as e:
            raise InputUnreadable(
                name, e.strerror or str(e), "give a file that you may read"
            ) from e


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

    `cluster` is the one that somebody named; empty = whichever the bus serves. Raises BadSettings
    where it serves another one, and Unreadable where it does not answer within `wait_s` seconds.
    """
    served = await _served(settings, wait_s)
    if cluster and served and served != cluster:
        raise BadConfigFile(
            "--cluster", cluster, f"this bus serves cluster {served}: write that, or leave it out"
        )
    settings = replace(settings, cluster=served or cluster or settings.cluster)
    count = 0
    wanted = subject or f"{ROOT}.{settings.cluster}.>"
    async with open_bus(settings, "cli", "events") as bus, bus.subscribe(wanted) as messages:
        async for message in messages:
            put(message)
            count += 1
            if count == most:
                return


async def _served(settings: BusSettings, wait_s: float) -> str:
    why: BusAway | None = None
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            while True:
                try:
                    return await served_cluster(settings)
                except BusAway as e:
                    why = e
                await asyncio.sleep(_AGAIN_S)
    raise InputUnreadable(
        f"{why or settings.server_names}",
        f"no answer within {wait_s:g} s",
        "see that NATS runs there, and give --url (in a cluster: kubectl -n tessera-system "
        "port-forward service/tessera-nats 4222)",
    )


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
