"""Settings of the node's cards that change while containers run."""

from pathlib import Path

import pytest

from tessera_agent.agent import Agent
from tessera_agent.devices.node_settings import SettingsMap
from tessera_core.hook.limits_file import CardFlag, decode_limits
from tessera_kubelet.errors import ContainerRefused
from tests.agent.nri.runtime_node import a_node, a_share, granted, until


async def settle(agent: Agent, text: str) -> None:
    """The ConfigMap has these entries from now on."""
    agent.card_settings.on_list([SettingsMap(data={"settings.yaml": f"nodes: [{text}]"})], 0, 0)
    before = agent.card_settings.current
    await until(lambda: agent.card_settings.current != before)
    await agent.devices.poll()


async def test_a_container_on_a_card_that_was_hidden_starts_again(tmp_path: Path) -> None:
    pod = granted("job", a_share())
    async with a_node(tmp_path) as node, node.agent() as agent:
        await node.run(pod)
        await settle(agent, "{hidden: {indexes: [0]}}")
        assert [card.hidden for card in agent.devices.latest.cards] == [True, False]
        await node.stop(pod)
        assert (await node.create(pod, attempt=1)).env["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


async def test_amounts_that_shrink_refuse_nobody_who_had_a_place(tmp_path: Path) -> None:
    pods = [granted(f"job-{i}", a_share(mib=5000, cores_percent=50)) for i in range(3)]
    async with a_node(tmp_path) as node:
        async with node.agent() as agent:
            await settle(agent, "{core_scaling: 2}")
            for pod in pods:
                await node.run(pod)
            await settle(agent, "{slots: 1, memory_scaling: 0.5, core_scaling: 0.5}")
            assert agent.devices.latest.cards[0].memory_mib == 8192
            await node.stop(pods[0])
            await node.run(pods[0], attempt=1)
        async with node.agent():  # another agent: what was in force before is stored
            await node.stop(pods[1])
            await node.run(pods[1], attempt=1)


async def test_amounts_hold_for_everybody_once_nobody_is_left(tmp_path: Path) -> None:
    pods = [granted(f"job-{i}", a_share(mib=1)) for i in range(4)]
    async with a_node(tmp_path) as node, node.agent() as agent:
        await node.run(pods[0])
        await settle(agent, "{slots: 1}")
        await node.run(pods[1])
        for pod in pods[:2]:
            await node.stop(pod)
            await node.remove(pod)
        await until(lambda: not len(agent.holdings))
        await agent.devices.poll()
        await node.run(pods[2])
        with pytest.raises(ContainerRefused, match="all 1 slots in use"):
            await node.create(pods[3])


async def test_the_hooks_log_level_changes_in_running_containers(tmp_path: Path) -> None:
    pod = granted("job", a_share())
    limits = tmp_path / "agent/containers/uid-job/main/limits"
    async with a_node(tmp_path) as node, node.agent() as agent:
        await settle(agent, "{log_level: 1}")
        await node.run(pod)
        assert decode_limits(limits.read_bytes()).log_level == 1
        await settle(agent, "{log_level: 3}")
        await agent.log_levels.reconcile()
        assert decode_limits(limits.read_bytes()).log_level == 3


async def test_contexts_count_in_containers_that_are_created_from_then_on(tmp_path: Path) -> None:
    before, after = granted("job", a_share()), granted("next", a_share())

    def flags(name: str) -> CardFlag:
        file = tmp_path / f"agent/containers/uid-{name}/main/limits"
        return decode_limits(file.read_bytes()).cards[0].flags

    async with a_node(tmp_path) as node, node.agent() as agent:
        await node.run(before)
        await settle(agent, "{charge_contexts: true}")
        await node.run(after)
        assert (flags("job"), flags("next")) == (CardFlag.NONE, CardFlag.CHARGE_OVERHEAD)
        await settle(agent, "{charge_contexts: false}")
        await agent.limits.reconcile()
        assert flags("next") is CardFlag.CHARGE_OVERHEAD


async def test_a_containers_own_log_level_stays(tmp_path: Path) -> None:
    pod = granted("job", a_share())
    limits = tmp_path / "agent/containers/uid-job/main/limits"
    async with a_node(tmp_path) as node, node.agent() as agent:
        await settle(agent, "{log_level: 1}")
        await node.run(pod, env={"LIBCUDA_LOG_LEVEL": "4"})
        assert decode_limits(limits.read_bytes()).log_level == 3
        await agent.log_levels.reconcile()
        assert decode_limits(limits.read_bytes()).log_level == 3
