"""The loop that looks after the cards: poll, conclude, publish.

The node's annotation is what counts (`inventory`); the message bus only hears of it sooner, and
may take capacity away. Neither keeps the next poll waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from tessera_agent.devices.cards import CardHealthTracker, CardsState
from tessera_agent.devices.competing_plugins import competing_plugins_on
from tessera_agent.devices.node_annotation import CardsAnnotationWriter
from tessera_agent.readers import CardReader, DriverSilent
from tessera_agent.settings import AgentSettings
from tessera_core.dialect_kit.monitoring import MonitoringSpec
from tessera_core.dialect_kit.readings import Readings
from tessera_runtime import logs
from tessera_runtime.bus.outbox import Outbox
from tessera_schema.messages.device_reports import DeviceState, encode
from tessera_schema.messages.event_catalogue import DEVICE_STATE
from tessera_schema.subjects import DEVICES_BUCKET, token

_log: Final = logs.named("tessera.agent.cards")
_APART: Final = 1.5
"""Of the time between two polls: with less than that left, the next is the one that is due."""

Tell = Callable[[DeviceState], None]
"""Gives the state to the message bus; never blocks, never raises."""
TellEvent = Callable[[str], None]
"""Puts a sentence beside the node, as a Kubernetes Event; never blocks, never raises."""


class DeviceOutlets(Struct, frozen=True, kw_only=True):
    """Where what is found goes."""

    inventory: CardsAnnotationWriter
    tell: Tell
    tell_event: TellEvent
    """Something is well again."""
    tell_problem: TellEvent
    """Something is wrong."""


class DeviceMonitor:
    """One vendor's cards on this node."""

    def __init__(
        self,
        reader: CardReader,
        care: MonitoringSpec,
        settings: AgentSettings,
        outlets: DeviceOutlets,
    ) -> None:
        """Nothing is polled before `watch` runs."""
        self._reader = reader
        self._care = care
        self._settings = settings
        self._outlets = outlets
        self._keeper = CardHealthTracker(care, settings.health, settings.inventory.slots)
        self._learned = False
        self._rivals: tuple[str, ...] = ()
        self._rivals_at = self._told_at = float("-inf")
        self.seen = CardsState()
        """What is believed of the cards."""
        self.readings = Readings()
        """The last answer of the driver."""
        self.news = asyncio.Event()
        """Set by every answer; whoever waits for it clears it."""
        self.closely = False
        """Whether somebody needs answers more often than health does."""
        self.silent_polls = 0
        """Polls without an answer, since the start."""
        self.state = DeviceState(node=settings.node, vendor=care.vendor)
        """As last concluded; told once it is complete."""

    @property
    def left_to_others(self) -> bool:
        """Whether something else hands out these cards, so that nobody is kept from them here."""
        return bool(self._rivals) and self._settings.inventory.leave_to_others

    async def watch(self) -> None:
        """Without end: poll, and publish what changed. Only cancellation ends it."""
        loop, poll_s = asyncio.get_running_loop(), self._settings.health.poll_s
        often_s = poll_s / max(round(poll_s / self._settings.usage.correct_s), 1)
        while True:
            due = loop.time() + poll_s
            await self.poll()
            while self.closely and due - loop.time() > _APART * often_s:
                await asyncio.sleep(often_s)
                await self.glance()
            await asyncio.sleep(max(due - loop.time(), 0))

    async def poll(self) -> None:
        """One poll and what follows from it."""
        loop = asyncio.get_running_loop()
        due = self._rivals_at + self._settings.inventory.verify_s
        if self._care.competing_plugins and loop.time() >= due:
            self._rivals_at = loop.time()
            self._rivals = await asyncio.to_thread(
                competing_plugins_on,
                self._settings.inventory.kubelet_folder,
                self._care.competing_plugins,
            )
        self._conclude(await self._asked())

    async def glance(self) -> None:
        """A poll between two that count for the cards' health; but faults are told only once."""
        read = await self._asked()
        if isinstance(read, Readings) and any(card.faults for card in read.cards):
            self._conclude(read)

    async def _asked(self) -> Readings | DriverSilent:
        read = await self._reader.poll()
        if isinstance(read, DriverSilent):
            self.silent_polls += 1
            return read
        self.readings = self._with_versions(read)
        self.news.set()
        return self.readings

    def _conclude(self, read: Readings | DriverSilent) -> None:
        now, found = asyncio.get_running_loop().time(), self._outlets.inventory.found
        if found is not None and not self._learned:
            self._keeper.learn(found)
            self._learned = True
        self.seen = self._left_alone(self._keeper.see(read, now))
        self._publish(now)

    def _with_versions(self, read: Readings) -> Readings:
        """With the versions that an operator named, where they cannot be read."""
        said = self._settings.reader
        return replace(
            read, driver=read.driver or said.driver, toolkit=read.toolkit or said.toolkit
        )  # fmt: skip

    def _left_alone(self, seen: CardsState) -> CardsState:
        if not self._rivals:
            return seen
        others = ", ".join(self._rivals)
        if not self._settings.inventory.leave_to_others:
            return replace(seen, problems=(*seen.problems, f"{others} runs on this node as well"))
        return replace(
            seen,
            cards=tuple(replace(card, cordoned=True) for card in seen.cards),
            problems=(
                *seen.problems, f"{others} runs on this node: its cards are left to it; remove it "
                "to share them",
            ),
        )  # fmt: skip

    def _publish(self, now: float) -> None:
        seen, outlets = self.seen, self._outlets
        telling = seen.complete and bool(seen.cards or not self._care.counted)
        if telling:
            outlets.inventory.want(seen.cards)
        problem = outlets.inventory.problem
        state = DeviceState(
            node=self._settings.node, vendor=self._care.vendor, cards=seen.cards,
            driver=seen.driver, problems=(*seen.problems, *((problem,) if problem else ())),
        )  # fmt: skip
        fresh = tuple(p for p in state.problems if p not in self.state.problems)
        for tell, sentences in ((outlets.tell_event, seen.back), (outlets.tell_problem, fresh)):
            for sentence in sentences:
                _log.warning("cards", vendor=self._care.vendor, what=sentence)
                tell(sentence)
        due = self._told_at + self._settings.inventory.tell_s
        if telling and (state != self.state or now >= due):
            outlets.tell(state)
            self._told_at = now
        self.state = state


def teller(outbox: Outbox, node: str, vendor: str) -> Tell:
    """Tells the state through an outbox, as the last value of the node's and vendor's key."""
    key = f"{token(node)}.{vendor}"

    def tell(state: DeviceState) -> None:
        outbox.publish_state(DEVICES_BUCKET, key, DEVICE_STATE, encode(state))

    return tell
