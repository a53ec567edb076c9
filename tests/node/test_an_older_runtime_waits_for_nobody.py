"""containerd 2.1 speaks NRI and cannot require a plugin. While an agent is there nobody sees a card
that was not granted, as on 2.2; while it is away containers start as if there were none, and the
next agent says so."""

from functools import partial

import pytest
from msgspec import json

from tests.node.agents import Agent, a_part, an_agent, grant_of, until
from tests.node.conftest import OpenRuntime
from tests.node.cri import Container, NotDone
from tests.node.runtime import GREEDY, OLDER, WORK, Containerd

ALL = {"NVIDIA_VISIBLE_DEVICES": "all"}
NO_DRIVER = ['{"event":"no driver"}']
CARDLESS, UNENFORCED = "CardsWithoutGrant", "StartedWithoutAgent"


async def printed(container: Container) -> list[str]:
    await until(lambda: bool(container.printed()))
    return container.printed()


async def a_job(node: Containerd, name: str, mib: int, card: int = 0) -> Container:
    uid = f"uid-{name}"
    pod = await node.pod(name, uid=uid, annotations=grant_of(uid, a_part(node, mib, card)))
    return await pod.run(image=WORK)


async def alerts(agent: Agent, times: int) -> None:
    """Of so many containers that see cards without a grant, and of so many without limits."""
    for what in (CARDLESS, UNENFORCED):
        counted = f'tessera_agent_alarms_total{{what="{what}"}}'
        await until(partial(agent.shows, counted, times))
        assert await agent.metric(counted) == times


async def unadjusted(node: Containerd, name: str) -> Container:
    """Nobody answers for these: one sees every card, the other has no limits."""
    greedy = await (await node.pod(f"greedy-{name}")).run(image=GREEDY, env=ALL)
    assert "void" not in (await greedy.env())["NVIDIA_VISIBLE_DEVICES"]
    assert await printed(greedy) != NO_DRIVER
    job = await a_job(node, f"job-{name}", 1024)
    assert "/etc/ld.so.preload" not in {m["destination"] for m in (await job.spec())["mounts"]}
    return greedy


async def covered(node: Containerd, name: str) -> Container:
    """As on a runtime that requires the agent."""
    pod = await node.pod(f"covered-{name}")
    for container, image, env in (("by-its-image", GREEDY, {}), ("by-its-author", WORK, ALL)):
        made = await pod.run(container, image=image, env=env)
        assert await printed(made) == NO_DRIVER
        assert (await made.env())["NVIDIA_VISIBLE_DEVICES"] == "void"
    with pytest.raises(NotDone, match="VariableSetTwice"):
        await pod.create("by-both", image=GREEDY, env=ALL)
    copied = grant_of("uid-other", a_part(node, 4096))
    pod = await node.pod(f"copied-{name}", annotations=copied)
    with pytest.raises(NotDone, match="GrantOfAnother"):
        await pod.create(image=WORK)
    uid = f"uid-{name}"
    pod = await node.pod(name, uid=uid, annotations=grant_of(uid, a_part(node, 4096, card=1)))
    job = await pod.run(image=WORK)
    card = json.decode((await printed(job))[0])
    assert (card["total_mib"], card["over_mib"], card["over_result"]) == (4096, 4097, 2)
    assert (await job.env())["NVIDIA_VISIBLE_DEVICES"] == node.cards[1]
    assert await printed(await pod.run("debugger-x7k2p", image=GREEDY)) == NO_DRIVER
    with pytest.raises(NotDone, match="CardOverfull"):
        await a_job(node, f"too-much-{name}", 16_000, card=1)
    return job


async def test_what_is_covered_and_what_is_only_reported(open_runtime: OpenRuntime) -> None:
    async with open_runtime(release=OLDER) as node:
        version = (await node.cri.call("Version"))["runtime_version"]
        assert version.startswith("v2.1.")
        first = await unadjusted(node, "first")
        async with an_agent(node) as agent:
            await alerts(agent, 1)
            job = await covered(node, "one")
            await agent.kill()
            second = await unadjusted(node, "second")
            await agent.restart()
            await alerts(agent, 2)
            for container in (first, second, job):
                assert await container.runs()
            with pytest.raises(NotDone, match="CardOverfull"):
                await a_job(node, "beside", 15_000, card=0)
            await covered(node, "two")
