"""What a real runtime makes of an agent's answers for devices: CDI names and device nodes of real
character devices, on containerd that can require the agent and on the older one."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.node.agents import a_part, an_agent, grant_of, until
from tests.node.cdi import write_specification
from tests.node.conftest import OpenRuntime
from tests.node.cri import Container, NotDone
from tests.node.runtime import GREEDY, OLDER, WORK, Containerd

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
STRATEGY = "TESSERA_DELIVERY_STRATEGY"
ROOT = "TESSERA_READER_ROOT"


async def a_job(node: Containerd, image: str = WORK, name: str = "job") -> Container:
    """A container that holds a part of the second card."""
    uid = f"uid-{name}"
    grant = grant_of(uid, a_part(node, 4096, card=1))
    pod = await node.pod(name, uid=uid, annotations=grant)
    return await pod.run(image=image)


@asynccontextmanager
async def a_node(
    opened: OpenRuntime, strategy: str, release: str = "", **more: str
) -> AsyncGenerator[Containerd]:
    """A runtime with an agent that is set to this strategy."""
    async with (
        opened(release=release) as node,
        an_agent(node, settings={STRATEGY: strategy, **more}),
    ):
        yield node


@pytest.mark.parametrize("release", ["", OLDER])
async def test_a_name_is_resolved_by_the_runtime(open_runtime: OpenRuntime, release: str) -> None:
    async with a_node(open_runtime, "cdi", release) as node:
        with pytest.raises(
            NotDone, match=rf"unresolvable CDI devices nvidia.com/gpu={node.cards[1]}"
        ):
            await a_job(node, name="early")
        await write_specification(node)
        job = await a_job(node, GREEDY)
        env = await job.env()
        assert (env[VISIBLE], env["TESSERA_SIM_DEVICES"]) == ("void", node.cards[1])
        await until(lambda: bool(job.printed()))
        card = json.loads(job.printed()[0])
        assert (card["total_mib"], card["over_mib"], card["over_result"]) == (4096, 4097, 2)
        plain = await (await node.pod("plain")).run(image=GREEDY)
        await until(lambda: plain.printed() == ['{"event":"no driver"}'])


async def test_a_name_in_an_annotation_is_for_the_vendors_runtime(
    open_runtime: OpenRuntime,
) -> None:
    """containerd reads annotations before it asks a plugin; what runs the container has this."""
    async with a_node(open_runtime, "cdi-annotations") as node:
        await write_specification(node)
        job = await a_job(node)
        spec = await job.spec()
        assert spec["annotations"]["cdi.k8s.io/tessera_nvidia"] == f"nvidia.com/gpu={node.cards[1]}"
        assert (await job.env())[VISIBLE] == "void"
        await until(lambda: job.printed() == ['{"event":"no driver"}'])


async def test_a_mount_is_named_after_the_card(open_runtime: OpenRuntime) -> None:
    async with a_node(open_runtime, "volume-mounts") as node:
        job = await a_job(node)
        folder = (await job.env())[VISIBLE]
        assert await job.reads("ls", folder) == f"{node.cards[1]}\n"


async def test_device_nodes_are_made_and_may_be_opened(open_runtime: OpenRuntime) -> None:
    async with open_runtime() as node:
        host = node.island.folder / "host"
        numbers = {"/dev/gdrdrv": 229, "/dev/nvidia1": 200, "/dev/nvidiactl": 3}
        await node.island.run("install", "-d", host / "dev")
        for path, minor in numbers.items():
            made = host / path.lstrip("/")
            await node.island.run("mknod", made, "c", "1" if minor == 3 else "10", str(minor))
        settings = {
            STRATEGY: "envvar", "TESSERA_DELIVERY_NODES": "true",
            "TESSERA_DELIVERY_FEATURES": "gdrcopy", ROOT: str(host),
        }  # fmt: skip
        async with an_agent(node, settings=settings):
            job = await a_job(node)
            assert "10, 200" in await job.reads("ls", "-l", "/dev/nvidia1")
            assert await job.reads("cat", "/dev/nvidiactl") == ""  # it is the null device
            assert (await job.env())["NVIDIA_GDRCOPY"] == "enabled"
            linux = (await job.spec())["linux"]
            found = {d["path"]: d["minor"] for d in linux["devices"]}
            assert found == numbers
            allowed = {d.get("minor") for d in linux["resources"]["devices"] if d["allow"]}
            assert {3, 200, 229} <= allowed
