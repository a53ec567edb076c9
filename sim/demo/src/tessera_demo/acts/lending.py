"""The second act: idle cores lent on a card, and taken back when their owner launches; at the same
time a container that is resized while it runs. What is shown of lending is the GPU time that the
hooks of both containers counted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec
import yaml
from msgspec import Struct

from tessera_demo import promises as evaluating
from tessera_demo.acts.counters import counter_pairs
from tessera_demo.acts.lending_samples import CounterPair, Shares, lending_promises, turns
from tessera_demo.acts.resizing import play_resizing
from tessera_demo.api_objects import insist
from tessera_demo.observations import Observations
from tessera_demo.promises import Promise
from tessera_demo.scenario import name_of, scene_text
from tessera_demo.stage import DemoStage
from tessera_embedded.node.settings import NodeDescription
from tessera_runtime.kube import paths
from tessera_schema.grants import Grant

SLACK: Final = 10.0
"""Percent of a card."""
_SEEN_S: Final = 120.0
"""Seconds for both pods to run, and for both directions to be seen."""


class LendingAct(Struct, frozen=True):
    """The node and the pods."""

    node: NodeDescription
    owner: Mapping[str, Any]
    borrower: Mapping[str, Any]
    resized: Mapping[str, Any]


def read_act() -> LendingAct:
    """As the file next to the scene has it."""
    return msgspec.convert(yaml.safe_load(scene_text("lending.yaml")), LendingAct)


async def play_lending(
    stage: DemoStage,
    seen: Observations,
    say: Callable[[str], None],
    disturb: Callable[[], Awaitable[None]],
) -> list[Promise]:
    """Create the node and the pods, watch them, and check. `disturb` is called once the node is
    there. Raises StageFailed, ApiRefused."""
    act = read_act()
    say(f"second act: lending and resizing, on node {act.node.name}")
    await stage.join(act.node, {})
    await disturb()
    await insist(stage.kube, "/api/v1/namespaces", {"metadata": {"name": _namespace(act.owner)}})
    for pod in (act.borrower, act.owner, act.resized):
        await insist(stage.kube, paths.in_core(_namespace(pod), "pods"), pod)
    names = [name_of(pod) for pod in (act.owner, act.borrower, act.resized)]
    made: dict[str, Grant] = {}
    with suppress(TimeoutError):
        async with asyncio.timeout(_SEEN_S):
            await seen.until(lambda: all(evaluating.runs(seen, name) for name in names))
            made = evaluating.grants(seen)
    if not all(name in made for name in names):
        text, but = "the pods of the second act run", "they did not in time"
        return [Promise("lending pods", text, kept=False, measured=but)]
    owner, borrower, resized = (made[name] for name in names)
    shares = Shares(*(evaluating.limits(g, "main")[1] for g in (owner, borrower)))
    async with asyncio.TaskGroup() as group:
        watched = group.create_task(_watched(stage, owner, borrower, shares), name="lending")
        changed = group.create_task(play_resizing(stage, resized, say), name="resizing")
    return [*watched.result(), *changed.result()]


async def _watched(
    stage: DemoStage, owner: Grant, borrower: Grant, shares: Shares
) -> list[Promise]:
    loop, samples = asyncio.get_running_loop(), list[CounterPair]()
    promises = lending_promises((), shares, SLACK)
    until = loop.time() + _SEEN_S
    while loop.time() < until and not all(promise.kept for promise in promises):
        samples += await counter_pairs(stage, owner, borrower)
        promises = lending_promises(turns(samples), shares, SLACK)
    return promises


def _namespace(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["namespace"])
