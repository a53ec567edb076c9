"""The node's annotation `cards.tessera.dev/<vendor>`: the durable inventory, which only this agent
writes (docs/architecture.md).

What takes capacity away is written at once; the rest waits its turn, so that a card that flaps does
not write a node's object every second. Another client's change is found and undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NoReturn

import msgspec
from msgspec import UNSET, UnsetType

from tessera_agent.devices.settings import InventorySettings
from tessera_runtime import logs
from tessera_runtime.errors import ApiRefused, Transient
from tessera_runtime.kube.api import Body, Kube, Verb
from tessera_schema.annotation_keys import CARDS_PREFIX
from tessera_schema.cards import Card
from tessera_schema.json_codec import decoder
from tessera_schema.kube import Node
from tessera_schema.node_cards import NodeCardsAnnotation, decode_node_cards, encode_node_cards

_log: Final = logs.named("tessera.agent.inventory")
_decode_node = decoder(Node)
_RETRY_FIRST_S: Final = 1.0
_SLACK_S: Final = 0.01
"""A timer may fire a little early; what is due this soon is due."""
_RETRY_MOST_S: Final = 60.0


class CardsAnnotationWriter:
    """Keeps one annotation of one node as it should be."""

    def __init__(
        self, kube: Kube, settings: InventorySettings, node_name: str, vendor: str,
        giving: str | UnsetType = UNSET, speaks: str | UnsetType = UNSET,
    ) -> None:  # fmt: skip
        """Nothing is read or written before `keep` runs. `giving`, `speaks`:
        `NodeCardsAnnotation`'s."""
        self._speaks = speaks
        self._kube = kube
        self._settings = settings
        self._path = f"/api/v1/nodes/{node_name}"
        self._key = f"{CARDS_PREFIX}{vendor}"
        self._giving = giving
        self._cards: tuple[Card, ...] | None = None
        self._advertises: Mapping[str, int] | UnsetType | None = None
        """None before `advertise` was called."""
        self._heartbeat_s: float | UnsetType | None = None
        """None before the Lease was renewed: what a former agent announced stays."""
        self._since_s: int | UnsetType = UNSET
        self._problem: str | UnsetType = UNSET
        self._is_back = False
        """The Lease is renewed again, and the node does not show it yet."""
        self._wanted = self._written = ""
        self._woken = asyncio.Event()
        self._verified_at = self._wrote_at = self._retry_at = float("-inf")
        self._retry_s = 0.0
        self.node: Node | None = None
        """As last read."""
        self.found: tuple[Card, ...] | None = None
        """Cards that the node showed before this agent wrote any; None before the first read."""
        self.problem = ""
        """Why the annotation is not as it should be; empty = it is, or will be within its turn."""
        self.overwritten = 0
        """Times that another client had changed the annotation."""

    @property
    def published(self) -> tuple[Card, ...]:
        """The cards as the node shows them; none where it shows none that can be read."""
        with suppress(msgspec.DecodeError):
            return decode_node_cards(self._there).cards if self._there else ()
        return ()

    @property
    def advertised(self) -> Mapping[str, int]:
        """`NodeCardsAnnotation.advertises` as the node shows it."""
        with suppress(msgspec.DecodeError):
            return (decode_node_cards(self._there).advertises or {}) if self._there else {}
        return {}

    def want(self, cards: Sequence[Card]) -> None:
        """Set the cards that are published from now on. Never blocks."""
        self._cards = tuple(cards)
        self._publish()

    def advertise(self, amounts: Mapping[str, int]) -> None:
        """Set the amounts of extended resources that are recorded next to the cards from now on.
        Never blocks."""
        wanted = dict(sorted(amounts.items())) or UNSET
        if wanted != self._advertises:
            self._advertises = wanted
            if self._cards is not None:
                self._publish()

    def announce(self, heartbeat_s: float, since_s: int) -> None:
        """The agent's Lease was renewed, without a gap since then (Unix time): from now on a
        renewal counts for this many seconds. The node shows it at once, because pods may wait.
        Never blocks."""
        self._heartbeat_s, self._since_s, self._is_back = heartbeat_s, since_s, True
        if self._cards is not None:
            self._publish()

    def explain(self, problem: str) -> None:
        """Set why containers are not given the cards; empty = they are. Never blocks."""
        self._problem = problem or UNSET
        if self._cards is not None:
            self._publish()

    def _publish(self) -> None:
        advertises, heartbeat_s, since_s = self._advertises, self._heartbeat_s, self._since_s
        if heartbeat_s is None:
            heartbeat_s, since_s = self._announced
        if advertises is None:  # those of a former agent stay until this one says otherwise
            advertises = dict(self.advertised) or UNSET
        text = encode_node_cards(
            NodeCardsAnnotation(
                cards=self._cards or (), giving=self._giving, speaks=self._speaks,
                advertises=advertises, heartbeat_s=heartbeat_s, renewed_since_s=since_s,
                problem=self._problem,
            )
        )  # fmt: skip
        if text != self._wanted:
            self._wanted = text
            self._woken.set()

    async def keep(self) -> NoReturn:
        """Read, compare and write, for ever."""
        while True:
            await self._step()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._due()):
                    await self._woken.wait()
            self._woken.clear()

    @property
    def _announced(self) -> tuple[float | UnsetType, int | UnsetType]:
        """What the node shows of the Lease."""
        with suppress(msgspec.DecodeError):
            if self._there:
                shown = decode_node_cards(self._there)
                return shown.heartbeat_s, shown.renewed_since_s
        return UNSET, UNSET

    @property
    def _there(self) -> str:
        return self.node.metadata.annotations.get(self._key, "") if self.node else ""

    def _due(self) -> float:
        """Loop time at which there is something to do, if nothing happens before."""
        due = self._verified_at + self._settings.verify_s
        if self._wanted and self._wanted != self._there:
            due = min(due, self._write_due())
        return max(due, self._retry_at)

    def _write_due(self) -> float:
        if self._wanted != self._written and (self._is_back or self._takes_away()):
            return float("-inf")
        return self._wrote_at + self._settings.write_s

    def _takes_away(self) -> bool:
        wanted = {card.id: card for card in decode_node_cards(self._wanted).cards}
        return any(_lessened(card, wanted.get(card.id)) for card in self.published)

    async def _step(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time() + _SLACK_S
        if now < self._retry_at:
            return
        try:
            if now >= self._verified_at + self._settings.verify_s:
                await self._verify()
            if self._wanted and self._wanted != self._there and now >= self._write_due():
                await self._write()
        except (Transient, ApiRefused) as e:
            self._retry_s = min(max(self._retry_s * 2, _RETRY_FIRST_S), _RETRY_MOST_S)
            self._retry_at = loop.time() + self._retry_s
            self.problem = f"node annotation {self._key} cannot be kept: {e}"
            _log.warning("inventory not written", key=self._key, why=str(e))
        else:
            self._retry_s, self._retry_at, self.problem = 0.0, float("-inf"), ""

    async def _verify(self) -> None:
        before = self._there
        self.node = self._read(await self._kube.call(Verb.GET, self._path))
        self._verified_at = asyncio.get_running_loop().time()
        if self.found is None:
            self.found = self.published
            if self._cards is not None:
                self._publish()  # with what a former agent advertised
        if before and self._there != before:
            self.overwritten += 1
            _log.warning("inventory changed by somebody else", key=self._key)

    async def _write(self) -> None:
        text = self._wanted
        patch = {"metadata": {"annotations": {self._key: text}}}
        answer = await self._kube.call(
            Verb.PATCH, self._path, body=msgspec.json.encode(patch), kind=Body.MERGE_PATCH
        )
        self.node, self._written = self._read(answer), text
        self._is_back = self._is_back and text != self._wanted
        self._wrote_at = self._verified_at = asyncio.get_running_loop().time()
        _log.info("inventory written", key=self._key, bytes=len(text))

    def _read(self, answer: bytes) -> Node:
        try:
            return _decode_node(answer)
        except msgspec.DecodeError as e:
            raise _NotANode(f"{self._path}: {e}") from e


class _NotANode(Transient):
    """The API server answered something else; it may be a proxy that is starting."""


def _lessened(old: Card, new: Card | None) -> bool:
    """Whether pods that fitted the old card may not fit the new one."""
    if not old.healthy or old.cordoned or old.hidden:
        return False
    if new is None or not new.healthy or new.cordoned or new.hidden or new.mode != old.mode:
        return True
    return (new.memory_bytes, new.cores_percent, new.slots) != (
        old.memory_bytes, old.cores_percent, old.slots,
    )  # fmt: skip
