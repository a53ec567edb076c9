"""Where the picture comes from: the API server, and the message bus if it was named."""

from __future__ import annotations

import argparse
import asyncio
import gc
import time

from tessera_cli import forms
from tessera_cli.cluster_state import documents
from tessera_cli.cluster_state.card_source import CardSource, following, read_cards
from tessera_cli.screen import Screen
from tessera_cli.settings import registry
from tessera_cli.top import live, snapshot
from tessera_cli.top.frame import TopSnapshot
from tessera_cli.top.view import TopView
from tessera_runtime.informers.cluster_feed import ClusterFeed

_NO_BUS = "use is not known: name the message bus by --nats, or add --agents"


async def read(source: CardSource, view: TopView) -> tuple[TopSnapshot, list[str]]:
    """One moment of the cluster, and what was left out. Raises as `read_cards` does."""
    feed = await read_cards(source)
    known = source.bus is not None or source.agents
    return _take(feed, view, source, feed.problem if known else _NO_BUS), feed.notices


async def watch(source: CardSource, view: TopView, screen: Screen) -> None:
    """Draw the cluster until somebody quits. Raises as `read` does."""
    feed = ClusterFeed(registry(None))
    loop = asyncio.get_running_loop()

    def take(wanted: TopView) -> TopSnapshot:
        feed.occupancy.expire(loop.time())
        return _take(feed, wanted, source, _status(source, feed))

    visible = live.VisibleNodes()
    async with following(source, feed, lambda: visible.nodes):
        gc.freeze()  # what was read stays: 5,000 nodes are not to be searched for garbage again
        await live.draw(screen, view, take, visible)


def put(options: argparse.Namespace, found: TopSnapshot) -> None:
    """Print one moment in the form that was asked for."""
    wide = options.output == forms.WIDE
    forms.put(
        options,
        documents.encoded(snapshot.document(found)),
        (),
        lambda to: snapshot.show(to, found, shares=wide),
    )


def _take(feed: ClusterFeed, view: TopView, source: CardSource, status: str) -> TopSnapshot:
    name = source.target.context
    return snapshot.take(
        feed.occupancy, view, name=name, now_s=time.time(), status=status
    )  # fmt: skip


def _status(source: CardSource, feed: ClusterFeed) -> str:
    if source.bus is None:
        return feed.problem if source.agents else _NO_BUS
    if not feed.messages:
        return "use is not known yet: no message of an agent has come"
    return ""
