"""What runs is not touched by the agent's end, and known again to the next one."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_core.hook.limits_file import PATH, decode_limits
from tessera_embedded.apiserver.faults import Cut, InjectedFault
from tessera_kubelet.errors import ContainerRefused
from tessera_kubelet.nri.types import Adjustment
from tests.agent.nri.runtime_node import VISIBLE, a_node, a_pod, a_share, granted, metric, until


def limits_file(given: Adjustment) -> Path:
    return Path(next(m.source for m in given.mounts if m.destination == PATH))


async def test_what_runs_is_known_again(tmp_path: Path) -> None:
    pod = granted("job", a_share(mib=10_000))
    async with a_node(tmp_path) as node:
        async with node.agent() as agent:
            given = await node.run(pod)
            before = [(h.key, h.id, h.shares, h.stage) for h in agent.holdings]
        written = limits_file(given).read_bytes()
        async with node.agent() as agent:
            assert [(h.key, h.id, h.shares, h.stage) for h in agent.holdings] == before
            assert limits_file(given).read_bytes() == written
            with pytest.raises(ContainerRefused, match="CardOverfull"):
                await node.create(granted("other", a_share(mib=10_000)))
            await node.stop(pod)
            await node.create(granted("other", a_share(mib=10_000)))


async def test_a_limits_file_that_was_torn_is_made_again(tmp_path: Path) -> None:
    pod = granted("job", a_share(mib=8_000))
    async with a_node(tmp_path) as node:
        async with node.agent():
            given = await node.run(pod)
        limits_file(given).write_bytes(limits_file(given).read_bytes()[:100])
        inode = limits_file(given).stat().st_ino
        async with node.agent():
            assert decode_limits(limits_file(given).read_bytes()).cards[0].uuid == "GPU-0"
            assert limits_file(given).stat().st_ino == inode  # the container has it mounted


async def test_the_keys_outlive_the_agent_and_the_api_server(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent():
            await until((tmp_path / "agent" / "grant-keys.json").exists)
        node.kube.faults.add(InjectedFault(".*", ".*", Cut()))
        node.bus.away()
        async with node.agent():
            assert (await node.create(granted("job", a_share()))).env[VISIBLE] == "GPU-0"


async def test_garbage_in_the_place_of_keys_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "grant-keys.json").write_text('{"00": "AAAA"}')
    async with a_node(tmp_path, keys=False) as node, node.agent(ready=False) as agent:
        assert not agent.keys.known.is_set()


async def test_what_started_without_the_agent_is_reported(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        node.slip_in(granted("job", a_share(mib=10_000)))
        node.slip_in(a_pod("thief"), env={VISIBLE: "all"})
        node.slip_in(a_pod("modest"), env={VISIBLE: "void"})
        node.slip_in(a_pod("plain"))
        node.slip_in(a_pod("monitor", namespace="kube-system"), env={VISIBLE: "all"})
        async with node.agent(ready=False) as agent:
            await until(lambda: agent.holdings.synchronized and not agent.problem())
            await until(lambda: node.events("CardsWithoutGrant"))
            assert len(node.events("CardsWithoutGrant")) == 1
            assert metric(agent, 'tessera_agent_alarms_total{what="CardsWithoutGrant"}') == 1


async def test_shares_that_nothing_limits_are_taken_all_the_same(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node:
        async with node.agent():
            await until((tmp_path / "agent" / "grant-keys.json").exists)
        node.slip_in(granted("job", a_share(mib=10_000)), env={VISIBLE: "GPU-0"})
        async with node.agent() as agent:
            await until(lambda: node.events("StartedWithoutAgent"))
            assert metric(agent, 'tessera_agent_alarms_total{what="StartedWithoutAgent"}') == 1
            with pytest.raises(ContainerRefused, match="CardOverfull"):
                await node.create(granted("other", a_share(mib=10_000)))


async def test_files_of_containers_that_went_meanwhile_are_cleared_away(tmp_path: Path) -> None:
    stays, goes = granted("stays", a_share(mib=1)), granted("goes", a_share(mib=1))
    async with a_node(tmp_path) as node:
        async with node.agent():
            kept, lost = await node.run(stays), await node.run(goes)
        await node.end(goes)
        async with node.agent():
            await until(lambda: not limits_file(lost).exists())
            assert limits_file(kept).exists()


async def test_an_old_sandbox_takes_nothing_with_it(tmp_path: Path) -> None:
    """The pod's sandbox was created again, as after a crash; the old one is removed long after."""
    pod = granted("job", a_share())
    async with a_node(tmp_path) as node, node.agent() as agent:
        await node.run(pod)
        again = replace(pod, id="sb-again")
        await node.run(again)
        await node.end(pod)
        assert [(h.id, h.holds) for h in agent.holdings] == [("sb-again-main-0", True)]
        assert agent.holdings.granted(pod.uid) is not None
        await node.end(again)
        assert agent.holdings.granted(pod.uid) is None


async def test_an_answer_that_came_too_late_is_reported(tmp_path: Path) -> None:
    """The runtime went on without it: the agent believes to have limited what is not."""
    pod = granted("job", a_share())
    async with a_node(tmp_path) as node, node.agent() as agent:
        await node.run(pod)
        node.slip_in(pod, env={VISIBLE: "all"})  # the same container, as it really is
        agent.plugin.synchronize(*node.state())
        await until(lambda: node.events("StartedWithoutAgent"))
        assert [h.files for h in agent.holdings] == [None]
