"""What may happen to an installation and its cluster, done to one. Each step has running and
waiting pods around it, which come and go, and ends when everything is as it should be."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

from tests.e2e import bus_messages
from tests.e2e.cluster import HOME
from tests.e2e.crowd import resting, sooner_or_later
from tests.e2e.leaving import many_pods_come_and_go_at_once, the_node_leaves_and_comes_back
from tests.e2e.node import NODE
from tests.e2e.silence import the_agent_is_gone_for_good
from tests.e2e.stage import Stage, report
from tests.e2e.takeover import the_leader_is_paused
from tests.e2e.upgrading import a_release_follows_another

SERVICES = (
    "tessera_scheduler", "kube-scheduler --config=/etc/tessera", "tessera_agent", "tessera_quota",
    "tessera_rebalancer", "nats-server",
)  # fmt: skip
SETTLE_AFTER = 10
CAUGHT_S = 1.5
AGAIN_S = 0.2
QUOTAS = "/apis/tessera.dev/v1alpha1/namespaces/limited/acceleratorquotas"
LIMITED = "/api/v1/namespaces/limited/pods"


async def services_are_killed(stage: Stage) -> None:
    """At moments that nobody chose, one after the other, before the last has recovered."""
    killed, dead = Counter[str](), 0
    for first in range(0, stage.rounds, SETTLE_AFTER):
        async with stage.crowd.moving():
            for _ in range(min(SETTLE_AFTER, stage.rounds - first)):
                await asyncio.sleep(stage.random.uniform(0, CAUGHT_S))
                while not await stage.kill(program := stage.random.choice(SERVICES)):
                    dead += 1
                    await asyncio.sleep(AGAIN_S)
                killed[program.split()[0]] += 1
                await asyncio.sleep(stage.random.uniform(0, CAUGHT_S))
                await stage.checker.at_once()
        await stage.checker.in_the_end(f"after {min(first + SETTLE_AFTER, stage.rounds)} rounds")
    report(f"killed {dict(killed)}; {dead} times one was dead already")
    report(f"{stage.crowd.turns} pods went, and as many came")
    report(f"{len(stage.checker.unlimited)} pods started without their agent, and were told")


async def kubelet_and_runtime_are_killed(stage: Stage) -> None:
    """Each, and both."""
    kills: dict[str, Callable[[], Awaitable[None]]] = {
        "kubelet": partial(stage.cluster.kill, "kubelet"),
        "containerd": partial(stage.cluster.kill, "containerd"),
        "both": stage.cluster.node.both_killed,
    }
    for what, kill in kills.items():
        async with stage.crowd.moving():
            await asyncio.sleep(stage.random.uniform(0, CAUGHT_S))
            await kill()
        await stage.checker.in_the_end(f"{what} killed")


async def the_bus_is_away(stage: Stage) -> None:
    """Pods come and go, and quotas hold; nothing of it is known to NATS until it is back."""
    cluster, bus = stage.cluster, "statefulset/tessera-nats"
    await _limited(stage)
    await cluster.kubectl("scale", bus, "-n", HOME, "--replicas=0")
    await cluster.kubectl(
        "delete", "pod", "tessera-nats-0", "-n", HOME, "--grace-period=1", "--ignore-not-found"
    )
    async with stage.crowd.moving():
        for name in ("first", "second"):
            body = resting(name, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "64"})
            create = partial(cluster.admin.post, LIMITED, body)
            await sooner_or_later(create, frozenset({201}))
        await cluster.until(lambda: _placed(stage), "a pod is placed without NATS")
        await asyncio.sleep(60 if stage.long else 5)
        assert len(await _placed(stage)) == 1, "the quota allows one"
    await stage.checker.in_the_end("without NATS")
    await cluster.kubectl("scale", bus, "-n", HOME, "--replicas=1")
    began = time.monotonic()
    await cluster.all_ready()
    (placed,) = await _placed(stage)
    await bus_messages.received(cluster, f"tessera.v1.*.allocation.limited.{placed}.granted")
    await bus_messages.received(cluster, f"$KV.tessera-devices.{NODE}.nvidia")
    await bus_messages.received(cluster, f"tessera.v1.*.usage.{NODE}")
    report(f"NATS is back: all that waited was told {time.monotonic() - began:.1f} s later")
    await cluster.kubectl("delete", "namespace", "limited", "--wait=true")
    await stage.checker.in_the_end("NATS is back")


async def the_api_server_is_killed(stage: Stage) -> None:
    """While pods are created, and once more with its store."""
    plane = stage.cluster.plane
    for what, program in (("the API server", plane.server), ("etcd", plane.etcd)):
        async with stage.crowd.moving(pause_s=0.2):
            await asyncio.sleep(stage.random.uniform(0, CAUGHT_S))
            await plane.killed_and_restarted(program)
        await stage.checker.in_the_end(f"{what} killed")


async def _limited(stage: Stage) -> None:
    admin = stage.cluster.admin
    await stage.cluster.namespace("limited")
    quota = {
        "apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota",
        "metadata": {"name": "one"}, "spec": {"vendor": "nvidia", "hard": {"cards": 1}},
    }  # fmt: skip
    (await admin.post(QUOTAS, quota)).done  # noqa: B018  (checks)

    async def counted() -> bool:
        (found,) = (await admin.get(QUOTAS)).done["items"]
        return bool(found.get("status", {}).get("phase"))

    await stage.cluster.until(counted, "the quota is known")


async def _placed(stage: Stage) -> list[str]:
    """Uids of those that the quota let through."""
    found = (await stage.cluster.admin.get(LIMITED)).done["items"]
    return [pod["metadata"]["uid"] for pod in found if pod["spec"].get("nodeName")]


FAULTS = (
    a_release_follows_another, services_are_killed, kubelet_and_runtime_are_killed,
    the_bus_is_away, the_agent_is_gone_for_good, the_api_server_is_killed, the_leader_is_paused,
    many_pods_come_and_go_at_once, the_node_leaves_and_comes_back,
)  # fmt: skip
"""All of them, in an order that makes sense: the first brings what makes the others quick."""
