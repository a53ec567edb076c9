"""The release before this one is installed as its own pages say, with pods that run; this one
follows by the command of docs/install.md, and then the former one again. Nobody notices: containers
stay the same ones, with the limits and grants that they had."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import Struct

from tessera_core.hook.limits_file import Mode
from tessera_schema.grants import GRANT_KEY
from tessera_schema.kube import TERMINAL_PHASES
from tests.e2e import former_release, pods
from tests.e2e.checked import everything_is_right
from tests.e2e.cluster import HOME, OVERLAYS, Cluster, a_kustomization
from tests.e2e.conftest import OpenCluster, SetStage
from tests.e2e.observation import observe, phase
from tests.e2e.stage import Stage, report
from tests.e2e.upgrading import mounted_libraries
from tests.node.dialects import DIALECTS, ISOLATED

KIND = "single-node"
THIS = "0.1.0"
"""The tag of this release, which the base has."""
SMALL = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "64"}
BEST_EFFORT = {"tessera.dev/class": "best-effort"}
FORMER = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{overlay}]
images:
  - {{name: registry.invalid/tessera/scheduler, newTag: former}}
  - {{name: registry.invalid/tessera/quota, newTag: former}}
  - {{name: registry.invalid/tessera/rebalancer, newTag: former}}
  - {{name: registry.invalid/tessera/agent, newTag: former}}
"""
PRESENT = """\
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [{overlay}]
"""


class UnchangedShare(Struct, frozen=True):
    """What a pod has, which no release may change."""

    starts: list[tuple[str, int]]
    """Its containers, and how often they were started again."""
    grant: str
    memory_mib: int
    """As a process in it sees its first card; more is refused to it."""
    limits: list[tuple[str, int, int, int]]
    """Of each card that its hook reads: memory, memory that may lie on it, permille of cores."""
    library: str
    """The file of its hook."""


async def test_pods_outlive_an_upgrade_and_the_way_back(
    open_bare: OpenCluster, set_stage: SetStage, own_folder: Path
) -> None:
    try:
        tree = await asyncio.to_thread(former_release.take_out, own_folder / "former")
    except former_release.HistoryMissing as e:
        pytest.fail(str(e), pytrace=False)
    async with open_bare(former=tree) as cluster:
        former = a_kustomization(
            own_folder / "my-former", FORMER, overlay=tree / "deploy/kustomize/overlays" / KIND
        )
        present = a_kustomization(own_folder / "my-overlay", PRESENT, overlay=OVERLAYS / KIND)
        await _install_the_former_release(cluster, tree, former)
        for name, (limits, _) in DIALECTS.items():
            await pods.start(
                cluster, name, limits, labels=ISOLATED if name == "koordinator" else {}
            )
        stage = await set_stage(cluster, long=False)
        await stage.checker.in_the_end("the former release")
        before = await _holdings(stage, *DIALECTS)
        assert {name: one.memory_mib for name, one in before.items()} == {
            name: mib for name, (_, mib) in DIALECTS.items()
        }
        await _follow(stage, present, THIS)
        assert await _holdings(stage, *DIALECTS) == before
        await everything_is_right(cluster)
        await _pods_come(stage, later={}, best=BEST_EFFORT)
        before = {**before, **await _holdings(stage, "later", "best")}
        assert before["later"].library == before["best"].library != before["hami"].library
        await _follow(stage, former, former_release.TAG)
        assert await _holdings(stage, *before) == before
        assert _modes(stage, "best") == [Mode.OFF]  # as docs/operations.md says
        await _pods_come(stage, last={})
        assert (await _holdings(stage, "last"))["last"].library == before["hami"].library
        await _follow(stage, present, THIS)
        assert await _holdings(stage, *before) == before
        assert _modes(stage, "best") == [Mode.ELASTIC]


async def _pods_come(stage: Stage, **annotations: Mapping[str, str]) -> None:
    for name, written in annotations.items():
        await stage.crowd.create(name, SMALL, annotations=written)
        await stage.cluster.running(name)


async def _install_the_former_release(cluster: Cluster, tree: Path, overlay: Path) -> None:
    """By the steps of its docs/install.md."""
    await cluster.kubectl("create", "namespace", HOME)
    script = await asyncio.create_subprocess_exec(
        tree / "deploy/kustomize/passwords.sh", stdout=asyncio.subprocess.PIPE
    )
    passwords, _ = await script.communicate()
    await cluster.kubectl("create", "-f", "-", given=passwords.decode())
    await cluster.kubectl("apply", "--server-side", "-k", str(overlay))
    await cluster.all_ready()


async def _follow(stage: Stage, overlay: Path, tag: str) -> None:
    """Pods come and go meanwhile."""
    cluster, began = stage.cluster, time.monotonic()
    async with stage.crowd.moving():
        await cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(overlay))
        for kind in ("deployment", "statefulset", "daemonset"):
            await cluster.kubectl("rollout", "status", kind, "-n", HOME, "--timeout=200s")
    await cluster.all_ready()
    report(f"{tag} has followed after {time.monotonic() - began:.1f} s")
    tags = {
        container["image"].rpartition(":")[2]
        for pod in (await observe(cluster)).pods if phase(pod) not in TERMINAL_PHASES
        for container in pod["spec"]["containers"] if "/tessera/" in container["image"]
    }  # fmt: skip
    assert tags == {tag}
    await stage.checker.in_the_end(f"{tag} has followed")


async def _holdings(stage: Stage, *names: str) -> Mapping[str, UnchangedShare]:
    cluster = stage.cluster
    libraries = await mounted_libraries(stage, *names)
    running = {one.pod: one for one in stage.checker.containers.running()}
    found = {}
    for name in names:
        pod = await cluster.get("pod", name)
        said = await pods.work_again(cluster, name)
        assert said["over_result"] == pods.OUT_OF_MEMORY, (name, said)
        limits = stage.checker.containers.limits(running[name])
        assert limits, name
        found[name] = UnchangedShare(
            starts=pods.starts(pod), grant=pod["metadata"]["annotations"][GRANT_KEY],
            memory_mib=said["total_mib"], library=libraries[name],
            limits=[
                (card.uuid, card.memory_bytes, card.resident_bytes, card.cores_permille)
                for card in limits.cards
            ],
        )  # fmt: skip
    return found


def _modes(stage: Stage, name: str) -> list[Mode]:
    """How its hook limits the time of each card."""
    (running,) = (one for one in stage.checker.containers.running() if one.pod == name)
    limits = stage.checker.containers.limits(running)
    return [card.mode for card in limits.cards] if limits else []
