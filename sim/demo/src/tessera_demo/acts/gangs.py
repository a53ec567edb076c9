"""The fourth act: two gangs that would wait for each other for ever. One starts whole; when it has
ended the other does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import yaml
from msgspec import Struct, convert

from tessera_demo.acts.gang_starts import GangMoment, gang_promises
from tessera_demo.api_objects import insist, remove
from tessera_demo.observations import Observations
from tessera_demo.promises import Promise, runs
from tessera_demo.scenario import scene_text
from tessera_demo.stage import DemoStage
from tessera_embedded.node.settings import NodeDescription
from tessera_kubelet.background import open_tasks
from tessera_runtime.kube import paths

_NAMESPACE: Final = "gangs"
_NAMES: Final = ("train-a", "train-b")
_GROUP_KEY: Final = "scheduling.k8s.io/group-name"
_GROUPS: Final = paths.in_group(
    "scheduling.volcano.sh", "v1beta1", "podgroups", namespace=_NAMESPACE
)  # fmt: skip
_SEEN_S: Final = 120.0
"""Seconds for both gangs to start."""
_SAMPLE_S: Final = 0.02


class GangsAct(Struct, frozen=True):
    """The node; the PodGroup and the members, which have no names yet."""

    node: NodeDescription
    group: Mapping[str, Any]
    member: Mapping[str, Any]


def read_act() -> GangsAct:
    """As the file next to the scene has it."""
    return convert(yaml.safe_load(scene_text("gangs.yaml")), GangsAct)


async def play_gangs(
    stage: DemoStage,
    seen: Observations,
    say: Callable[[str], None],
    disturb: Callable[[], Awaitable[None]],
) -> list[Promise]:
    """Bring the node and both gangs, see them start, and delete them. `disturb` is called once the
    node is there. Raises StageFailed, ApiRefused."""
    act = read_act()
    count = int(act.group["spec"]["minMember"])
    say(f"fourth act: two gangs that fit one at a time, on node {act.node.name}")
    await insist(stage.kube, "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    await stage.join(act.node, {})
    await disturb()
    moments: list[GangMoment] = []
    async with open_tasks() as tasks:
        sampling = tasks.create_task(_sample(seen, moments, count), name="gangs")
        await _create(stage, act, count)
        with suppress(TimeoutError):
            async with asyncio.timeout(_SEEN_S):
                await seen.until(lambda: any(_all_run(seen, gang, count) for gang in _NAMES))
                first, second = sorted(_NAMES, key=lambda gang: not _all_run(seen, gang, count))
                say(f"gang {first} runs whole, {second} waits; {first} ends")
                await _end(stage, seen, first, count)
                await seen.until(lambda: _all_run(seen, second, count))
        sampling.cancel()
    for gang in _NAMES:
        await _end(stage, seen, gang, count)
    return gang_promises(moments, count)


async def _create(stage: DemoStage, act: GangsAct, count: int) -> None:
    """Members of both by turns, as two users would."""
    for gang in _NAMES:
        meta = {**act.group["metadata"], "name": gang}
        await insist(stage.kube, _GROUPS, {**act.group, "metadata": meta})
    for i in range(count):
        for gang in _NAMES:
            meta = {
                **act.member["metadata"], "name": f"{gang}-{i}", "annotations": {_GROUP_KEY: gang},
            }  # fmt: skip
            path = paths.in_core(_NAMESPACE, "pods")
            await insist(stage.kube, path, {**act.member, "metadata": meta})


async def _end(stage: DemoStage, seen: Observations, gang: str, count: int) -> None:
    for i in range(count):
        await remove(stage.kube, paths.pod(_NAMESPACE, f"{gang}-{i}"))
    with suppress(TimeoutError):
        async with asyncio.timeout(_SEEN_S):
            await seen.until(lambda: not any(n in seen.pods for n in _members(gang, count)))


async def _sample(seen: Observations, moments: list[GangMoment], count: int) -> None:
    now = asyncio.get_running_loop().time
    while True:
        first, second = (_placed(seen, gang, count) for gang in _NAMES)
        moments.append(GangMoment(now(), (first, second)))
        await asyncio.sleep(_SAMPLE_S)


def _placed(seen: Observations, gang: str, count: int) -> int:
    pods = [seen.pods.get(name, {}) for name in _members(gang, count)]
    return sum(bool(pod.get("spec", {}).get("nodeName")) for pod in pods)


def _all_run(seen: Observations, gang: str, count: int) -> bool:
    return all(runs(seen, name) for name in _members(gang, count))


def _members(gang: str, count: int) -> list[str]:
    return [f"{_NAMESPACE}/{gang}-{i}" for i in range(count)]
