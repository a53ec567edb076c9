"""An agent that is gone for good: no pod is placed on its node's cards until it is back."""

from __future__ import annotations

import asyncio
import time

from tests.contract.client import Json
from tests.e2e import pods
from tests.e2e.cluster import HOME
from tests.e2e.crowd import resting
from tests.e2e.node import NODE
from tests.e2e.stage import Stage, report

AGENTS = "nvidia-device-enable"
"""Label of nodes that have NVIDIA's agent."""
SILENT_S = 60.0
NAME = "silent"
PODS = "/api/v1/namespaces/default/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/tessera-agent-leases/leases"


async def the_agent_is_gone_for_good(stage: Stage) -> None:
    """Its node's pods go on, a new one waits and says why; once more without NATS."""
    await _gone_and_back(stage)
    if not stage.long:
        return
    cluster, bus = stage.cluster, "statefulset/tessera-nats"
    await cluster.kubectl("scale", bus, "-n", HOME, "--replicas=0")
    await _gone_and_back(stage)
    await cluster.kubectl("scale", bus, "-n", HOME, "--replicas=1")
    await cluster.all_ready()
    await stage.checker.in_the_end("an agent was gone, and NATS is back")


async def _gone_and_back(stage: Stage) -> None:
    cluster = stage.cluster
    before = {pod["metadata"]["name"]: pods.starts(pod) for pod in await _running(stage)}
    assert before
    await cluster.kubectl("label", "node", NODE, f"{AGENTS}-")
    await cluster.until(lambda: _no_agent(stage), "the agent is gone")
    await asyncio.sleep(SILENT_S)
    body = resting(NAME, {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "64"})
    (await cluster.admin.post(PODS, body)).done  # noqa: B018  (checks)
    condition = await cluster.until(lambda: _waits(stage), "it is said why the pod waits")
    assert "AgentSilent" in condition["message"], condition
    after = {pod["metadata"]["name"]: pods.starts(pod) for pod in await _running(stage)}
    assert {name: after.get(name) for name in before} == before

    await cluster.kubectl("label", "node", NODE, f"{AGENTS}=enable")
    renewed = await _renewed(stage)
    began = time.monotonic()
    await cluster.until(lambda: _renewed_since(stage, renewed), "the agent renews its Lease")
    report(f"the agent renewed its Lease {time.monotonic() - began:.1f} s after its label was back")
    began = time.monotonic()
    await cluster.until(lambda: _is_placed(stage), "the pod is placed")
    report(f"and the pod was placed {time.monotonic() - began:.1f} s later")
    await cluster.running(NAME)
    await cluster.kubectl("delete", "pod", NAME, "--grace-period=1")
    await stage.checker.in_the_end("the agent was gone and is back")


async def _running(stage: Stage) -> list[Json]:
    listed = (await stage.cluster.admin.get(PODS)).done["items"]
    return [pod for pod in listed if pod["status"].get("phase") == "Running"]


async def _no_agent(stage: Stage) -> bool:
    found = await stage.cluster.get(
        "pods", "-n", HOME, "-l", "app.kubernetes.io/name=tessera-agent"
    )
    return not found["items"]


async def _waits(stage: Stage) -> Json | None:
    pod = (await stage.cluster.admin.get(f"{PODS}/{NAME}")).done
    assert not pod["spec"].get("nodeName")
    conditions: list[Json] = pod["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "PodScheduled" and c.get("message")), None)


async def _is_placed(stage: Stage) -> bool:
    return bool((await stage.cluster.admin.get(f"{PODS}/{NAME}")).done["spec"].get("nodeName"))


async def _renewed(stage: Stage) -> str:
    lease = (await stage.cluster.admin.get(f"{LEASES}/agent.nvidia.{NODE}")).done
    return str(lease["spec"]["renewTime"])


async def _renewed_since(stage: Stage, before: str) -> bool:
    return await _renewed(stage) != before
