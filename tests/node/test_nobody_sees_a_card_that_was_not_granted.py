"""Whatever a pod's image, variables and annotations say."""

import pytest

from tests.node.agents import a_part, an_agent, grant_of, until
from tests.node.conftest import OpenNode, OpenRuntime
from tests.node.cri import Container, NotDone
from tests.node.runtime import GREEDY, TOLERATE, WORK, Containerd

ALL = {"NVIDIA_VISIBLE_DEVICES": "all"}
NO_DRIVER = ['{"event":"no driver"}']


async def sees_nothing(container: Container) -> None:
    """Its program found no driver, and the variable says why."""
    await until(lambda: bool(container.printed()))
    assert container.printed() == NO_DRIVER
    assert (await container.env())["NVIDIA_VISIBLE_DEVICES"] == "void"


async def run_with_all(node: Containerd, name: str = "greedy") -> Container:
    pod = await node.pod(name)
    return await pod.run(image=GREEDY, env=ALL)


async def test_not_by_the_images_variables_nor_by_ones_own(open_node: OpenNode) -> None:
    async with open_node() as (node, _):
        pod = await node.pod("greedy")
        await sees_nothing(await pod.run("by-its-image", image=GREEDY))
        await sees_nothing(await pod.run("by-its-author", image=WORK, env=ALL))


async def test_not_by_both_together(open_node: OpenNode) -> None:
    async with open_node() as (node, _):
        pod = await node.pod("greedy")
        with pytest.raises(NotDone, match="VariableSetTwice"):
            await pod.create(image=GREEDY, env=ALL)
        grant = grant_of("uid-job", a_part(node, 4096))
        pod = await node.pod("job", uid="uid-job", annotations=grant)
        with pytest.raises(NotDone, match="VariableSetTwice"):
            await pod.create(image=GREEDY, env=ALL)


async def test_not_in_a_container_that_is_added_to_a_running_pod(open_node: OpenNode) -> None:
    async with open_node() as (node, _):
        grant = grant_of("uid-job", a_part(node, 4096))
        pod = await node.pod("job", uid="uid-job", annotations=grant)
        await pod.run(image=WORK)
        await sees_nothing(await pod.run("debugger-x7k2p", image=GREEDY))


async def test_not_by_a_grant_that_is_another_pods_or_nobodys(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        copied = grant_of("uid-other", a_part(node, 4096))
        ((key, text),) = grant_of("uid-forged", a_part(node, 4096)).items()
        for name, notes, reason in (
            ("copied", copied, "GrantOfAnother"),
            ("forged", {key: text.replace("4294967296", "8589934592")}, "ForgedGrant"),
            ("cut", {key: text[: len(text) // 2]}, "ForgedGrant"),
        ):
            pod = await node.pod(name, uid=f"uid-{name}", annotations=notes)
            with pytest.raises(NotDone, match=reason):
                await pod.create(image=WORK)
        alerts = 'tessera_agent_alarms_total{what="ForgedGrant"}'
        assert await agent.metric(alerts) == 2


async def test_not_while_the_agent_is_away(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        await agent.kill()
        pod = await node.pod("greedy")
        with pytest.raises(NotDone, match='required plugin "tessera" not present'):
            await pod.create(image=GREEDY)
        await agent.restart()
        await sees_nothing(await pod.run(image=GREEDY))


async def test_where_the_runtime_does_not_wait_for_the_agent_it_is_reported(
    open_runtime: OpenRuntime,
) -> None:
    async with open_runtime(required=()) as node:
        await (await run_with_all(node)).runs()
        grant = grant_of("uid-job", a_part(node, 4096))
        pod = await node.pod("job", uid="uid-job", annotations=grant)
        await pod.run(image=WORK)
        async with an_agent(node) as agent:
            for what in ("CardsWithoutGrant", "StartedWithoutAgent"):
                assert await agent.metric(f'tessera_agent_alarms_total{{what="{what}"}}') == 1


async def test_pods_of_the_system_start_without_the_agent(open_runtime: OpenRuntime) -> None:
    async with open_runtime() as node:
        pod = await node.pod("bus", namespace="tessera-system", annotations={TOLERATE: "true"})
        assert await (await pod.run(image=WORK)).runs()
        pod = await node.pod("bus", namespace="tessera-system")
        with pytest.raises(NotDone, match="required plugin"):
            await pod.create(image=WORK)


async def test_a_runtime_that_calls_no_plugin_is_reported(open_runtime: OpenRuntime) -> None:
    async with (
        open_runtime(nri=False, required=()) as node,
        an_agent(node, ready=False) as agent,
    ):
        await until(lambda: agent.answers("/readyz", 503, "the container runtime does not ask"))
