"""The third act: a pod waits although the cards have room enough together. A plan moves another pod
so that it fits: once approved by hand, as `tessera plan approve` does it, then by policy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import yaml
from msgspec import Struct, convert

from tessera_cli.errors import CommandError
from tessera_cli.plan import plans
from tessera_demo import accounts, promises
from tessera_demo.api_objects import insist, remove
from tessera_demo.observations import Observations
from tessera_demo.processes import Program
from tessera_demo.promises import Promise
from tessera_demo.scenario import scene_text
from tessera_demo.stage import DemoStage, python
from tessera_embedded.node.settings import NodeDescription
from tessera_kubelet.background import open_tasks
from tessera_runtime.errors import Transient
from tessera_runtime.kube import paths
from tessera_schema.plans import PlanKind, PlanPhase

_NAMESPACE: Final = "plans"
_SEEN_S: Final = 120.0
"""Seconds for each plan to be proposed, carried out and seen."""
_LOOK_S: Final = 0.1
_IMPATIENT: Final = {
    "TESSERA_PLANS_PACE_ROUND_S": "0.5",
    "TESSERA_PLANS_PACE_LOOK_S": "0.2",
    "TESSERA_PLANS_WORTH_WAIT_S": "1",
    "TESSERA_PLANS_MOVE_LEAST_AGE_S": "0",
    "TESSERA_PLANS_MOVE_START_S": "5",
    "TESSERA_PLANS_KINDS_MOVE": "false",
    "TESSERA_PLANS_KINDS_RESIZE": "false",
}
"""Nobody wants to see half an hour go by."""


class PlansAct(Struct, frozen=True):
    """The node and the pods, which have no names yet."""

    node: NodeDescription
    half: Mapping[str, Any]
    whole: Mapping[str, Any]


def read_act() -> PlansAct:
    """As the file next to the scene has it."""
    return convert(yaml.safe_load(scene_text("plans.yaml")), PlansAct)


async def play_plans(
    stage: DemoStage,
    seen: Observations,
    say: Callable[[str], None],
    disturb: Callable[[], Awaitable[None]],
) -> list[Promise]:
    """Bring the node and the pods, and see both plans through. `disturb` is called once the node
    and the rebalancer are there. Raises StageFailed, ApiRefused."""
    act = read_act()
    say(f"third act: plans, on node {act.node.name}")
    await insist(stage.kube, "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    rebalancer = await _start(stage, ())
    await stage.join(act.node, {})
    await disturb()
    play = Play(stage, seen, act)
    async with open_tasks() as tasks:
        tasks.create_task(play.controller(), name="controller")
        by_hand = await play.plan(("a", "b"), "train-1", by_hand=True)
        await rebalancer.end()
        await _start(stage, (PlanKind.DEFRAGMENT,))
        await play.end("a", "train-1")
        return [by_hand, await play.plan(("c",), "train-2", by_hand=False)]


class Play:
    """What users and controllers do."""

    def __init__(self, stage: DemoStage, seen: Observations, act: PlansAct) -> None:
        """Nothing was created yet."""
        self._stage = stage
        self._seen = seen
        self._act = act
        self._kept: set[str] = set()
        """Names of the pods that their controller makes again."""
        self._planned: set[str] = set()

    async def controller(self) -> None:
        """Make pods again that were evicted, for ever."""
        while True:
            for name in sorted(self._kept):
                if f"{_NAMESPACE}/{name}" not in self._seen.pods:
                    await self._create(self._act.half, name)
            await asyncio.sleep(_LOOK_S)

    async def plan(self, halves: tuple[str, ...], waits: str, *, by_hand: bool) -> Promise:
        """One plan from the pod that waits to the pod that runs."""
        how = "by hand" if by_hand else "by policy"
        check = f"plan {how.replace(' ', '-')}"
        text = f"a plan approved {how} moves a pod so that {waits}, which waits, fits"
        steps = [f"{name} did not run" for name in halves]
        with suppress(TimeoutError):
            async with asyncio.timeout(_SEEN_S):
                for name in halves:
                    self._kept.add(name)
                    await self._runs(name)
                steps = [f"no plan was proposed for {waits}"]
                await self._create(self._act.whole, waits)
                plan = await self._proposed()
                if by_hand:
                    await self._approve(plan.metadata.name)
                steps = [f"plan {plan.metadata.name} was not done"]
                plan = await self._ended(plan.metadata.name)
                steps = [f"plan {plan.metadata.name} is {plan.status.phase}"]
                await self._runs(waits, *self._kept)
                if plan.status.phase is PlanPhase.DONE:
                    by, why = plan.spec.decided_by or how, plan.spec.reason
                    worth = why.rpartition("; ")[2].replace(" are", "").partition(" within")[0]
                    brief = f"a plan moved a pod: {worth}" if by_hand else ""
                    return Promise(check, text, kept=True, measured=f"{by}: {why}", brief=brief)
        return Promise(check, text, kept=False, measured="; ".join(steps))

    async def end(self, *names: str) -> None:
        """Delete pods; nobody makes them again."""
        for name in names:
            self._kept.discard(name)
            await remove(self._stage.kube, paths.pod(_NAMESPACE, name))
        gone = [f"{_NAMESPACE}/{name}" for name in names]
        with suppress(TimeoutError):
            async with asyncio.timeout(_SEEN_S):
                await self._seen.until(lambda: not any(name in self._seen.pods for name in gone))

    async def _create(self, pod: Mapping[str, Any], name: str) -> None:
        owner = {
            "apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": f"owner-of-{name}",
            "controller": True,
        }  # fmt: skip
        meta = {**pod["metadata"], "name": name, "ownerReferences": [owner]}
        path = paths.in_core(_NAMESPACE, "pods")
        await insist(self._stage.kube, path, {**pod, "metadata": meta})

    async def _runs(self, *names: str) -> None:
        wanted = [f"{_NAMESPACE}/{name}" for name in names]
        await self._seen.until(lambda: all(promises.runs(self._seen, name) for name in wanted))

    async def _proposed(self) -> plans.PlanRow:
        """A plan that was not there before."""
        while True:
            with suppress(Transient, CommandError):
                for plan in await plans.read_all(self._stage.kube):
                    if plan.metadata.name not in self._planned:
                        self._planned.add(plan.metadata.name)
                        return plan
            await asyncio.sleep(_LOOK_S)

    async def _approve(self, name: str) -> None:
        """Raises Refused where the plan cannot be approved any more."""
        sent = False
        while True:
            try:
                await plans.write(self._stage.kube, name, "approved")
            except Transient:
                sent = True  # it may have been written all the same
                await asyncio.sleep(_LOOK_S)
            except CommandError:
                if sent:
                    return
                raise
            else:
                return

    async def _ended(self, name: str) -> plans.PlanRow:
        while True:
            with suppress(Transient):
                plan = await plans.read_one(self._stage.kube, name)
                if plan.status.phase not in (PlanPhase.PROPOSED, PlanPhase.STARTED):
                    return plan
            await asyncio.sleep(_LOOK_S)


async def _start(stage: DemoStage, approve: tuple[PlanKind, ...]) -> Program:
    env = {
        **stage.service(accounts.REBALANCER), **_IMPATIENT,
        "TESSERA_PLANS_APPROVE": ",".join(approve),
    }  # fmt: skip
    name = "rebalancer-by-policy" if approve else "rebalancer"
    return await stage.programs.start(name, python("tessera_rebalancer"), env)
