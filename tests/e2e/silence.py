"""An agent that is gone for good: no pod is placed on its node's cards until it is back, with NATS
and without."""

from __future__ import annotations

import asyncio
import time

from tessera_core.inventory.agent_liveness import PROOF_S
from tessera_runtime.kube.timestamps import parse_time
from tests.contract.client import Json
from tests.e2e import pods
from tests.e2e.cluster import HOME
from tests.e2e.crowd import resting
from tests.e2e.node import NODE
from tests.e2e.stage import Stage, report

AGENTS = "nvidia-device-enable"
"""Label of nodes that have NVIDIA's agent."""
SILENT_S = 60.0
"""From when on nothing is placed there."""
BACK_S = 10.0
"""What was promised of a quiet machine: seconds from the first renewal until a pod is placed."""
BACK_MOST_S = 45.0
"""Of a busy one. It is less than what kube-scheduler takes to try a pod again by itself."""
NAME = "silent"
UNSTARTED = "bound-before"
ASKS = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "64"}
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/tessera-agent-leases/leases"


async def the_agent_is_gone_for_good(stage: Stage) -> None:
    """Its node's pods go on, a new one waits and says why, and one that was bound before and has
    not started gets an Event; once more without NATS."""
    await stage.cluster.until(lambda: _is_proved(stage), "the agent was not killed for a minute")
    await _gone_and_back(stage)
    cluster, bus = stage.cluster, "statefulset/tessera-nats"
    await cluster.kubectl("scale", bus, "-n", HOME, "--replicas=0")
    await cluster.kubectl(
        "delete", "pod", "tessera-nats-0", "-n", HOME, "--grace-period=1", "--ignore-not-found"
    )
    await cluster.until(lambda: _no_pod(stage, "tessera-nats"), "NATS is away")
    report("NATS is away")
    await _gone_and_back(stage)
    await cluster.kubectl("scale", bus, "-n", HOME, "--replicas=1")
    await cluster.all_ready()
    await stage.checker.in_the_end("an agent was gone, and NATS is back")


async def _gone_and_back(stage: Stage) -> None:
    cluster = stage.cluster
    before = {pod["metadata"]["name"]: pods.starts(pod) for pod in await _running(stage)}
    assert before
    unstarted = resting(UNSTARTED, ASKS)
    unstarted["spec"]["containers"][0] |= {"image": "example.com/no:1", "imagePullPolicy": "Never"}
    uid = (await cluster.admin.post(PODS, unstarted)).done["metadata"]["uid"]
    await cluster.until(lambda: _is_placed(stage, UNSTARTED), "a pod is bound that cannot start")

    await cluster.kubectl("label", "node", NODE, f"{AGENTS}-")
    await cluster.until(lambda: _no_pod(stage, "tessera-agent"), "the agent is gone")
    gone = time.monotonic()
    words = await cluster.until(lambda: _event(stage, uid), "an Event says it of the bound pod")
    took = time.monotonic() - gone
    report(f"the bound pod got its Event {took:.1f} s after its agent was gone: {words}")
    await asyncio.sleep(max(0.0, SILENT_S - took))
    (await cluster.admin.post(PODS, resting(NAME, ASKS))).done  # noqa: B018  (checks)
    condition = await cluster.until(lambda: _waits(stage), "it is said why the pod waits")
    assert "AgentSilent" in condition["message"], condition
    report(f"{time.monotonic() - gone:.0f} s after it: a new pod waits: {condition['message']}")
    after = {pod["metadata"]["name"]: pods.starts(pod) for pod in await _running(stage)}
    assert {name: after.get(name) for name in before} == before

    await cluster.kubectl("label", "node", NODE, f"{AGENTS}=enable")
    renewed = await _renewed(stage)
    labelled = time.monotonic()
    await cluster.until(lambda: _renewed_since(stage, renewed), "the agent renews its Lease")
    back = time.monotonic()
    while not await _is_placed(stage, NAME) and time.monotonic() - back < BACK_MOST_S:
        await asyncio.sleep(0.2)
    took = time.monotonic() - back
    report(
        f"the agent renewed its Lease {back - labelled:.1f} s after its label was back, and the "
        f"pod was placed {took:.1f} s later (promised: {BACK_S:g})"
    )
    assert took < BACK_MOST_S, await _waits(stage)
    await cluster.running(NAME)
    await cluster.kubectl("delete", "pod", NAME, UNSTARTED, "--grace-period=1")
    await stage.checker.in_the_end("the agent was gone and is back")


async def _running(stage: Stage) -> list[Json]:
    listed = (await stage.cluster.admin.get(PODS)).done["items"]
    return [pod for pod in listed if pod["status"].get("phase") == "Running"]


async def _no_pod(stage: Stage, part: str) -> bool:
    """Whether no pod of this part of Tessera is there."""
    found = await stage.cluster.get("pods", "-n", HOME, "-l", f"app.kubernetes.io/name={part}")
    return not found["items"]


async def _event(stage: Stage, uid: str) -> str:
    """What the Event about a silent agent says of the pod."""
    query = {"fieldSelector": f"reason=AgentSilent,involvedObject.uid={uid}"}
    found = (await stage.cluster.admin.get("/api/v1/events", **query)).done["items"]
    return found[0]["message"] if found else ""


async def _waits(stage: Stage) -> Json | None:
    pod = (await stage.cluster.admin.get(f"{PODS}/{NAME}")).done
    assert not pod["spec"].get("nodeName")
    conditions: list[Json] = pod["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "PodScheduled" and c.get("message")), None)


async def _is_placed(stage: Stage, name: str) -> bool:
    return bool((await stage.cluster.admin.get(f"{PODS}/{name}")).done["spec"].get("nodeName"))


async def _is_proved(stage: Stage) -> bool:
    """Whether the agent has renewed its Lease for so long that its starts before do not count."""
    lease = await _lease(stage)
    times = [parse_time(lease[of]) or 0.0 for of in ("acquireTime", "renewTime")]
    return times[1] - times[0] > PROOF_S + 1


async def _lease(stage: Stage) -> Json:
    lease = (await stage.cluster.admin.get(f"{LEASES}/agent.nvidia.{NODE}")).done
    spec: Json = lease["spec"]
    return spec


async def _renewed(stage: Stage) -> str:
    return str((await _lease(stage))["renewTime"])


async def _renewed_since(stage: Stage, before: str) -> bool:
    return await _renewed(stage) != before
