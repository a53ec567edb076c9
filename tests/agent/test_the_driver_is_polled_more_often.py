"""While hooks need its answers, the driver is polled more often; for the cards' health
that changes nothing but that faults are known sooner."""

import asyncio

import pytest
from msgspec.structs import replace

from tessera_agent.readers import DriverSilent
from tessera_agent.usage.settings import UsageSettings
from tessera_core.dialect_kit.readings import CardReading, Fault, Readings
from tests.agent.node import SETTINGS, Script, a_card, a_cluster, cards_of, running

pytestmark = pytest.mark.looptime


class Once(Script):
    """Its answer of one number is another one."""

    def __init__(self, number: int, odd: Readings | DriverSilent, *cards: CardReading) -> None:
        super().__init__(*cards)
        self._number = number
        self._odd = odd

    async def poll(self, *, times_only: bool = False) -> Readings | DriverSilent:
        """See Reader."""
        answer = await super().poll(times_only=times_only)
        return self._odd if self.polls == self._number else answer


@pytest.mark.parametrize(
    ("correct_s", "polls"), [(2, 60), (1, 60), (0.5, 120), (0.3, 180), (0.1, 600)]
)
async def test_it_is_polled_as_often_as_hooks_are_corrected(correct_s: float, polls: int) -> None:
    script = Script(a_card())
    settings = replace(SETTINGS, usage=UsageSettings(correct_s=correct_s))
    async with running(await a_cluster(), script, settings=settings) as agent:
        agent.devices.closely = True
        await asyncio.sleep(60.01)
        assert script.polls - 1 == polls
        assert script.of_times == polls - 60
        agent.devices.closely = False
        await asyncio.sleep(60)
        assert script.polls - 1 <= polls + 61


async def test_every_answer_is_announced() -> None:
    async with running(await a_cluster(), Script(a_card())) as agent:
        agent.devices.closely = True
        await asyncio.sleep(0.1)
        for _ in range(4):
            agent.devices.answered.clear()
            await asyncio.sleep(0.5)
            assert agent.devices.answered.is_set()


async def test_a_card_recovers_no_sooner() -> None:
    script = Script(a_card())
    async with running(await a_cluster(), script) as agent:
        agent.devices.closely = True
        await asyncio.sleep(1.2)
        script.answer = Script(a_card(faults=(Fault(code=94, what="XID 94"),))).answer
        await asyncio.sleep(1)
        script.show(a_card())
        await asyncio.sleep(2.5)
        assert not agent.devices.latest.cards[0].healthy
        await asyncio.sleep(1)
        assert agent.devices.latest.cards[0].healthy


async def test_a_fault_that_is_reported_only_then_counts() -> None:
    odd = Script(a_card(faults=(Fault(code=94, what="XID 94"),))).answer
    script = Once(2, odd, a_card())
    async with running(await a_cluster(), script) as agent:
        agent.devices.closely = True
        await asyncio.sleep(0.7)
        assert script.polls == 2
        assert cards_of(agent.states[-1]) == [("GPU-0", False)]
        assert agent.events == ["card 0 (GPU-0) is unhealthy: XID 94"]


async def test_one_silence_then_is_counted_and_changes_nothing() -> None:
    script = Once(2, DriverSilent(why="it hangs"), a_card())
    async with running(await a_cluster(), script) as agent:
        agent.devices.closely = True
        await asyncio.sleep(0.2)
        agent.devices.answered.clear()
        await asyncio.sleep(0.5)
        assert (script.polls, agent.devices.silent_polls) == (2, 1)
        assert not agent.devices.answered.is_set()
        assert agent.devices.readings.cards[0].id == "GPU-0"
        await asyncio.sleep(1)
        assert [state.problems for state in agent.states] == [()]
