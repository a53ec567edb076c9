"""The loop that looks after the cards: poll the driver, decide on the cards' health, publish.

The node's annotation is what counts (`node_annotation`); the message bus only has it sooner, and
may take capacity away. Neither delays the next poll.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from msgspec.structs import replace

from tessera_agent.devices.cards import CardHealthTracker, CardsState
from tessera_agent.devices.cards_publisher import CardsPublisher
from tessera_agent.devices.competing_plugins import CompetingPlugins
from tessera_agent.devices.node_settings import NodeCardSettings
from tessera_agent.readers import CardReader, DriverSilent, ReaderSettings
from tessera_core.dialect_kit.readings import Readings
from tessera_runtime.shared_wakeups import next_multiple, sleep_until_multiple
from tessera_schema.cards import Card
from tessera_schema.messages.device_reports import DeviceState

_APART: Final = 1.5
"""Of the time between two polls: with less than that left, the next is the one that is due."""


class DeviceMonitor:
    """Polls one vendor's cards on this node, and has what it concludes published."""

    def __init__(
        self, reader: CardReader, tracker: CardHealthTracker, competitors: CompetingPlugins,
        publisher: CardsPublisher, settings: NodeCardSettings, *, versions: ReaderSettings,
        poll_s: float, correct_s: float,
    ) -> None:  # fmt: skip
        """Nothing is polled before `watch` runs, but by `poll`. `versions` names those that cannot
        be read; `poll_s`: seconds between polls, `correct_s`: the same while `closely`."""
        self._reader = reader
        self._tracker = tracker
        self._competitors = competitors
        self._publisher = publisher
        self._settings = settings
        self._versions = versions
        self._poll_s = poll_s
        self._often_s = poll_s / max(round(poll_s / correct_s), 1)
        self._learned = False
        self.latest = CardsState()
        """The cards and their health after the last poll."""
        self.cards_to_admit_on: Mapping[str, Card] | None = None
        """`cards` with the largest amounts that settings gave them since containers run here: what
        was admitted once is not refused because less can be granted now."""
        self.readings = Readings()
        """The last answer of the driver."""
        self.answered = asyncio.Event()
        """Set by every answer; its one waiter clears it."""
        self.closely = False
        """Whether answers are needed more often than health needs them."""
        self.silent_polls = 0
        """Polls without an answer, since the start."""

    @property
    def cards(self) -> Mapping[str, Card] | None:
        """The node's cards by id; None before the driver has answered."""
        return {card.id: card for card in self.latest.cards} if self.latest.complete else None

    @property
    def state(self) -> DeviceState:
        """As last concluded; published once it is complete."""
        return self._publisher.state

    @property
    def left_to_others(self) -> bool:
        """Whether another plugin hands out these cards, so that no container is kept from them."""
        return self._competitors.have_cards

    async def watch(self) -> NoReturn:
        """Poll, and publish what changed, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due = next_multiple(loop.time(), self._poll_s)
            await self.poll()
            while self.closely and due - loop.time() > _APART * self._often_s:
                await sleep_until_multiple(self._often_s)
                await self.poll_between()
            await asyncio.sleep(max(due - loop.time(), 0))

    async def poll(self) -> None:
        """Poll once, and publish what follows from it."""
        await self._competitors.refresh()
        self._conclude(await self._query_driver(times_only=False))

    async def poll_between(self) -> None:
        """Poll between two polls that count for the cards' health, for the times of processes; a
        fault counts all the same, since the driver reports it only once."""
        answer = await self._query_driver(times_only=True)
        if isinstance(answer, Readings) and any(card.faults for card in answer.cards):
            self._conclude(answer)

    def _admit_on(self, bare: Sequence[Card]) -> Mapping[str, Card]:
        """`bare` are the cards as they would be without settings."""
        sizes = {card.id: self._settings.loosest(card) for card in bare}
        return {
            card.id: replace(
                card, memory_bytes=sizes[card.id].memory_bytes, slots=sizes[card.id].slots,
                cores_percent=sizes[card.id].cores_percent,
                physical_bytes=card.physical_bytes or card.memory_bytes,
            )
            for card in self.latest.cards
        }  # fmt: skip

    async def _query_driver(self, *, times_only: bool) -> Readings | DriverSilent:
        answer = await self._reader.poll(times_only=times_only)
        if isinstance(answer, DriverSilent):
            self.silent_polls += 1
            return answer
        self.readings = replace(
            answer,
            driver=answer.driver or self._versions.driver,
            toolkit=answer.toolkit or self._versions.toolkit,
        )
        self.answered.set()
        return self.readings

    def _conclude(self, answer: Readings | DriverSilent) -> None:
        now, found = asyncio.get_running_loop().time(), self._publisher.annotation.found
        if found is not None and not self._learned:
            self._tracker.learn(found)
            self._learned = True
        settings = self._settings
        settings.resolve(self._publisher.annotation.node, now)
        if isinstance(answer, Readings):
            answer = settings.current.completed(answer)
        state = self._tracker.update(answer, now)
        bare = state.cards
        state = replace(
            state, cards=settings.current.applied_to(state.cards),
            problems=(*state.problems, *settings.problems),
        )  # fmt: skip
        self.latest = self._competitors.applied_to(state)
        self.cards_to_admit_on = self._admit_on(bare) if self.latest.complete else None
        self._publisher.report(settings.take_notes(), warning=True)
        self._publisher.publish(self.latest, now, final=settings.known)
