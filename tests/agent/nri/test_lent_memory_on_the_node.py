"""Containers with memory that is lent come next to owners that were granted all of a card."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessera_agent.agent import Agent
from tessera_kubelet.errors import ContainerRefused
from tessera_kubelet.nri.types import PodSandbox
from tests.agent.nri.runtime_node import a_node, a_share, granted, metric, until
from tests.agent.nri.test_memory_is_taken_back_on_the_node import (
    QUICK,
    Container,
    a_process,
    owner_gets_its_memory,
    run,
)

CARD_MIB = 16_384


def lent(name: str, mib: int = 4096, card: int = 0) -> PodSandbox:
    return granted(name, a_share(mib=mib, card=card, best_effort=True, lent=True))


def owner(mib: int = CARD_MIB, *, exclusive: bool = False) -> PodSandbox:
    return granted("owner", a_share(mib=mib, exclusive=exclusive))


async def reclaiming(agent: Agent) -> dict[str, bool]:
    """What the agent publishes of its cards."""
    await agent.measurement.measure()
    usage = agent.measurement.latest
    assert usage is not None
    return {load.card: load.reclaims for load in usage.cards}


async def test_what_is_lent_and_what_is_granted_fit_on_one_card(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent(reclaim=QUICK):
        await node.run(owner())
        await node.run(lent("a", 12_000))
        await node.run(lent("b", 12_000))
        with pytest.raises(ContainerRefused, match="16385 MiB of lent memory wanted, and the card"):
            await node.create(lent("d", CARD_MIB + 1))
        with pytest.raises(ContainerRefused, match="CardOverfull"):
            await node.create(granted("c", a_share(mib=1, best_effort=True)))


async def test_an_agent_that_takes_no_memory_back_refuses_it(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        with pytest.raises(ContainerRefused, match=r"CardClosed: .* set TESSERA_RECLAIM_ENABLED"):
            await node.create(lent("a"))
        assert not any((await reclaiming(agent)).values())


async def test_the_agent_publishes_of_which_cards_it_takes_memory_back(tmp_path: Path) -> None:
    with a_process() as process:
        async with a_node(tmp_path) as node, node.agent(reclaim=QUICK) as agent:
            before = await reclaiming(agent)
            assert before["GPU-0"]
            assert all(before.values())
            has = Container(node, await node.run(owner()))
            await run(node, lent("rest"), process)
            await until(lambda: has.is_flagged)

            def waited() -> bool:
                has.wants(100)
                return metric(agent, 'tessera_agent_reclaims_total{what="waited"}') > 0

            await until(waited)
            assert await reclaiming(agent) == {**before, "GPU-0": False}


async def test_nobody_stays_next_to_who_was_granted_the_card_whole(tmp_path: Path) -> None:
    with a_process() as process:
        async with a_node(tmp_path) as node, node.agent(reclaim=QUICK) as agent:
            rest = await run(node, lent("rest"), process)
            await node.run(owner(exclusive=True))
            await until(lambda: not rest.runs)
            await node.end(lent("rest"))
            await until(lambda: node.events("MemoryReclaimed"))
            assert node.events("MemoryReclaimed") == [
                "container main: it is best-effort and was ended: card GPU-0 was granted whole to "
                "a container"
            ]
            assert (await reclaiming(agent))["GPU-0"]
            with pytest.raises(ContainerRefused, match="exclusive use in force"):
                await node.create(lent("next"))


async def test_an_owner_of_the_whole_card_gets_its_memory_back(tmp_path: Path) -> None:
    rest = a_share(mib=12_288, best_effort=True, lent=True)
    await owner_gets_its_memory(tmp_path, CARD_MIB, a_share(mib=CARD_MIB), rest, 15_000)
