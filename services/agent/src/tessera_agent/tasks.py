"""What an agent does for as long as it is open, each in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tessera_agent.api import grant_keys as published
from tessera_agent.api import pods
from tessera_agent.containers import namespace_allowances
from tessera_agent.devices.extended_resources import ExtendedResources
from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.settings import AgentSettings
from tessera_core.inventory.extended_resources import amounts_of
from tessera_kubelet.nri.plugin import serve
from tessera_kubelet.nri.settings import NriPluginSettings
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.cards import Card

if TYPE_CHECKING:
    from tessera_agent.agent import Agent


def begin(
    tasks: asyncio.TaskGroup,
    agent: Agent,
    world: ServiceEnvironment[AgentSettings],
    inventory: CardsAnnotationWriter,
) -> None:
    """Begin all of it."""
    settings = world.settings
    key_watcher = published.watcher(world.kube, agent.keys, settings.keys.namespace, settings.kube)
    pod_watcher = pods.watcher(world.kube, agent.pods, settings.node, settings.kube)
    registered = agent.kubelet.names if agent.kubelet else frozenset()

    def amounts(cards: Sequence[Card]) -> dict[str, int]:
        found = amounts_of(world.registry, settings.vendor, cards)
        return {name: amount for name, amount in found.items() if name not in registered}

    advertised = ExtendedResources(
        world.kube,
        settings.inventory,
        settings.node,
        amounts,
        inventory=inventory,
        devices=agent.devices,
        holdings=agent.holdings,
    )
    for what, work in {
        "inventory": inventory.keep(),
        "advertising": advertised.keep(),
        "devices": agent.devices.watch(),
        "grant keys": key_watcher.run(),
        "grant keys on disk": agent.keys.keep(),
        "pod watcher": pod_watcher.run(),
        "labels of namespaces": namespace_allowances.watcher(
            world.kube, agent.labelled, settings.kube
        ).run(),
        "pods that are gone": agent.measuring.follow_pods(),
        "measuring": agent.measuring.run(),
        "cards that others gave": agent.disagreeing.keep(),
        "resizing": agent.resizing.run(),
        "news of quotas": agent.throttling.follow(world.bus, settings.bus.cluster),
        "lending": agent.lending.run(),
        "bounds of lending": agent.bounds.follow(world.bus, settings.node),
        **(agent.kubelet.work() if agent.kubelet else _by_runtime(agent, settings)),
    }.items():
        tasks.create_task(work, name=what)


def _by_runtime(agent: Agent, settings: AgentSettings) -> Mapping[str, Coroutine[Any, Any, Any]]:
    nri = settings.nri
    name = nri.name or ("tessera" if agent.plugin.hooks else f"tessera-{settings.vendor}")
    plugin_settings = NriPluginSettings(name=name, index=nri.index)
    return {"runtime": _asked(agent, settings, plugin_settings)}


async def _asked(agent: Agent, settings: AgentSettings, plugin_settings: NriPluginSettings) -> None:
    """The runtime tells only once what runs, and without keys no grant of it is believed."""
    with suppress(TimeoutError):
        async with asyncio.timeout(settings.keys.wait_s):
            await agent.keys.there.wait()
    await serve(settings.nri.socket, agent.plugin, plugin_settings, agent.observe)
