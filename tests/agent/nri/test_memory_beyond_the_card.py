"""Cards of which more memory is granted than they have: limits files say what may lie on the card,
exactly where the scheduler granted so."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_agent.agent import Agent
from tessera_agent.devices.node_settings import SettingsMap
from tessera_core.hook.limits_file import CardFlag, CardLimit, decode_limits
from tessera_kubelet.errors import ContainerRefused
from tessera_schema.cards import MIB
from tests.agent.nri.runtime_node import a_grant, a_node, a_share, granted, signed, until


async def overcommit(agent: Agent) -> None:
    """Half as much again may be granted of each card as it has: 24,576 of 16,384 MiB."""
    text = "nodes: [{memory_scaling: 1.5, host_memory_mib: 65536}]"
    agent.card_settings.on_list([SettingsMap(data={"settings.yaml": text})], 0, 0)
    await until(lambda: agent.card_settings.current.memory_scaling == 1.5)
    await agent.devices.poll()
    card = agent.devices.latest.cards[0]
    assert (card.memory_mib, card.physical_bytes) == (24_576, 16_384 * MIB)


def limits_of(tmp_path: Path, name: str) -> CardLimit:
    file = tmp_path / f"agent/containers/uid-{name}/main/limits"
    return decode_limits(file.read_bytes()).cards[0]


async def test_only_what_was_granted_so_may_lie_elsewhere(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        await overcommit(agent)
        await node.run(granted("part", a_share(mib=9000, resident_bytes=6000 * MIB)))
        await node.run(granted("whole", a_share(mib=9000)))
    part, whole = limits_of(tmp_path, "part"), limits_of(tmp_path, "whole")
    assert (part.memory_bytes, part.resident_bytes) == (9000 * MIB, 6000 * MIB)
    assert part.flags is CardFlag.OVERSUBSCRIBE
    assert (whole.resident_bytes, whole.flags) == (0, CardFlag.NONE)


async def test_nothing_of_a_small_share_may_lie_on_the_card(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        await overcommit(agent)
        await node.run(granted("small", a_share(mib=1, resident_bytes=0)))
    limit = limits_of(tmp_path, "small")
    assert (limit.resident_bytes, limit.flags) == (1, CardFlag.OVERSUBSCRIBE)


async def test_what_is_promised_on_the_card_never_exceeds_it(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent() as agent:
        await overcommit(agent)
        await node.run(granted("first", a_share(mib=10_000)))
        await node.run(granted("second", a_share(mib=9000, resident_bytes=6000 * MIB)))
        with pytest.raises(ContainerRefused, match="500 MiB wanted on the card itself, 16000 of"):
            await node.create(granted("third", a_share(mib=500)))
        await node.create(granted("fourth", a_share(mib=500, resident_bytes=300 * MIB)))


async def test_scaling_that_goes_leaves_what_runs(tmp_path: Path) -> None:
    pods = [granted(f"job-{i}", a_share(mib=10_000, resident_bytes=6000 * MIB)) for i in range(2)]
    async with a_node(tmp_path) as node, node.agent() as agent:
        await overcommit(agent)
        for pod in pods:
            await node.run(pod)
        data = {"settings.yaml": "nodes: []"}
        agent.card_settings.on_list([SettingsMap(data=data)], 0, 0)
        await until(lambda: agent.card_settings.current.memory_scaling != 1.5)
        await agent.devices.poll()
        assert agent.devices.latest.cards[0].memory_mib == 16_384
        await node.stop(pods[0])
        await node.run(pods[0], attempt=1)
    assert limits_of(tmp_path, "job-0").resident_bytes == 6000 * MIB


async def test_a_later_grant_changes_what_may_lie_on_the_card(tmp_path: Path) -> None:
    share = a_share(mib=9000, resident_bytes=6000 * MIB)
    async with a_node(tmp_path) as node, node.agent() as agent:
        await overcommit(agent)
        uid = await node.show_pod("job")
        grant = replace(a_grant("job", share), uid=uid)
        pod = replace(granted("job"), uid=uid, annotations={"tessera.dev/grant": signed(grant)})
        await node.run(pod)
        later = replace(share, memory_bytes=3000 * MIB, resident_bytes=2000 * MIB)
        await node.annotate_pod("job", signed(replace(grant, shares=(later,), revision=1)))
        held = next(iter(agent.holdings))
        await until(
            lambda: (
                held.files is not None and (held.files.limits.cards[0].resident_bytes == 2000 * MIB)
            )
        )
