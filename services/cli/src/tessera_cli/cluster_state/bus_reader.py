"""Reads what agents report from the message bus: the state of cards, and what pods use of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final, NoReturn

from msgspec.structs import replace

from tessera_cli.bus_connection import check, served_by
from tessera_runtime.background import running_in_background
from tessera_runtime.bus.client import open_bus
from tessera_runtime.bus.settings import BusSettings
from tessera_runtime.informers.cluster_feed import ClusterFeed, receive_states, receive_usage

NATS_OPTIONS: Final = {
    "url": "--nats", "cluster": "--nats-cluster", "user": "--nats-user",
    "creds_file": "--nats-creds", "password_file": "--nats-password-file",
}  # fmt: skip
"""Settings' names on the command line; `--user` is Kubernetes' there."""
_IDLE_S: Final = 60.0
"""Seconds after which NATS forgets what was read through: the user `viewer` may not delete it."""
_AT_ONCE: Final = 10
_PAUSE_S: Final = 0.05
_ANY: Final = "default"
"""The cluster of settings where none was named."""


def settings(*, url: str, cluster: str, creds: str, user: str, password_file: str) -> BusSettings:
    """A bus that is read only; empty = not given. Raises BadConfigFile, InputUnreadable."""
    found = BusSettings(
        url=url, cluster=cluster or _ANY, creds_file=creds, user=user,
        password_file=password_file, arrange=False, tidy=False, idle_s=_IDLE_S,
    )  # fmt: skip
    check(found, NATS_OPTIONS)
    return found


@asynccontextmanager
async def receiving(bus: BusSettings, feed: ClusterFeed) -> AsyncGenerator[None]:
    """Give the feed what agents report while the body runs. Nodes and pods were read before: a
    report of what nobody knows does not count. Raises as `served_by` does."""
    named = "" if bus.cluster == _ANY else bus.cluster
    served = await served_by(bus, named, options=NATS_OPTIONS) or bus.cluster
    feed.serves(served)
    async with (
        open_bus(replace(bus, cluster=served), "cli", "top") as opened,
        running_in_background(receive_states(opened, feed), "device states"),
        running_in_background(receive_usage(opened, served, feed), "usage"),
    ):
        yield


async def until_reported(feed: ClusterFeed, wait_s: float) -> None:
    """Wait until each agent has reported usage once, or for so many seconds."""
    with suppress(TimeoutError):
        async with asyncio.timeout(wait_s):
            while feed.reporting - feed.occupancy.measured():
                await feed.usage_came.wait()
                feed.usage_came.clear()
                feed.settle()


async def settle_on(feed: ClusterFeed, nodes: Callable[[], Iterable[str]]) -> NoReturn:
    """Count what comes for ever, a little at a time, so that keys are answered in between. What
    `nodes` says is drawn comes first; of others some 200 reports a second."""
    while True:
        feed.settle(_AT_ONCE, nodes())
        await asyncio.sleep(_PAUSE_S)
