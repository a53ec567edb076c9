"""Opens an agent in one event loop, with all its tasks.

    async with open_agent(environment) as agent:
        ...

Its only sockets are the runtime's, or kubelet's, and those of the reader; `tessera_agent.main`
serves the rest. Without the API server and without the bus the runtime is answered all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from msgspec import UNSET

from tessera_agent.agent import Agent
from tessera_agent.api import grant_keys, pods
from tessera_agent.containers import namespace_allowances
from tessera_agent.delivery.injector import load_injector
from tessera_agent.delivery.settings import CardDelivery
from tessera_agent.delivery.toolkit import ToolkitGate
from tessera_agent.devices import node_settings
from tessera_agent.devices.extended_resources import ExtendedResources
from tessera_agent.devices.gated_reader import GatedReader
from tessera_agent.devices.heartbeat import AgentHeartbeat
from tessera_agent.devices.message_key import load_message_signer
from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.devices.published_problem import publish_problem
from tessera_agent.readers import CardReader, open_reader
from tessera_agent.settings import AgentSettings
from tessera_core.inventory.extended_resources import amounts_of
from tessera_kubelet.background import open_tasks
from tessera_runtime.bus.outbox import open_outbox
from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.events import open_events
from tessera_runtime.service import ServiceEnvironment
from tessera_schema.cards import Card
from tessera_schema.node_cards import ALLOCATE


@asynccontextmanager
async def open_agent(
    environment: ServiceEnvironment[AgentSettings], reader: CardReader | None = None
) -> AsyncGenerator[Agent]:
    """An agent that looks after its node's cards until the block ends; `reader` None = the
    vendor's own. Raises BadSettings."""
    settings, kube, clock = environment.settings, environment.kube, environment.clock
    if settings.vendor not in environment.registry.vendors:
        known = ", ".join(sorted(environment.registry.vendors))
        raise BadSettings(f"vendor: {settings.vendor!r}: write one of {known}")
    injector = await load_injector(
        settings.vendor, settings.giving, settings.delivery, settings.reader.root
    )
    allocates = settings.giving is CardDelivery.ALLOCATE
    signer = await load_message_signer(Path(settings.folder), settings.vendor)
    annotation = CardsAnnotationWriter(
        kube,
        settings.inventory,
        settings.node,
        settings.vendor,
        ALLOCATE if allocates else UNSET,
        signer.public,
    )
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        instance = f"{settings.node}.{settings.vendor}"
        outbox = await enter(
            open_outbox(
                environment.bus, clock, "agent", instance, settings=settings.outbox,
                sign=signer.sign,
            )
        )  # fmt: skip
        events = await enter(
            open_events(
                kube, settings.events, component="tessera-agent", clock=clock, node=settings.node
            )
        )
        if reader is None:
            reader = await enter(
                open_reader(
                    settings.vendor, settings.reader, annotation, environment.registry, clock
                )
            )
        toolkit = ToolkitGate(settings.toolkit)
        reader = GatedReader(reader, toolkit, injector)
        agent = Agent(environment, reader, annotation, outbox, events, injector, toolkit)
        await agent.keys.load()
        await agent.card_settings.load()
        await agent.devices.poll()
        if allocates:
            # Imported here: it brings gRPC, which agents of the runtime do without.
            from tessera_agent.kubelet_delivery import open_kubelet_delivery

            agent.delivery = await enter(open_kubelet_delivery(environment, agent))
        tasks = await enter(open_tasks())
        _start(tasks, agent, environment, annotation)
        yield agent


def _start(
    tasks: asyncio.TaskGroup,
    agent: Agent,
    environment: ServiceEnvironment[AgentSettings],
    annotation: CardsAnnotationWriter,
) -> None:
    """Start what an agent does for as long as it is open, each in a task of its own."""
    settings, kube, bus = environment.settings, environment.kube, environment.bus
    advertised = _extended_resources(agent, environment, annotation)
    keys = grant_keys.watcher(kube, agent.keys, settings.keys.namespace, settings.kube)
    card_settings = node_settings.watcher(
        kube, agent.card_settings, settings.node_settings, settings.kube
    )
    node_pods = pods.watcher(kube, agent.pods, settings.node, settings.kube)
    labels = namespace_allowances.watcher(kube, agent.labelled, settings.kube)
    heartbeat = AgentHeartbeat(
        kube, settings.heartbeat, settings.node, settings.vendor, annotation, environment.clock
    )
    for what, work in {
        "inventory": annotation.keep(),
        "advertising": advertised.keep(),
        "devices": agent.devices.watch(),
        "toolkit": agent.toolkit.run(),
        "grant keys": keys.run(),
        "grant keys on disk": agent.keys.keep(),
        "settings of cards": card_settings.run(),
        "settings of cards on disk": agent.card_settings.keep(),
        "log levels": agent.log_levels.run(),
        "pod watcher": node_pods.run(),
        "labels of namespaces": labels.run(),
        "pods that are gone": agent.occupied.follow_pods(),
        "measuring": agent.measurement.run(),
        "corrections of hooks": agent.corrections.run(),
        "cards that others gave": agent.device_check.keep(),
        "resizing": agent.limits.run(),
        "throttled namespaces": agent.throttled.follow(bus, settings.bus.cluster),
        "lending": agent.lending.run(),
        "reclaim": agent.reclaim.run(),
        "bounds of lending": agent.bounds.follow(bus, settings.node),
        "heartbeat": heartbeat.run(agent.problem),
        "problem": publish_problem(agent.problem, annotation),
        **{name: agent.toolkit.hold(work) for name, work in agent.delivery.work().items()},
    }.items():
        tasks.create_task(work, name=what)


def _extended_resources(
    agent: Agent, environment: ServiceEnvironment[AgentSettings], annotation: CardsAnnotationWriter
) -> ExtendedResources:
    settings = environment.settings

    def amounts(cards: Sequence[Card]) -> dict[str, int]:
        found = amounts_of(environment.registry, settings.vendor, cards)
        return {name: amount for name, amount in found.items() if name not in agent.delivery.names}

    return ExtendedResources(
        environment.kube, settings.inventory, settings.node, amounts, inventory=annotation,
        devices=agent.devices, holdings=agent.holdings,
    )  # fmt: skip
