"""Users of a real cluster that have a role in one namespace and nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tessera_schema.endpoints.visibility import ROOT
from tests.cluster.cluster import SERVICES, RealCluster
from tests.cluster.plane import HOME
from tests.contract.client import Client, open_client

RBAC = "rbac.authorization.k8s.io"
REGISTERED = {"TESSERA_VISIBILITY_REGISTER": "true"}
"""Settings of a scheduler that the API server passes questions on to."""


@asynccontextmanager
async def a_tenant(cluster: RealCluster) -> AsyncGenerator[Client]:
    """The user `tenant`, with the role `edit` in the test's namespace."""
    await cluster.make(f"/apis/{RBAC}/v1/namespaces/{cluster.own}/rolebindings", {
        "metadata": {"name": "tenant", "namespace": cluster.own},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "tenant"}],
    })  # fmt: skip
    control = cluster.plane.control
    async with open_client(control.url, control.ca_path, control.tokens["tenant"]) as client:
        yield client


async def reached(cluster: RealCluster) -> None:
    """A Service that leads to this machine, until the API server passes requests on."""
    await cluster.make(SERVICES, {
        "metadata": {"name": "tessera-scheduler", "namespace": HOME},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    })  # fmt: skip

    async def served() -> bool:
        return (await cluster.admin.get(ROOT)).status == 200

    await cluster.until(served, "the aggregated API")


def a_home(cluster: RealCluster, folder: Path) -> Path:
    """A home with a `.kube/config` of that user, whose context has the test's namespace."""
    control = cluster.plane.control
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "mine",
        "clusters": [{"name": "c", "cluster": {
            "server": control.url, "certificate-authority": str(control.ca_path),
        }}],
        "users": [{"name": "u", "user": {"token": control.tokens["tenant"]}}],
        "contexts": [{"name": "mine", "context": {
            "cluster": "c", "user": "u", "namespace": cluster.own,
        }}],
    }  # fmt: skip
    (folder / ".kube").mkdir()
    (folder / ".kube" / "config").write_text(json.dumps(config))
    return folder
