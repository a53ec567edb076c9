"""The resource names of the vendor's dialects on the node, so that kube-scheduler considers it.

A pod that fitted nowhere is woken by a node only if the node has every name that the pod asks for,
and falls out before Tessera is asked where it lacks one that kube-scheduler counts. Names that
nobody else advertises are written here, generously: the ledger knows what is free. A name that has
another value belongs to a device plugin and is left alone. Nothing is written before the node's
cards are known, and nothing is taken back because they are not there at the moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NoReturn

import msgspec
from msgspec import Struct

from tessera_agent.settings import InventorySettings
from tessera_core.advertised import GENEROUS, is_generous
from tessera_runtime import logs
from tessera_runtime.errors import ApiConflict, ApiRefused, Passing
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_schema.kube import Node, Quantity
from tessera_schema.wire import decoder

_log: Final = logs.named("tessera.agent.advertising")
_decode_node = decoder(Node)
_LOOK_S: Final = 1.0
"""Seconds between looks at the node as it is known here, which cost nothing."""
_RETRY_MOST_S: Final = 300.0


class About(Struct, frozen=True, kw_only=True):
    """What is advertised, where."""

    node: str
    names: frozenset[str]
    shown: Callable[[], Node | None]
    """The node as somebody else read it last."""
    has_cards: Callable[[], bool]
    left_to_others: Callable[[], bool]
    """Whether a device plugin hands out the cards: then nothing of its is taken over."""


class Advertising:
    """Keeps the names on the node."""

    def __init__(self, kube: Kube, settings: InventorySettings, about: About) -> None:
        """Nothing is written before `keep` runs."""
        self._kube = kube
        self._settings = settings
        self._about = about
        self._path = f"{paths.node(about.node)}/status"
        self._shown: Node | None = None
        self._known: Node | None = None
        self._zeros: set[str] = set()
        self._due = float("-inf")
        self._retry_s = 0.0

    async def keep(self) -> NoReturn:
        """Without end: look, and write what is missing. Only cancellation ends it."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Once; a write is tried only when its turn has come."""
        loop, shown = asyncio.get_running_loop(), self._about.shown()
        if shown is not self._shown:
            self._shown = self._known = shown
        if self._known is None or loop.time() < self._due or not self._changes(self._known):
            return
        try:
            await self._write()
            self._retry_s = self._settings.write_s
        except ApiConflict:
            self._retry_s = self._settings.write_s  # somebody else wrote: look again
        except (Passing, ApiRefused, msgspec.DecodeError) as e:
            self._retry_s = min(max(self._retry_s, self._settings.write_s) * 2, _RETRY_MOST_S)
            _log.warning("resources not advertised", why=str(e))
        self._due = loop.time() + self._retry_s

    async def _write(self) -> None:
        """By what the node is now, and only if it is still that when the patch arrives."""
        node = _decode_node(await self._kube.call(Verb.GET, paths.node(self._about.node)))
        changes = self._changes(node)
        if changes:
            patch = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "status": {"capacity": changes, "allocatable": changes},
            }
            body = msgspec.json.encode(patch)
            answer = await self._kube.call(Verb.PATCH, self._path, body=body, kind=Body.MERGE_PATCH)
            self._zeros.update(n for n in changes if _is_zero(node.status.capacity.get(n)))
            _log.info("resources advertised", names=sorted(changes), value=GENEROUS)
            node = _decode_node(answer)
        self._known = node

    def _changes(self, node: Node) -> Mapping[str, str | None]:
        """Name -> what it is to be on the node; None = away with it."""
        there = node.status.capacity
        if not self._settings.advertise:
            return {n: None for n in sorted(self._about.names) if is_generous(there.get(n))}
        if not self._about.has_cards():
            return {}
        return {name: GENEROUS for name in sorted(self._about.names) if self._lacks(node, name)}

    def _lacks(self, node: Node, name: str) -> bool:
        there = node.status.capacity.get(name)
        if is_generous(there):
            return not is_generous(node.status.allocatable.get(name))
        return there is None or (_is_zero(there) and self._may_take_over(name))

    def _may_take_over(self, name: str) -> bool:
        """A node that was made anew is given 0 of every name by kubelet, and so is a plugin without
        devices. The first happens once; so such a name is taken over once."""
        return name not in self._zeros and not self._about.left_to_others()


def _is_zero(quantity: Quantity | None) -> bool:
    return str(quantity) == "0"
