"""The quota monitor as a process next to a cluster, under the account of an installation."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster.cluster import RealCluster
from tests.cluster.plane import HOME, a_program
from tests.contract.client import Json

_ACCOUNT: Final = Path(__file__).parents[2] / "deploy/kustomize/base/quota/account.yaml"
_GROUP: Final = "/apis/rbac.authorization.k8s.io/v1"
_PATHS: Final = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": f"{_GROUP}/clusterroles",
    "ClusterRoleBinding": f"{_GROUP}/clusterrolebindings",
    "Role": f"{_GROUP}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{_GROUP}/namespaces/{{namespace}}/rolebindings",
}


class Monitor:
    """Made by `monitoring`; started, killed and started again by the test."""

    def __init__(self, cluster: RealCluster, token: str) -> None:
        """Not started yet."""
        self._cluster = cluster
        file = cluster.folder / "quota.token"
        file.write_text(token)
        plane = cluster.plane
        environment = {
            **plane.account,
            "TESSERA_KUBE_TOKEN_FILE": str(file),
            "TESSERA_BUS_URL": cluster.nats.url,
            "TESSERA_HTTP_HOST": "127.0.0.1",
            "TESSERA_HTTP_PORT": "0",
            "TESSERA_COUNT_EVERY_S": "0.5",
            "TESSERA_COUNT_LOOK_S": "1",
            "TESSERA_STATUS_WRITE_S": "0.5",
        }
        self._service = a_program(
            [sys.executable, "-m", "tessera_quota"], cluster.folder / "quota.log", environment
        )

    def start(self) -> None:
        """Start it."""
        self._service.start()

    def kill(self) -> None:
        """End it as a machine that fails would."""
        self._service.stop(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, if it runs."""
        self._service.stop()

    async def quota(self, name: str, spec: Mapping[str, Any], namespace: str = "") -> None:
        """Create an AcceleratorQuota."""
        body: Json = {
            "apiVersion": "tessera.dev/v1alpha1", "kind": "AcceleratorQuota",
            "metadata": {"name": name}, "spec": dict(spec),
        }  # fmt: skip
        await self._cluster.make(self._path(namespace), body)

    async def change(self, name: str, spec: Mapping[str, Any], namespace: str = "") -> None:
        """Change some of its spec."""
        answer = await self._cluster.admin.patch(
            f"{self._path(namespace)}/{name}", {"spec": dict(spec)}
        )
        assert answer.status == 200, answer

    async def status(self, name: str, namespace: str = "") -> Json:
        """As it was last written."""
        answer = await self._cluster.admin.get(f"{self._path(namespace)}/{name}")
        found: Json = answer.done.get("status", {})
        return found

    async def until_status(self, name: str, namespace: str = "", **expected: object) -> Json:
        """Wait until the status says so; `used__cards` is `used.cards`."""

        async def holds() -> Json | None:
            status = await self.status(name, namespace)
            said = {key: _at(status, key) for key in expected}
            return status if said == expected else None

        found: Json = await self._cluster.until(holds, f"quota {name}: {expected}")
        return found

    def _path(self, namespace: str) -> str:
        where = namespace or self._cluster.own
        return f"/apis/tessera.dev/v1alpha1/namespaces/{where}/acceleratorquotas"


@asynccontextmanager
async def monitoring(cluster: RealCluster) -> AsyncGenerator[Monitor]:
    """A monitor of this cluster, started."""
    for document in yaml.safe_load_all(_ACCOUNT.read_text()):
        path = _PATHS[document["kind"]].format(namespace=document["metadata"].get("namespace", ""))
        answer = await cluster.admin.post(path, document)
        assert answer.status in {201, 409}, answer
    path = f"/api/v1/namespaces/{HOME}/serviceaccounts/tessera-quota/token"
    made = await cluster.admin.post(path, {"spec": {"expirationSeconds": 3600}})
    monitor = Monitor(cluster, made.done["status"]["token"])
    monitor.start()
    try:
        yield monitor
    finally:
        monitor.stop()


def _at(status: Json, key: str) -> object:
    found: Any = status
    for name in key.split("__"):
        found = found.get(name) if isinstance(found, dict) else None
    return found
