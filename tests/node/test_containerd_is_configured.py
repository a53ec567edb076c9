"""The component `containerd` on a node whose containerd is real: the drop-in is written, read and
required, what runs goes on running, what fails is put back, and the way back leaves the bytes that
the administrator wrote."""

from __future__ import annotations

import asyncio

import pytest

from tessera_agent.containerd.settings import DropInMode
from tessera_agent.containerd.turn import FAILED
from tessera_core.node.containerd_config import ContainerdFiles
from tests.node.agents import an_agent, until
from tests.node.conftest import OpenRuntime
from tests.node.containerd_unit import Administered, administered
from tests.node.cri import NotDone
from tests.node.runtime import OLDER, WORK

COMMENT = "# Ours: the platform team answers for it.\n"
DEFAULT = ""
OFF = "disable = true\n"


def own(text: str, nri: str) -> str:
    """As administrators have it: comments, and nothing about what Tessera recommends."""
    before, _, table = text.partition('[plugins."io.containerd.nri.v1.nri"]\n')
    paths = [line for line in table.splitlines() if "_path" in line]
    return "\n".join([f'{COMMENT}{before}[plugins."io.containerd.nri.v1.nri"]', nri, *paths, ""])


async def test_the_agent_is_required_once_it_is_there(open_runtime: OpenRuntime) -> None:
    async with (
        open_runtime(written=lambda text: own(text, DEFAULT)) as runtime,
        administered(runtime) as one,
    ):
        original = await one.present()
        running = await (await runtime.pod("before")).run(image=WORK)
        node = one.node()
        await node.step()
        assert "the agent is not there yet" in node.problem
        assert (await one.present(), one.unit.restarts) == (original, 0)
        async with an_agent(runtime) as agent:
            one.agents.append(await asyncio.to_thread(agent.url, "/readyz"))
            await node.step()
            assert (node.problem, one.unit.restarts) == ("", 1)
            nri = await one.nri()
            assert nri["default_validator"]["required_plugins"] == ["tessera"]
            assert nri["plugin_request_timeout"] == "30s"
            assert COMMENT.encode() in ((await one.present()).config or b"")
            assert await running.runs()
            await one.node().step()
            assert one.unit.restarts == 1
            await agent.kill()
            with pytest.raises(NotDone, match="required plugin"):
                await (await runtime.pod("refused")).run(image=WORK)
            await is_as_before(one, original)
            assert await running.runs()
            await (await runtime.pod("after")).run(image=WORK)
            await agent.restart()


async def is_as_before(one: Administered, original: ContainerdFiles) -> None:
    """The way back, taken and taken again."""
    for _ in range(2):
        back = one.node(DropInMode.REMOVE)
        await back.step()
        assert back.problem == ""
    assert await one.present() == original
    assert await asyncio.to_thread(one.backup) is None
    assert "tessera" not in (await one.nri()).get("default_validator", {}).get(
        "required_plugins", []
    )
    assert one.unit.restarts == 2
    assert (await one.lease())["spec"]["holderIdentity"] == ""


async def test_an_older_containerd_gets_what_it_knows(open_runtime: OpenRuntime) -> None:
    async with (
        open_runtime(release=OLDER, written=lambda text: own(text, OFF)) as runtime,
        administered(runtime) as one,
    ):
        original = await one.present()
        node = one.node()
        await node.step()
        assert (node.problem, one.unit.restarts) == ("", 1)
        nri = await one.nri()
        assert (nri["disable"], nri["plugin_request_timeout"]) == (False, "30s")
        assert b"required_plugins" not in ((await one.present()).drop_in or b"")
        async with an_agent(runtime):
            await is_as_before(one, original)


async def test_nri_is_switched_on_before_the_agent_can_be_there(open_runtime: OpenRuntime) -> None:
    async with (
        open_runtime(written=lambda text: own(text, OFF)) as runtime,
        administered(runtime) as one,
    ):
        node = one.node()
        await node.step()
        assert "the agent is not there yet" in node.problem
        assert (await one.nri())["default_validator"]["required_plugins"] == []
        async with an_agent(runtime) as agent:
            one.agents.append(await asyncio.to_thread(agent.url, "/readyz"))
            await node.step()
            assert (node.problem, one.unit.restarts) == ("", 2)
        again = one.node()
        await again.step()
        assert (again.problem, one.unit.restarts) == ("", 2)


async def test_what_does_not_start_is_put_back_and_stops_all_nodes(
    open_runtime: OpenRuntime,
) -> None:
    async with (
        open_runtime(written=lambda text: own(text, OFF)) as runtime,
        administered(runtime) as one,
    ):
        original = await one.present()
        running = await (await runtime.pod("before")).run(image=WORK)
        one.unit.broken = 1
        node = one.node()
        await node.step()
        assert "failed state" in node.problem
        assert "its former files are back, and containerd answers with them" in node.problem
        assert await one.present() == original
        assert await running.runs()
        lease = await one.lease()
        assert lease["spec"]["holderIdentity"] == "worker-1"
        assert "failed state" in lease["metadata"]["annotations"][FAILED]
        await until(lambda: _recorded(one, "ContainerdRestartFailed"))
        other = one.node(name="worker-2")
        for stopped in (other, node, one.node()):
            await stopped.step()
            assert stopped.problem.startswith("stopped: worker-1: ")
        assert (await one.present(), one.unit.restarts) == (original, 2)


async def _recorded(one: Administered, reason: str) -> bool:
    return reason in await one.events()


async def test_a_configuration_that_cannot_be_read_is_not_touched(
    open_runtime: OpenRuntime,
) -> None:
    def imports(text: str) -> str:
        return 'imports = ["conf.d/*.toml"]\n' + own(text, OFF)

    async with open_runtime(written=imports) as runtime, administered(runtime) as one:
        original = await one.present()
        await asyncio.to_thread(one.put, "theirs.toml", "broken = [")
        node = one.node()
        await node.step()
        assert "config dump" in node.problem
        assert "failed to unmarshal TOML" in node.problem
        assert (await one.present(), one.unit.restarts) == (original, 0)
        assert not (await one.lease())["spec"].get("holderIdentity")
        nri_off = '[plugins."io.containerd.nri.v1.nri"]\ndisable = true\n'
        await asyncio.to_thread(one.put, "zzz.toml", nri_off)
        await asyncio.to_thread(one.put, "theirs.toml", "version = 3\n")
        await node.step()
        assert "take the table of io.containerd.nri.v1.nri out of that" in node.problem
        assert (await one.present(), one.unit.restarts) == (original, 0)


async def test_one_that_dies_between_file_and_restart_goes_on(open_runtime: OpenRuntime) -> None:
    async with (
        open_runtime(written=lambda text: own(text, OFF)) as runtime,
        administered(runtime) as one,
    ):
        original = await one.present()
        node = one.node()
        await node.step()
        wanted = await one.present()
        await asyncio.to_thread(one.files.begin, original)
        next_one = one.node()
        await next_one.step()
        assert await one.present() == wanted
        assert await asyncio.to_thread(one.files.begun) is None
        assert one.unit.restarts == 3  # the first, the former files again, and the wanted ones
