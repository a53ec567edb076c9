"""What a container is answered that holds shares, and what one is that holds none."""

import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from tessera_core.hook.limits_file import PATH, HookLimits, Mode, decode_limits
from tessera_core.hook.paths import DRIVER_HOST, HOOK_LIBRARY, HOOK_LIBRARY_HOST, PRELOAD
from tessera_core.hook.usage_file import PATH as USAGE_PATH
from tessera_core.hook.usage_file import SIZE
from tessera_kubelet.errors import ContainerRefused
from tessera_kubelet.nri.types import Adjustment
from tessera_schema.cards import MIB
from tessera_schema.injections import Injection, Mount
from tests.agent.nri.runtime_node import (
    VISIBLE,
    a_node,
    a_pod,
    a_share,
    granted,
    looks,
    metric,
    until,
)

CARD_MOUNTS = "/var/run/nvidia-container-devices"


def source_of(given: Adjustment, destination: str) -> Path:
    return Path(next(m.source for m in given.mounts if m.destination == destination))


def limits_in(given: Adjustment) -> HookLimits:
    return decode_limits(source_of(given, PATH).read_bytes())


async def test_a_share_is_cards_limits_and_hook(tmp_path: Path) -> None:
    pod = granted("job", a_share(mib=4096, cores_percent=25), a_share(card=1, mib=1024))
    async with a_node(tmp_path) as node, node.agent():
        given = await node.create(pod)
        assert given.env[VISIBLE] == "GPU-0,GPU-1"
        assert {m.destination for m in given.mounts} == {HOOK_LIBRARY, PRELOAD, PATH, USAGE_PATH}
        limits = limits_in(given)
        assert limits.container == "team/job/main"
        assert [(c.uuid, c.memory_bytes, c.cores_permille) for c in limits.cards] == [
            ("GPU-0", 4096 * MIB, 250), ("GPU-1", 1024 * MIB, 0),
        ]  # fmt: skip
        assert [card.mode for card in limits.cards] == [Mode.HARD, Mode.OFF]
        usage = source_of(given, USAGE_PATH)
        assert usage.stat().st_size == SIZE
        assert usage.stat().st_mode & 0o777 == 0o666


