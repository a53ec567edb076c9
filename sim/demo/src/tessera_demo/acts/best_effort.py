"""The fifth act: a container that is promised no cores has what the owner of a card leaves, and is
off its cores when the owner launches. What counts is the GPU time that the hooks counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import yaml
from msgspec import Struct, convert

from tessera_demo.acts.counters import counter_pairs
from tessera_demo.acts.departures import best_effort_promises, departures
from tessera_demo.acts.lending_samples import CounterPair
from tessera_demo.api_objects import insist
from tessera_demo.observations import Observations
from tessera_demo.promises import Promise, grants, runs
from tessera_demo.scenario import name_of, scene_text
from tessera_demo.stage import DemoStage
from tessera_runtime.kube import paths

_SEEN_S: Final = 90.0
"""Seconds for both pods to run, and for the owner's launches to be seen."""


class BestEffortAct(Struct, frozen=True):
    """The pods."""

    owner: Mapping[str, Any]
    rest: Mapping[str, Any]


def read_act() -> BestEffortAct:
    """As the file next to the scene has it."""
    return convert(yaml.safe_load(scene_text("best_effort.yaml")), BestEffortAct)


async def play_best_effort(
    stage: DemoStage, seen: Observations, say: Callable[[str], None]
) -> list[Promise]:
    """Create both pods, watch what they have of the card, and check. Raises ApiRefused."""
    act = read_act()
    say("fifth act: a best-effort container has what the owner of a card leaves")
    namespace = act.owner["metadata"]["namespace"]
    await insist(stage.kube, "/api/v1/namespaces", {"metadata": {"name": namespace}})
    names = [name_of(pod) for pod in (act.owner, act.rest)]
    for pod in (act.owner, act.rest):
        await insist(stage.kube, paths.in_core(namespace, "pods"), pod)
        with suppress(TimeoutError):
            async with asyncio.timeout(_SEEN_S):
                await seen.until(partial(runs, seen, name_of(pod)))
    made = grants(seen)
    if not all(name in made for name in names):
        return best_effort_promises(())
    owner, rest = (made[name] for name in names)
    loop, samples = asyncio.get_running_loop(), list[CounterPair]()
    promises, until = best_effort_promises(()), loop.time() + _SEEN_S
    while loop.time() < until and not all(promise.kept for promise in promises):
        samples += await counter_pairs(stage, owner, rest)
        promises = best_effort_promises(departures(samples))
    return promises
