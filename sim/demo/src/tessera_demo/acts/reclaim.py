"""The sixth act: a queue takes back a card that is its own and that another queue borrows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct, convert

from tessera_demo.api_objects import insist, remove
from tessera_demo.observations import Observations
from tessera_demo.promises import Promise, runs
from tessera_demo.scenario import scene_text
from tessera_demo.stage import DemoStage
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Verb
from tessera_schema.plans import PLANS, PlanKind

_NAMESPACE: Final = "queues"
_LENDER: Final = ("lender-0", "lender-1")
_OWNER: Final = "owner"
_QUEUES: Final = paths.in_group("scheduling.volcano.sh", "v1beta1", "queues")
_QUEUE_KEY: Final = "scheduling.volcano.sh/queue-name"
_SEEN_S: Final = 60.0
"""Seconds for the lender's pods to run, and for the owner's to have its card."""


class ReclaimAct(Struct, frozen=True):
    """Queues and pods, which have no names yet."""

    queue: Mapping[str, Any]
    pod: Mapping[str, Any]


class Reclaimed(Struct, frozen=True, kw_only=True):
    """What was seen."""

    lent: int = 0
    """The lender's pods that ran before the owner's came."""
    left: int = 0
    """Those that run once the owner's does."""
    owner_runs: bool = False
    waited_s: float = 0
    """Seconds from the owner's pod to its container."""
    reasons: tuple[str, ...] = ()
    """Of the plans by which cards were taken back."""


def read_act() -> ReclaimAct:
    """As the file next to the scene has it."""
    return convert(yaml.safe_load(scene_text("reclaim.yaml")), ReclaimAct)


async def play_reclaim(
    stage: DemoStage, seen: Observations, say: Callable[[str], None]
) -> list[Promise]:
    """Let one queue borrow the other one's card, and see it come back. Raises ApiRefused."""
    act = read_act()
    say("sixth act: a queue takes back the card that another one borrows")
    await insist(stage.kube, "/api/v1/namespaces", {"metadata": {"name": _NAMESPACE}})
    for name in ("lender", _OWNER):
        await insist(stage.kube, _QUEUES, {**act.queue, "metadata": {"name": name}})
    for name in _LENDER:
        await _create(stage, act, name, "lender")
    with suppress(TimeoutError):
        async with asyncio.timeout(_SEEN_S):
            await seen.until(lambda: _running(seen) == len(_LENDER))
    lent, now = _running(seen), asyncio.get_running_loop().time
    created = now()
    await _create(stage, act, _OWNER, _OWNER)
    with suppress(TimeoutError):
        async with asyncio.timeout(_SEEN_S):
            await seen.until(lambda: runs(seen, f"{_NAMESPACE}/{_OWNER}"))
    found = Reclaimed(
        lent=lent, left=_running(seen), owner_runs=runs(seen, f"{_NAMESPACE}/{_OWNER}"),
        waited_s=now() - created, reasons=await _reasons(stage),
    )  # fmt: skip
    for name in (*_LENDER, _OWNER):
        await remove(stage.kube, paths.pod(_NAMESPACE, name))
    return reclaim_promises(found)


def reclaim_promises(found: Reclaimed) -> list[Promise]:
    """One pod of the lender's gave way, by a plan, and the other one stayed."""
    return [
        Promise(
            "queue takes-back",
            "of two pods of a queue that deserves one card, one gives its card back, by a plan, to "
            "the queue that deserves it",
            found.owner_runs and (found.lent, found.left) == (2, 1) and len(found.reasons) == 1,
            f"{found.lent} of its pods ran, {found.left} after {found.waited_s:.1f} s; "
            + ("; ".join(found.reasons) or "no plan"),
            brief="a queue took its card back",
        )
    ]  # fmt: skip


async def _create(stage: DemoStage, act: ReclaimAct, name: str, queue: str) -> None:
    meta = act.pod["metadata"]
    annotations = {**meta["annotations"], _QUEUE_KEY: queue}
    body = {**act.pod, "metadata": {**meta, "name": name, "annotations": annotations}}
    await insist(stage.kube, paths.in_core(_NAMESPACE, "pods"), body)


def _running(seen: Observations) -> int:
    return sum(runs(seen, f"{_NAMESPACE}/{name}") for name in _LENDER)


async def _reasons(stage: DemoStage) -> tuple[str, ...]:
    answer = await stage.kube.call(Verb.GET, PLANS)
    plans = msgspec.json.decode(answer)["items"]
    specs = (plan["spec"] for plan in plans)
    return tuple(spec["reason"] for spec in specs if spec["kind"] == PlanKind.RECLAIM)
