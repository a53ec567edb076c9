"""The resource names of the vendor's dialects on the node, so that kube-scheduler considers it,
each with what the node's cards amount to (`tessera_core.inventory.extended_resources`).

kube-scheduler tries a pod that fitted nowhere again for a node only if the node has every name that
the pod asks for.
Names that no device plugin advertises are written here; a name that has another value belongs to a
device plugin and is left alone. Which amounts are the agent's own is recorded in the inventory
next to the cards: a name is recorded before its amount is first written, so that the amount is not
taken for cards. Nothing is written before the node's cards are known, and nothing is taken back
because they are not there at the moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, NoReturn

import msgspec

from tessera_agent.containers.holdings import ContainerRegistry
from tessera_agent.devices.monitor import DeviceMonitor
from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.devices.settings import InventorySettings
from tessera_core.inventory.extended_resources import is_former
from tessera_core.kube.quantity import BadQuantity, quantity_value
from tessera_runtime import logs
from tessera_runtime.errors import ApiConflict, ApiRefused, Transient
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_runtime.shared_wakeups import sleep_until_multiple
from tessera_schema.cards import Card
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Node, Quantity

_log: Final = logs.named("tessera.agent.advertising")
_decode_node = decoder(Node)
_COMPARE_S: Final = 1.0
"""Seconds between comparisons with the node as it is known here, which cost nothing."""
_RETRY_MOST_S: Final = 300.0

Amounts = Mapping[str, int]


class ExtendedResources:
    """Keeps the names and amounts on the node."""

    def __init__(
        self, kube: Kube, settings: InventorySettings, node: str,
        amounts: Callable[[tuple[Card, ...]], Amounts], *,
        inventory: CardsAnnotationWriter, devices: DeviceMonitor, holdings: ContainerRegistry,
    ) -> None:  # fmt: skip
        """`amounts` says what cards amount to, of each name that is this agent's to advertise.
        Nothing is written before `keep` runs."""
        self._kube = kube
        self._settings = settings
        self._amounts = amounts
        self._inventory = inventory
        self._devices = devices
        self._holdings = holdings
        self._node = paths.node(node)
        self._read: Node | None = None
        self._known: Node | None = None
        self._in_line: tuple[object, ...] = ()
        """By what the node was in line when it was compared last."""
        self._zeros: set[str] = set()
        self._due = float("-inf")
        self._retry_s = 0.0

    async def keep(self) -> NoReturn:
        """Compare, and write what is missing, for ever."""
        while True:
            await self.reconcile()
            await sleep_until_multiple(_COMPARE_S)

    async def reconcile(self) -> None:
        """Compare once; a write is tried only when its turn has come."""
        loop, node = asyncio.get_running_loop(), self._inventory.node
        if node is not self._read:
            self._read = self._known = node
        if self._known is None or loop.time() < self._due:
            return
        compared = (
            node, self._known, self._devices.latest.cards, bool(len(self._holdings)),
            self._devices.left_to_others,
        )  # fmt: skip
        if compared == self._in_line:
            return
        self._in_line = ()
        recorded = self._inventory.advertised
        wanted = self._wanted(recorded)
        if wanted is None:
            return
        changes = self._changes(self._known, recorded, wanted)
        if changes.keys() - recorded.keys():
            self._inventory.advertise({**wanted, **recorded})  # then, once that is written, go on
        elif changes:
            await self._try(recorded, wanted)
        else:
            there = self._known.status.capacity
            self._inventory.advertise({n: a for n, a in wanted.items() if _is(there.get(n), a)})
            self._in_line = compared

    def _wanted(self, recorded: Amounts) -> Amounts | None:
        """Name -> amount; None = leave it as it is, as the cards are not known at the moment.

        While pods hold shares no amount falls: kubelet holds new pods against the sum of what all
        pods ask, those on a card that is gone included.
        """
        if not self._settings.advertise or self._devices.left_to_others:
            return {}
        cards = self._devices.latest.cards
        if not cards:
            return None
        now = {name: amount for name, amount in self._amounts(cards).items() if amount}
        if not len(self._holdings):
            return now
        return {name: max(now.get(name, 0), recorded.get(name, 0)) for name in {**recorded, **now}}

    async def _try(self, recorded: Amounts, wanted: Amounts) -> None:
        try:
            await self._write(recorded, wanted)
            self._retry_s = self._settings.write_s
        except ApiConflict:
            self._retry_s = self._settings.write_s  # another client wrote: read again
        except (Transient, ApiRefused, msgspec.DecodeError) as e:
            self._retry_s = min(max(self._retry_s, self._settings.write_s) * 2, _RETRY_MOST_S)
            _log.warning("resources not advertised", why=str(e))
        self._due = asyncio.get_running_loop().time() + self._retry_s

    async def _write(self, recorded: Amounts, wanted: Amounts) -> None:
        """Write by what the node is now, and only if it is still that when the patch arrives."""
        node = _decode_node(await self._kube.call(Verb.GET, self._node))
        changes = self._changes(node, recorded, wanted)
        if changes:
            patch = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "status": {"capacity": changes, "allocatable": changes},
            }
            body, path = msgspec.json.encode(patch), f"{self._node}/status"
            answer = await self._kube.call(Verb.PATCH, path, body=body, kind=Body.MERGE_PATCH)
            self._zeros.update(n for n in changes if _is(node.status.capacity.get(n), 0))
            _log.info("resources advertised", amounts=changes)
            node = _decode_node(answer)
        self._known = node

    def _changes(self, node: Node, recorded: Amounts, wanted: Amounts) -> Mapping[str, str | None]:
        """Name -> its amount for the node; None = remove it."""
        changes: dict[str, str | None] = {}
        for name in sorted({*recorded, *wanted, *_former(node)}):
            there = node.status.capacity.get(name)
            own = _is_own(there, recorded.get(name), wanted.get(name))
            if name not in wanted:
                if own:
                    changes[name] = None
            elif own or there is None or (_is(there, 0) and self._may_take_over(name)):
                text = str(wanted[name])
                usable = node.status.allocatable.get(name)
                if not (_is(there, wanted[name]) and _is(usable, wanted[name])):
                    changes[name] = text
        return changes

    def _may_take_over(self, name: str) -> bool:
        """Kubelet gives a node that was created again 0 of every name, and so it does for a plugin
        without devices. The first happens once; so such a name is taken over once."""
        return name not in self._zeros and not self._devices.left_to_others


def _former(node: Node) -> frozenset[str]:
    """Names that an agent of the first release advertised."""
    return frozenset(name for name, there in node.status.capacity.items() if is_former(there))


def _is_own(there: Quantity | None, *amounts: int | None) -> bool:
    """Whether an amount on the node is an agent's: recorded, about to be, or of a former release.
    An agent that was ended between its write and the record finds the amount again."""
    return there is not None and (is_former(there) or any(_is(there, a) for a in amounts))


def _is(there: Quantity | None, amount: int | None) -> bool:
    """By value: an API server writes 1000 as `1k`."""
    if there is None or amount is None:
        return False
    with suppress(BadQuantity):
        return quantity_value(there) == amount
    return False
