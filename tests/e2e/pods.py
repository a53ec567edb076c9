"""Pods of the tests: what they ask, what is seen in them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from tests.contract.client import Json
from tests.e2e.cluster import Cluster
from tests.e2e.plane import KubectlFailed
from tests.node.kubelet import a_pod
from tests.node.toolkit import DRIVER

CARDS = "NVIDIA_VISIBLE_DEVICES"
OUT_OF_MEMORY = 2
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000", "nvidia.com/gpucores": "5"}


async def start(
    cluster: Cluster, name: str, limits: Mapping[str, str], **spec: Any
) -> tuple[Json, float]:
    """Create a pod, as often as it takes while nobody admits it, and wait until it runs; the pod,
    and how many seconds that took."""
    began = time.monotonic()

    async def made() -> bool:
        try:
            await cluster.apply(asking(name, limits, **spec))
        except KubectlFailed as e:
            if "failed calling webhook" not in str(e):
                raise
            return False
        return True

    await cluster.until(made, f"{name} is admitted")
    return await cluster.running(name), time.monotonic() - began


def asking(name: str, limits: Mapping[str, str], **spec: Any) -> Json:
    """A pod whose image is pulled."""
    pod = a_pod(name, limits, main={"image": "example.com/work:1"}, **spec)
    pod["spec"]["containers"][0]["imagePullPolicy"] = "Always"
    return pod


async def work(cluster: Cluster, name: str) -> Json:
    """What the program in it says of its first card, or of having none."""

    async def printed() -> str:
        return await cluster.kubectl("logs", name)

    said: Json = json.loads((await cluster.until(printed, f"{name} works")).splitlines()[0])
    return said


async def work_again(cluster: Cluster, name: str) -> Json:
    """What another process in it says of the first of the pod's cards."""
    card = (await environment(cluster, name))[CARDS].split(",")[0]
    said = await cluster.kubectl(
        "exec", name, "--", "env", *DRIVER, f"TESSERA_SIM_DEVICES={card}", "WORK_SECONDS=1",
        "WORK_BUSY=0", "WORK_MEMORY_PERCENT=1", "tessera-work",
    )  # fmt: skip
    found: Json = json.loads(said.splitlines()[0])
    return found


async def environment(cluster: Cluster, name: str, namespace: str = "default") -> dict[str, str]:
    """The variables of its container."""
    text = await cluster.kubectl("exec", name, "-n", namespace, "--", "env")
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def starts(pod: Json) -> list[tuple[str, int]]:
    """Its containers and how often they were started again."""
    return [(s["containerID"], s["restartCount"]) for s in pod["status"]["containerStatuses"]]
