"""What GPU Manager's query port answers, for tools that ask it: `/graph`, `/usage`, `/version`, and
its metrics at `/metric` as well as at `/metrics`.

Shapes, names and units are GPU Manager's; what they show is this node's cards and every container
that holds shares of them, whichever system's names it used in its request. The user who submitted a
pod is not known here: `user` is empty. Reading changes nothing, and all of it is the last result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import Struct

from tessera_agent.agent import Agent
from tessera_agent.containers.holdings import Holding
from tessera_agent.settings import AgentSettings
from tessera_agent.usage.process_owners import Owners, ProcOwners
from tessera_core.dialect_kit.readings import CardReading
from tessera_core.topology import render
from tessera_core.topology.levels import levels
from tessera_core.topology.tree import FreeCards, Leaf, grow
from tessera_runtime.metrics import CONTENT_TYPE
from tessera_schema.cards import MIB, Card
from tessera_schema.messages.device_reports import CardHeld, CardUse, ContainerUse
from tessera_schema.version import VERSION

CLUSTER: Final = "clusterName"
"""Annotation by which platforms say whose pod it is."""
_FULL: Final = 100


class GpuManagerView(Struct, frozen=True, kw_only=True):
    """What GPU Manager's paths show, at one moment."""

    cards: Sequence[Card] = ()
    readings: Sequence[CardReading] = ()
    held: Sequence[CardHeld] = ()
    holdings: Sequence[Holding] = ()
    uses: Sequence[ContainerUse] = ()


def graph(view: GpuManagerView) -> str:
    """The tree of the cards, with what is free of each as it was granted, and what is in use of it
    as its driver says. Memory is in bytes."""
    cards = sorted(view.cards, key=lambda card: card.index)
    held = {one.card: one for one in view.held}
    readings = {one.id: one for one in view.readings}
    leaves = tuple(_leaf(card, held.get(card.id), readings.get(card.id)) for card in cards)
    idle = sum(1 << i for i, card in enumerate(cards) if card.id not in held and card.healthy)
    return render.draw(grow(len(cards), levels(cards)), FreeCards(leaves, idle))


def usage(view: GpuManagerView, owners: Owners) -> dict[str, Any]:
    """Pod's uid -> what its containers use and were granted. Blocks where `owners` does."""
    held: dict[str, list[Holding]] = {}
    for holding in view.holdings:
        if holding.holds:
            held.setdefault(holding.key.uid, []).append(holding)
    uses = {(use.uid, use.container): use for use in view.uses}
    indexes = {card.id: card for card in view.cards}
    pids = _pids(view.readings, owners)
    found = {}
    for uid, each in sorted(held.items()):
        stat = {
            h.key.container: {"dev": [_device(indexes, view, pids, h, card) for card in use.cards]}
            for h in each
            if (use := uses.get((uid, h.key.container))) is not None and use.cards
        }
        if stat:
            pod = each[0].pod
            found[uid] = {
                "stat": stat, "project": pod.namespace, "user": "",
                "cluster": pod.annotations.get(CLUSTER, ""),
                "spec": {h.key.container: _spec(h) for h in each},
            }  # fmt: skip
    return {"usage": found}


def routes(agent: Agent, settings: AgentSettings) -> list[web.RouteDef]:
    """The routes for the agent's server."""
    owners = ProcOwners(settings.usage.proc_folder, agent.holdings.roots)

    def view() -> GpuManagerView:
        usage_now = agent.measurement.latest
        return GpuManagerView(
            cards=agent.devices.latest.cards, readings=agent.devices.readings.cards,
            held=agent.holdings.by_card(), holdings=list(agent.holdings),
            uses=usage_now.containers if usage_now is not None else (),
        )  # fmt: skip

    async def on_graph(_: web.Request) -> web.Response:
        return _json({"graph": graph(view())})

    async def on_usage(_: web.Request) -> web.Response:
        return _json(await asyncio.to_thread(usage, view(), owners))

    async def on_version(_: web.Request) -> web.Response:
        return _json({"version": f"tessera {VERSION}"})

    async def on_metric(_: web.Request) -> web.Response:
        body = await asyncio.to_thread(agent.metrics.text)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    return [
        web.get("/graph", on_graph), web.get("/usage", on_usage), web.get("/version", on_version),
        web.get("/metric", on_metric),
    ]  # fmt: skip


def _leaf(card: Card, held: CardHeld | None, reading: CardReading | None) -> Leaf:
    taken = held or CardHeld(card=card.id, containers=0)
    processes = reading.processes if reading is not None else ()
    return Leaf(
        cores_free=max(_FULL - taken.cores_percent, 0),
        memory_free=max(card.memory_bytes - taken.memory_bytes, 0),
        memory_total=card.memory_bytes,
        memory_used=reading.memory_used_bytes if reading is not None else 0,
        processes=tuple(sorted(process.pid for process in processes)),
    )


def _pids(readings: Sequence[CardReading], owners: Owners) -> Mapping[tuple[str, str], list[int]]:
    """Card's id and container's -> the container's processes there."""
    found: dict[tuple[str, str], list[int]] = {}
    for card in readings:
        for process in card.processes:
            owner = owners.container_of(process.pid)
            if owner:
                found.setdefault((card.id, owner), []).append(process.pid)
    return found


def _device(
    cards: Mapping[str, Card],
    view: GpuManagerView,
    pids: Mapping[tuple[str, str], list[int]],
    holding: Holding,
    use: CardUse,
) -> dict[str, Any]:
    card = cards.get(use.card)
    bus = next((reading.bus for reading in view.readings if reading.id == use.card), "")
    return {
        "id": bus or use.card,
        "card_idx": str(card.index) if card is not None else "",
        "gpu": use.cores_percent,
        "mem": use.memory_bytes // MIB,
        "pids": sorted(pids.get((use.card, holding.id), [])),
        "device_mem": card.memory_mib if card is not None else 0,
    }


def _spec(holding: Holding) -> dict[str, float]:
    return {
        "gpu": sum(share.cores_percent for share in holding.shares) / _FULL,
        "mem": sum(share.memory_bytes for share in holding.shares) // MIB,
    }


def _json(answer: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
