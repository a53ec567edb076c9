"""What a container gets for its shares of cards, by the strategy that the settings name.

The runtime waits for the answer: what is the same for all containers is put together when the
node's files are read, and a container adds the names of its cards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.delivery.node_files import NodeFiles, read_node_files
from tessera_agent.delivery.settings import (
    CardDelivery,
    DeliverySettings,
    DeviceIdStrategy,
    DeviceListStrategy,
)
from tessera_agent.delivery.shared_devices import (
    BY_NAME,
    SharedDevices,
    named_mount,
    passes_nodes,
    shared_devices,
    wanted_files,
)
from tessera_agent.delivery.vendor_devices import VendorDevices, vendor_devices_of
from tessera_kubelet.nri.types import NriDevice
from tessera_runtime.errors import BadSettings
from tessera_schema.cards import Card
from tessera_schema.injections import Injection

REFRESH_S: Final = 5.0
"""Seconds between two readings of the node's files: a module may be loaded at any time."""


class InjectedDevices(Struct, frozen=True, kw_only=True):
    """A container's devices."""

    injection: Injection
    cdi: tuple[str, ...] = ()
    """Names that the runtime or kubelet gets as such."""


class DevicesMissing(Exception):
    """What a container must have is not there."""


class DeviceInjector:
    """Adds a container's devices to what it is given. Make it with `load_injector`."""

    def __init__(
        self, vendor: str, facts: VendorDevices | None, settings: DeliverySettings,
        strategy: DeviceListStrategy, root: Path,
    ) -> None:  # fmt: skip
        """`facts` None = the vendor's own plugin gives its cards, and nothing is added."""
        self._facts = facts
        self._settings = settings
        self._root = root
        self._strategy = strategy
        self._annotation = f"{settings.cdi_prefix}tessera_{vendor}"
        self._passes_nodes = passes_nodes(settings, strategy)
        self._wanted = wanted_files(facts, settings, strategy) if facts is not None else ((), ())
        self._refreshed_at = float("-inf")
        self._files = NodeFiles()
        self._shared = SharedDevices()
        self._compose()

    @property
    def problems(self) -> tuple[str, ...]:
        """A sentence for whatever was asked for and is not on the node."""
        return self._shared.problems

    async def refresh(self) -> None:
        """Look at the node's files, if that is needed and was not done just now."""
        now = asyncio.get_running_loop().time()
        if not any(self._wanted) or now < self._refreshed_at + REFRESH_S:
            return
        self._refreshed_at = now
        found = await asyncio.to_thread(read_node_files, self._root, *self._wanted)
        if found != self._files:
            self._files = found
            self._compose()

    def inject(self, injection: Injection, cards: Sequence[Card]) -> InjectedDevices:
        """`injection` with the devices of a container that holds shares of these cards, each named
        once. Raises DevicesMissing."""
        facts, shared = self._facts, self._shared
        if facts is None:
            return InjectedDevices(injection=injection)
        if shared.missing:
            raise DevicesMissing(shared.missing)
        given = replace(
            injection,
            env={**injection.env, **shared.env},
            mounts=(*injection.mounts, *shared.mounts),
            devices=(*injection.devices, *self._nodes(facts, cards), *shared.nodes),
        )
        return self._with_cards(facts, given, cards)

    def _with_cards(
        self, facts: VendorDevices, given: Injection, cards: Sequence[Card]
    ) -> InjectedDevices:
        listed, cdi = facts.nothing, tuple[str, ...]()
        match self._strategy:
            case DeviceListStrategy.ENVVAR | DeviceListStrategy.AUTO:
                listed = ",".join(self._listed_names(facts, cards))
            case DeviceListStrategy.NODES:
                listed = facts.driver
            case DeviceListStrategy.VOLUME_MOUNTS:
                listed = facts.mount
                names = self._listed_names(facts, cards)
                mounts = (named_mount(facts.mount, name) for name in names)
                given = replace(given, mounts=(*given.mounts, *mounts))
            case DeviceListStrategy.CDI:
                cdi = self._cdi_names(facts, cards)
            case DeviceListStrategy.CDI_ANNOTATIONS:
                names = ",".join(self._cdi_names(facts, cards))
                given = replace(given, annotations={**given.annotations, self._annotation: names})
        env = {**given.env, facts.variable: listed}
        return InjectedDevices(injection=replace(given, env=env), cdi=cdi)

    def device_node(self, path: str) -> NriDevice:
        """A device node as the runtime needs it. Raises FileNotFoundError where the last reading of
        the node's files did not find it."""
        found = self._files.nodes.get(path)
        if found is None:
            raise FileNotFoundError(
                f"device node {path} is not there: show the agent the node's /dev "
                "(TESSERA_READER_ROOT)"
            )
        return found

    def _compose(self) -> None:
        if self._facts is not None:
            self._shared = shared_devices(
                self._facts, self._settings, self._strategy, self._files
            )  # fmt: skip

    def _nodes(self, facts: VendorDevices, cards: Sequence[Card]) -> tuple[str, ...]:
        if not self._passes_nodes or not facts.separate:
            return ()
        nodes = tuple(facts.node(card) for card in cards)
        if not all(nodes):
            unknown = ", ".join(card.id for card in cards if not facts.node(card))
            raise DevicesMissing(
                f"the device node of card {unknown} is not known: have the agent give cards by "
                "another way than device nodes (TESSERA_DELIVERY_STRATEGY)"
            )
        return nodes

    def _cdi_names(self, facts: VendorDevices, cards: Sequence[Card]) -> tuple[str, ...]:
        names = [facts.cdi_name] if facts.cdi_name else self._names(cards)
        return (*(f"{facts.kind}={name}" for name in names), *self._shared.cdi)

    def _listed_names(self, facts: VendorDevices, cards: Sequence[Card]) -> Sequence[str]:
        return [facts.listed_name] if facts.listed_name else self._names(cards)

    def _names(self, cards: Sequence[Card]) -> Sequence[str]:
        if self._settings.ids is DeviceIdStrategy.INDEX:
            return [str(card.index) for card in cards]
        return [card.id for card in cards]


