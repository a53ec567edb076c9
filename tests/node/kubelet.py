"""A real kubelet on a real containerd, and the cluster that it belongs to: API server, controllers,
kube-scheduler, our scheduler, our agent. Pods are created as a user would, and looked into on the
node.
"""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tessera_embedded.ports import reserved_ports
from tests.cluster.cluster import RealCluster
from tests.contract.client import Json
from tests.node.agents import NODE, Agent, an_agent
from tests.node.cri import Container
from tests.node.island import Process
from tests.node.runtime import WORK, Containerd

ROOT = "/var/lib/kubelet"


class Node:
    """A node of a cluster, seen from both sides."""

    def __init__(
        self, cluster: RealCluster, runtime: Containerd, agent: Agent, kubelet: Process
    ) -> None:
        self.cluster = cluster
        self.runtime = runtime
        self.agent = agent
        self.kubelet = kubelet

    @property
    def account(self) -> Mapping[str, str]:
        """Variables by which a service of the node reaches the cluster."""
        return _account(self.cluster)

    async def pod(self, name: str, limits: Mapping[str, str], **spec: Any) -> Json:
        """Create a pod of one container that works on its card."""
        return await self.cluster.make(self.cluster.pods_path(), a_pod(name, limits, **spec))

    async def get(self, name: str) -> Json:
        """The pod as the API server shows it."""
        return (await self.cluster.admin.get(self.cluster.pods_path(name))).done

    async def running(self, pod: str, name: str = "main", kind: str = "container") -> Container:
        """Wait until a container of a pod runs."""
        await self._until(pod, name, kind, "running")
        return await self.container(pod, name, kind)

    async def container(self, pod: str, name: str = "main", kind: str = "container") -> Container:
        """A container that runs, or has run."""
        found = await self.get(pod)
        (status,) = (s for s in found["status"][f"{kind}Statuses"] if s["name"] == name)
        uid = found["metadata"]["uid"]
        folder = self.runtime.island.folder / "logs" / f"{self.cluster.own}_{pod}_{uid}" / name
        container = status["containerID"].removeprefix("containerd://")
        return Container(self.runtime.cri, container, folder / "0.log")

    async def _until(self, pod: str, name: str, kind: str, state: str) -> Json:
        async def read() -> Json:
            statuses = (await self.get(pod))["status"].get(f"{kind}Statuses", ())
            return next(
                (s for s in statuses if s["name"] == name and state in s.get("state", {})), {}
            )

        try:
            found: Json = await self.cluster.until(read, f"{pod}/{name} {state}")
        except AssertionError as e:
            shown = (await self.get(pod))["status"]
            raise AssertionError(f"{e}\n{json.dumps(shown)}\n{self.kubelet.words()}") from None
        return found

    async def waiting(self, name: str, reason: str) -> str:
        """Wait until the pod's container waits for this reason; the message that comes with it."""

        async def read() -> str:
            statuses = (await self.get(name))["status"].get("containerStatuses", [{}])
            found = statuses[0].get("state", {}).get("waiting", {})
            return str(found["message"]) if found.get("reason") == reason else ""

        said: str = await self.cluster.until(read, f"{name} waits for {reason}")
        return said

    @asynccontextmanager
    async def agent_of(self, vendor: str) -> AsyncGenerator[Agent]:
        """One more vendor's agent until the block ends, which may not have seen its cards yet."""
        account = _account(self.cluster)
        async with an_agent(self.runtime, account, ready=False, vendor=vendor) as agent:
            yield agent

    async def restart_kubelet(self) -> None:
        """Kill it and start it again."""
        await self.kubelet.stop(signal.SIGKILL)
        await self.kubelet.start()


def a_pod(name: str, limits: Mapping[str, str], **spec: Any) -> Json:
    """A pod of one container of the image that works on its card."""
    metadata = {"name": name}
    for key in ("labels", "annotations"):
        if key in spec:
            metadata[key] = spec.pop(key)
    main = {
        "name": "main", "image": WORK, "imagePullPolicy": "Never",
        "resources": {"limits": dict(limits)}, **spec.pop("main", {}),
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [main], "terminationGracePeriodSeconds": 0, **spec},
    }


@asynccontextmanager
async def real_node(
    cluster: RealCluster, runtime: Containerd, agent_env: Mapping[str, str] | None = None
) -> AsyncGenerator[Node]:
    """A node until the block ends, ready and with its cards published. `agent_env` are settings of
    its agent."""
    island = runtime.island
    with reserved_ports(1) as (port,):
        config = _config(island.folder, island.cgroup, port)
        kubelet = await island.start(
            "kubelet", runtime.programs / "kubelet", f"--config={config}",
            f"--kubeconfig={cluster.plane.control.kubeconfig}", f"--root-dir={ROOT}",
            f"--cert-dir={island.folder}/certificates", f"--hostname-override={NODE}",
        )  # fmt: skip
        try:
            env = {**_account(cluster), **(agent_env or {})}
            async with an_agent(runtime, env, ready=False) as agent:
                node = Node(cluster, runtime, agent, kubelet)
                await cluster.until(lambda: _is_ready(cluster), f"kubelet: {kubelet.words()}", 60)
                await agent.ready()
                yield node
                kubelet.check()
        finally:
            await cluster.admin.delete(f"/api/v1/nodes/{NODE}")


def _account(cluster: RealCluster) -> dict[str, str]:
    control = cluster.plane.control
    token = cluster.folder / "admin.token"
    token.write_text(control.token)
    return {
        "TESSERA_KUBE_URL": control.url, "TESSERA_KUBE_TOKEN_FILE": str(token),
        "TESSERA_KUBE_CA_FILE": str(control.ca_path), "TESSERA_BUS_URL": cluster.nats.url,
    }  # fmt: skip


async def _is_ready(cluster: RealCluster) -> bool:
    answer = await cluster.admin.get(f"/api/v1/nodes/{NODE}")
    if answer.status != 200:
        return False
    found = answer.done
    conditions = {c["type"]: c["status"] for c in found["status"].get("conditions", ())}
    published = "cards.tessera.dev/nvidia" in found["metadata"].get("annotations", {})
    return conditions.get("Ready") == "True" and published and not found["spec"].get("taints")


def _config(folder: Path, cgroup: str, port: int) -> Path:
    config = folder / "kubelet.json"
    config.write_text(json.dumps({
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{folder}/containerd.sock",
        "address": "127.0.0.1", "port": port, "healthzPort": 0, "readOnlyPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "failCgroupV1": False, "cgroupDriver": "cgroupfs", "cgroupRoot": cgroup,
        "oomScoreAdj": 0, "failSwapOn": False, "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False, "resolvConf": "", "podLogsDir": f"{folder}/logs",
        "evictionHard": {"memory.available": "1Mi"}, "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "1s", "syncFrequency": "2s",
    }))  # fmt: skip
    return config
