"""How a command reaches the message bus, as its options say, and which cluster it finds there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tessera_cli.errors import BadConfigFile, InputUnreadable
from tessera_runtime import errors
from tessera_runtime.bus.cluster import served_cluster
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.errors import BusAway

CONNECT_S: Final = 10.0
"""Seconds in which the bus has to answer first: somebody at a terminal waits for it. When it is
lost later it is waited for, as the log says."""
_AGAIN_S: Final = 0.5
EVENTS_OPTIONS: Final = {
    "url": "--url", "cluster": "--cluster", "user": "--user", "creds_file": "--creds",
    "password_file": "--password-file",
}  # fmt: skip


def check(settings: BusSettings, options: Mapping[str, str] = EVENTS_OPTIONS) -> None:
    """See whether one could connect so; `options` are settings' names on the command line.

    Raises BadConfigFile, and InputUnreadable for a file of credentials: a service would wait for
    it, nobody at a terminal would.
    """
    if bool(settings.user) != bool(settings.password_file):
        raise BadConfigFile(
            f"{options['user']}: give it with {options['password_file']}, or neither"
        )
    try:
        settings.check()
    except errors.BadSettings as e:
        text = str(e)
        for field, option in options.items():
            text = text.replace(f"bus.{field}", option)
        raise BadConfigFile(text) from e
    for name in filter(None, (settings.password_file, settings.creds_file)):
        try:
            Path(name).read_bytes()
        except OSError as e:
            raise InputUnreadable(
                name, e.strerror or str(e), "give a file that you may read"
            ) from e


async def served_by(
    settings: BusSettings,
    cluster: str,
    wait_s: float = CONNECT_S,
    options: Mapping[str, str] = EVENTS_OPTIONS,
) -> str:
    """The cluster that the bus serves; empty where no service has made its buckets yet.

    `cluster` is the one that somebody named; empty = whichever it is. Raises BadConfigFile where
    the bus serves another one, and InputUnreadable where it does not answer within `wait_s`.
    """
    served = await _served(settings, wait_s, options["url"])
    if cluster and served and served != cluster:
        raise BadConfigFile(
            options["cluster"],
            cluster,
            f"this bus serves cluster {served}: write that, or leave it out",
        )
    return served


async def _served(settings: BusSettings, wait_s: float, option: str) -> str:
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
        f"see that NATS runs there, and give {option} (in a cluster: kubectl -n tessera-system "
        "port-forward service/tessera-nats 4222)",
    )