async def test_a_share_of_no_memory_is_not_all_of_it(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent():
        given = await node.create(granted("job", a_share(mib=0)))
        assert limits_in(given).cards[0].memory_bytes == MIB


async def test_the_dialects_part_is_laid_over_but_for_identity(tmp_path: Path) -> None:
    given_by_dialect = Injection(
        env={VISIBLE: "7", "CUDA_DEVICE_MEMORY_LIMIT_0": "4096m"},
        mounts=(
            Mount(destination="/usr/lib/libvgpu.so", source=HOOK_LIBRARY_HOST),
            Mount(destination="/usr/local/nvidia", source="/not/on/this/node"),
            Mount(destination="/etc/vcuda", source="/nor/this"),
        ),
        devices=("/dev/nvidia7",), annotations={"note": "1"},
    )  # fmt: skip
    pod = granted("job", a_share(card=1), given={"main": given_by_dialect})
    async with a_node(tmp_path) as node, node.agent():
        given = await node.create(pod)
        assert given.env == {VISIBLE: "GPU-1", "CUDA_DEVICE_MEMORY_LIMIT_0": "4096m"}
        assert source_of(given, "/usr/lib/libvgpu.so") == Path(HOOK_LIBRARY_HOST)
        assert source_of(given, "/usr/local/nvidia") == Path(DRIVER_HOST)
        assert "/etc/vcuda" not in {m.destination for m in given.mounts}
        assert given.devices == ()
        assert given.annotations == {"note": "1"}


async def test_a_containers_own_policy_of_cores_counts(tmp_path: Path) -> None:
    pod = granted("job", a_share(cores_percent=50))
    env = {"GPU_CORE_UTILIZATION_POLICY": "disable", "CUDA_TASK_PRIORITY": "1"}
    async with a_node(tmp_path) as node, node.agent():
        card = limits_in(await node.create(pod, env=env)).cards[0]
        assert (card.mode, card.cores_permille, card.priority) == (Mode.OFF, 500, 1)


async def test_what_an_image_sets_lifts_nothing(tmp_path: Path) -> None:
    env = {VISIBLE: "all", "CUDA_OVERSUBSCRIBE": "true", "CUDA_DISABLE_CONTROL": "1", "HOME": "/"}
    disarmed = {"CUDA_OVERSUBSCRIBE": "", "CUDA_DISABLE_CONTROL": ""}
    async with a_node(tmp_path) as node, node.agent():
        given = await node.create(granted("job", a_share()), env=env)
        assert given.env == disarmed | {VISIBLE: "GPU-0"}
        assert (await node.create(a_pod("other"), env=env)).env == disarmed | {VISIBLE: "void"}


async def test_who_holds_nothing_sees_nothing(tmp_path: Path) -> None:
    pod = granted("job", a_share("main"))
    async with a_node(tmp_path) as node, node.agent():
        assert (await node.create(a_pod("plain"))).env == {VISIBLE: "void"}
        assert (await node.create(pod, "sidecar")).env == {VISIBLE: "void"}


@pytest.mark.parametrize("name", ["all", "0", "cdi/vendor.com/gpu=all"])
@pytest.mark.parametrize("folder", [CARD_MOUNTS, CARD_MOUNTS.replace("/run", "//run/.")])
async def test_a_mount_that_stands_for_a_card_is_refused(
    tmp_path: Path, folder: str, name: str
) -> None:
    mounts = (Mount(destination=f"{folder}/{name}", source="/dev/null"),)
    async with a_node(tmp_path) as node, node.agent() as agent:
        for pod in (a_pod("plain"), granted("job", a_share())):
            with pytest.raises(ContainerRefused, match="CardsByMount: volumeMounts: mountPath"):
                await node.create(pod, mounts=mounts)
        assert metric(agent, 'tessera_agent_refusals_total{why="CardsByMount"}') == 2
        system = a_pod("monitor", namespace="kube-system")
        assert await node.create(system, mounts=mounts) == Adjustment()
        neighbour = (Mount(destination=f"{CARD_MOUNTS}-not", source="/dev/null"),)
        assert (await node.create(a_pod("other"), mounts=neighbour)).env == {VISIBLE: "void"}


async def test_one_that_slipped_in_with_such_a_mount_is_reported(tmp_path: Path) -> None:
    mounts = (Mount(destination=f"{CARD_MOUNTS}/all", source="/dev/null"),)
    async with a_node(tmp_path) as node:
        node.slip_in(a_pod("early"), env={VISIBLE: "void"}, mounts=mounts)
        async with node.agent() as agent:
            what = 'tessera_agent_alarms_total{what="CardsWithoutGrant"}'
            await until(lambda: metric(agent, what) == 1)


async def test_the_clusters_own_pods_are_left_alone(tmp_path: Path) -> None:
    async with a_node(tmp_path) as node, node.agent():
        given = await node.create(a_pod("monitor", namespace="kube-system"), env={VISIBLE: "all"})
        assert given == Adjustment()


async def test_cards_that_another_plugin_hands_out_are_left_to_it(tmp_path: Path) -> None:
    (tmp_path / "device-plugins").mkdir()
    with socket.socket(socket.AF_UNIX) as plugin:
        plugin.bind(str(tmp_path / "device-plugins" / "nvidia-gpu.sock"))
        plugin.listen()
        async with a_node(tmp_path) as node, node.agent() as agent:
            assert await node.create(a_pod("theirs"), env={VISIBLE: "GPU-1"}) == Adjustment()
            assert all(card.cordoned for card in agent.devices.latest.cards)


async def test_a_card_that_was_only_counted_is_found_by_its_number(tmp_path: Path) -> None:
    made_up = replace(a_share(card=1), card="worker-1-nvidia-1")
    async with a_node(tmp_path) as node, node.agent():
        given = await node.create(granted("early", made_up))
        assert given.env[VISIBLE] == "GPU-1"
        assert limits_in(given).cards[0].uuid == "GPU-1"


async def test_a_container_that_restarts_keeps_its_files(tmp_path: Path) -> None:
    pod = granted("job", a_share())
    async with a_node(tmp_path) as node, node.agent() as agent:
        first = await node.run(pod)
        await node.stop(pod)
        again = await node.run(pod, attempt=1)
        assert again.mounts == first.mounts
        await node.remove(pod)  # the first one, long after
        await looks(agent, 10)
        assert source_of(again, PATH).exists()


async def test_files_go_when_the_container_is_gone_and_not_before(tmp_path: Path) -> None:
    pod = granted("job", a_share())
    async with a_node(tmp_path) as node, node.agent() as agent:
        given = await node.run(pod)
        await node.stop(pod)
        await looks(agent, 10)
        assert source_of(given, PATH).exists()
        await node.end(pod)
        await until(lambda: not source_of(given, PATH).parent.parent.exists())


async def test_a_file_that_cannot_be_made_is_a_refusal(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "containers").write_text("in the way")
    async with a_node(tmp_path) as node, node.agent() as agent:
        with pytest.raises(ContainerRefused, match="ContainerNotPrepared: what limits it"):
            await node.create(granted("job", a_share()))
        assert len(agent.holdings) == 0


@pytest.mark.parametrize(
    ("own", "given", "level"),
    [
        ({}, {}, 0),
        ({"LIBCUDA_LOG_LEVEL": "0"}, {}, 1),
        ({"LIBCUDA_LOG_LEVEL": "1"}, {}, 2),
        ({"LIBCUDA_LOG_LEVEL": "4"}, {}, 3),
        ({}, {"LIBCUDA_LOG_LEVEL": "3"}, 0),
        ({"LIBCUDA_LOG_LEVEL": "loud"}, {}, 0),
    ],
)
async def test_the_level_of_the_log_reaches_the_hook(
    tmp_path: Path, own: dict[str, str], given: dict[str, str], level: int
) -> None:
    """As the pod sets it; what the scheduler gives it is an option, which the node's settings have
    too."""
    pod = granted("job", a_share(), given={"main": Injection(env=given)})
    async with a_node(tmp_path) as node, node.agent():
        assert limits_in(await node.create(pod, env=own)).log_level == level
