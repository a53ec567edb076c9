"""Of two schedulers the one that leads stands still while its Bindings are under way; the other
takes over; the first goes on where it was."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import aiohttp

from tests.contract.client import Json
from tests.e2e.checker import WANTS
from tests.e2e.cluster import HOME
from tests.e2e.observation import scrape
from tests.e2e.stage import Stage, report

SMALL = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "64"}
LEADING, FENCED = "tessera_scheduler_leading", "tessera_scheduler_fenced"
LOOKS, LOOK_S = 10, 0.1
UNDER_WAY = ("binding", "unsettled")


async def the_leader_is_paused(stage: Stage) -> None:
    """In the middle of a bind: the API server is held meanwhile, so that nothing is answered."""
    cluster, names = stage.cluster, list[str]()
    await cluster.kubectl("scale", "deployment/tessera-scheduler", "-n", HOME, "--replicas=2")
    first, other = await cluster.until(lambda: two(stage), "one leads and one stands by")
    async with asyncio.TaskGroup() as group:
        while not (sent := await _caught(stage, first)):
            new = [f"burst-{len(names) + i}" for i in range(40 if stage.long else 15)]
            names += new
            for name in new:
                group.create_task(stage.crowd.create(name, SMALL, labels={WANTS: "64"}), name=name)
            await cluster.until(partial(_some_are_bound, stage, new), "some are bound")
        began = time.monotonic()
        await cluster.until(lambda: leads(other), "the other leads")
        assert await _metric(other, FENCED) == [1.0]
        took, resumed = time.monotonic() - began, datetime.now(UTC)
        await stage.signal(first["metadata"]["name"], "scheduler", "CONT")
    report(f"paused with {sent:g} Bindings under way; the other led {took:.1f} s later")
    await cluster.until(lambda: _all_bound(stage, names), "all are bound")
    try:
        await stage.checker.in_the_end("the leader was paused")
    finally:  # whose Binding it was is worth most where something is wrong
        _bound_once(cluster.plane.audit)
        _wrote_nothing(cluster.plane.audit, first["metadata"]["name"], resumed)
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(stage.crowd.delete(name), name=f"{name} goes")
    await cluster.kubectl("scale", "deployment/tessera-scheduler", "-n", HOME, "--replicas=1")
    await cluster.all_ready()
    await stage.checker.in_the_end("one scheduler again")


async def _caught(stage: Stage, leader: Json) -> float:
    """How many Bindings were under way when it was paused; 0 = none was, and it goes on."""
    server = stage.cluster.plane.server
    server.send(signal.SIGSTOP)
    try:
        for _ in range(LOOKS):
            if sent := await _sending(leader):
                await stage.signal(leader["metadata"]["name"], "scheduler", "STOP")
                return sent
            await asyncio.sleep(LOOK_S)
        return 0
    finally:
        server.send(signal.SIGCONT)


async def two(stage: Stage) -> tuple[Json, Json] | None:
    """The pod that leads, and the one that stands by with its ledger up to date."""
    listed = await stage.cluster.get(
        "pods", "-n", HOME, "-l", "app.kubernetes.io/name=tessera-scheduler"
    )
    found = {}
    for pod in listed["items"]:
        found[await leads(pod)] = pod
    return (found[True], found[False]) if found.keys() == {True, False} else None


async def leads(pod: Json) -> bool | None:
    """None = it does not answer."""
    values = await _metric(pod, LEADING)
    return bool(values[0]) if values else None


async def _sending(pod: Json) -> float:
    """Bindings that were sent and are not answered."""
    found = await scrape(f"{_address(pod)}/metrics", "tessera_scheduler_grants")
    return sum(value for labels, value in found if labels["phase"] in UNDER_WAY)


async def _metric(pod: Json, name: str) -> list[float]:
    try:
        return [value for _, value in await scrape(f"{_address(pod)}/metrics", name)]
    except (aiohttp.ClientError, TimeoutError):
        return []


def _address(pod: Json) -> str:
    return f"http://{pod['status'].get('podIP')}:8080"


async def _some_are_bound(stage: Stage, names: list[str]) -> bool:
    return bool(set(names) & set((await _bound(stage)).split()))


async def _all_bound(stage: Stage, names: list[str]) -> bool:
    return set(names) <= set((await _bound(stage)).split())


async def _bound(stage: Stage) -> str:
    listed = (await stage.cluster.admin.get("/api/v1/namespaces/default/pods")).done["items"]
    return " ".join(p["metadata"]["name"] for p in listed if p["spec"].get("nodeName"))


def _bindings(audit: Path) -> list[Json]:
    lines = audit.read_text().splitlines()
    return [event for line in lines if (event := json.loads(line))["verb"] == "create"]


def _bound_once(audit: Path) -> None:
    accepted = Counter(
        (event["objectRef"]["namespace"], event["objectRef"]["name"], event["objectRef"].get("uid"))
        for event in _bindings(audit) if event["responseStatus"]["code"] == 201
    )  # fmt: skip
    assert accepted
    assert set(accepted.values()) == {1}, accepted.most_common(3)


def _wrote_nothing(audit: Path, pod: str, since: datetime) -> None:
    """What was accepted from it came before it went on."""
    key = "authentication.kubernetes.io/pod-name"
    own = [
        event for event in _bindings(audit) if pod in event["user"].get("extra", {}).get(key, ())
    ]
    assert own, f"{pod} sent no Binding at all"
    late = [
        event for event in own
        if datetime.fromisoformat(event["requestReceivedTimestamp"]) > since
        and event["responseStatus"]["code"] < 300
    ]  # fmt: skip
    assert not late, late
