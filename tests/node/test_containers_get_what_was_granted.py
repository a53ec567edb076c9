"""What a container of a real runtime finds, when an agent answers for it. Nothing here can reach an
API server or a message bus."""

import json
from typing import Any

import pytest

from tessera_core.hook.limits_file import PATH as LIMITS
from tessera_core.hook.paths import HOOK_LIBRARY, PRELOAD
from tessera_schema.cards import MIB
from tessera_schema.injections import Injection
from tests.agent.limitsfile import limits_in
from tests.node.agents import a_part, grant_of, until
from tests.node.conftest import OpenNode
from tests.node.cri import Container, NotDone
from tests.node.runtime import GREEDY, WORK, Containerd

USAGE = "/usr/local/tessera/usage"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
OUT_OF_MEMORY = 2


async def first_card(container: Container) -> dict[str, Any]:
    """What its program says of its first card."""
    await until(lambda: bool(container.printed()))
    found: dict[str, Any] = json.loads(container.printed()[0])
    return found


async def a_job(node: Containerd, name: str, mib: int, image: str = WORK, **more: Any) -> Container:
    """A pod that was granted a part of a card, and its container."""
    uid = f"uid-{name}"
    pod = await node.pod(name, uid=uid, annotations=grant_of(uid, a_part(node, mib, **more)))
    return await pod.run(image=image)


async def test_its_card_the_hook_and_its_files(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        job = await a_job(node, "job", 4096, card=1)
        assert (await job.env())[VISIBLE] == node.cards[1]
        mounts = {mount["destination"]: mount for mount in (await job.spec())["mounts"]}
        for path in (HOOK_LIBRARY, PRELOAD, LIMITS):
            assert "ro" in mounts[path]["options"]
            assert await job.does("touch", path) == (1, _refusal(path))
        assert "rw" in mounts[USAGE]["options"]
        assert await job.does("touch", USAGE) == (0, "")
        assert await job.reads("ls", "/usr/local/tessera") == "lib\nlimits\nusage\n"
        assert await job.reads("cat", PRELOAD) == f"{HOOK_LIBRARY}\n"
        limits = limits_in(agent.folder / "containers/uid-job/main/limits")
        assert limits.cards[0].memory_bytes == 4096 * MIB


def _refusal(path: str) -> str:
    return f"touch: cannot touch '{path}': Read-only file system\n"


async def test_its_memory_and_no_more(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        job = await a_job(node, "job", 4096)
        card = await first_card(job)
        assert (card["total_mib"], card["free_mib"]) == (4096, 4096)
        assert (card["over_mib"], card["over_result"]) == (4097, OUT_OF_MEMORY)
        assert card["taken_result"] == 0
        used = f'tessera_agent_container_memory_bytes{{card="{node.cards[0]}",container="main"'
        await until(lambda: agent.shows(used, card["taken_mib"] * MIB))
        assert await agent.metric('tessera_agent_container_enforced{container="main"') == 1


async def test_pods_of_two_dialects_share_a_card(open_node: OpenNode) -> None:
    async with open_node() as (node, _):
        one = await a_job(node, "one", 10_000, dialect="hami")
        two = await a_job(node, "two", 6_000, dialect="volcano")
        assert [(await first_card(job))["total_mib"] for job in (one, two)] == [10_000, 6_000]


async def test_only_the_container_that_was_named(open_node: OpenNode) -> None:
    async with open_node() as (node, _):
        grant = grant_of("uid-job", a_part(node, 4096))
        pod = await node.pod("job", uid="uid-job", annotations=grant)
        neighbour = await pod.run("neighbour", image=GREEDY)
        assert (await neighbour.env())[VISIBLE] == "void"
        await until(lambda: neighbour.printed() == ['{"event":"no driver"}'])


async def test_its_identity_stands_above_what_its_image_and_its_dialect_say(
    open_node: OpenNode,
) -> None:
    async with open_node() as (node, _):
        given = {"main": Injection(env={VISIBLE: "0", "CUDA_DEVICE_MEMORY_LIMIT_0": "4096m"})}
        grant = grant_of("uid-job", a_part(node, 4096, card=1), given=given)
        pod = await node.pod("job", uid="uid-job", annotations=grant)
        job = await pod.run(image=GREEDY)
        env = await job.env()
        assert env[VISIBLE] == node.cards[1]
        assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "4096m"


async def test_what_a_card_has_no_room_for_is_refused(open_node: OpenNode) -> None:
    async with open_node() as (node, agent):
        await a_job(node, "first", 10_000)
        with pytest.raises(NotDone, match=r"CardOverfull.* 10000 MiB wanted, 10000 of 16384 MiB"):
            await a_job(node, "second", 10_000)
        assert await agent.metric('tessera_agent_refusals_total{why="CardOverfull"}') == 1


async def test_it_starts_again_with_the_same(open_node: OpenNode) -> None:
    async with open_node() as (node, _):
        grant = grant_of("uid-job", a_part(node, 16_000))
        pod = await node.pod("job", uid="uid-job", annotations=grant)
        first = await pod.run(image=WORK)
        await first_card(first)
        await first.stop()
        second = await pod.run(image=WORK, attempt=1)
        await until(lambda: len(second.printed()) > 1)
        assert json.loads(second.printed()[-1])["total_mib"] == 16_000