async def load_injector(
    vendor: str, delivery: CardDelivery, settings: DeliverySettings, root: Path
) -> DeviceInjector:
    """The vendor's injector, on the machine whose root is there. Raises BadSettings where its
    cards, or what the settings ask for, cannot be given so."""
    strategy = settings.chosen(delivery)
    facts = await asyncio.to_thread(vendor_devices_of, vendor, root)
    if facts is None:
        _refuse_own_plugin(vendor, delivery, settings)
    else:
        _refuse_absent(facts, settings, strategy)
    injector = DeviceInjector(vendor, facts, settings, strategy, root)
    await injector.refresh()
    return injector


def _refuse_own_plugin(vendor: str, delivery: CardDelivery, settings: DeliverySettings) -> None:
    why = f"the device plugin of {vendor} gives its cards"
    if delivery is not CardDelivery.RUNTIME:
        raise BadSettings(f"giving: {delivery}: {why}: write {CardDelivery.RUNTIME}")
    if settings != DeliverySettings():
        raise BadSettings(f"delivery: {why}: unset every TESSERA_DELIVERY variable of this agent")


def _refuse_absent(
    facts: VendorDevices, settings: DeliverySettings, strategy: DeviceListStrategy
) -> None:
    absent = [feature for feature in settings.features if feature not in facts.features]
    if absent:
        raise BadSettings(
            f"delivery.features: {absent[0]}: {facts.machine or 'this machine'} has no such "
            "devices: take it out"
        )
    if settings.imex_channels and facts.channels is None:
        raise BadSettings(
            f"delivery.imex_channels: {settings.imex_channels[0]}: "
            f"{facts.machine or 'this machine'} has no channels: unset it"
        )
    if strategy is DeviceListStrategy.NODES and facts.machine:
        raise BadSettings(
            f"delivery.strategy: {strategy}: on {facts.machine} the driver's files come with the "
            f"card alone: write {DeviceListStrategy.ENVVAR}, or one of {', '.join(BY_NAME)}"
        )
