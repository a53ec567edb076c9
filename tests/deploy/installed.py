"""Tessera's manifests on a real API server, and the accounts that they make.

Nothing runs there: no controller starts a pod. Tokens are those that kubelet would ask for.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.contract.client import Client, Json, open_client
from tests.contract.objects import a_node, a_pod
from tests.contract.real import ControlPlane, real_control_plane
from tests.deploy.manifests import KUSTOMIZE, kubectl

NAMESPACE: Final = "tessera-system"
TENANT: Final = "nobody"
"""A user who may do everything to pods and nodes, and nothing else."""
PODS: Final = "/api/v1/namespaces/default/pods"
SETTLED_S: Final = 60.0


class Installed:
    """The API server with the overlay `dev`, and clients in everybody's name."""

    def __init__(self, plane: ControlPlane, tokens: Mapping[str, str]) -> None:
        self.plane = plane
        self.tokens = tokens
        """`admin`, `tenant`, `scheduler`, `quota`, `rebalancer`, `agent` (of node one),
        `agent-unbound`."""

    @asynccontextmanager
    async def clients(self) -> AsyncGenerator[Mapping[str, Client]]:
        """Who -> client."""
        plane = self.plane
        async with open_client(plane.url, plane.ca_path, plane.token) as admin:
            yield {who: admin.named(token) for who, token in self.tokens.items()}


@asynccontextmanager
async def installed_on(folder: Path) -> AsyncGenerator[Installed]:
    """A control plane of its own. Raises KubeBinMissing."""
    async with real_control_plane(folder) as plane:
        await asyncio.to_thread(apply, plane, "dev")
        async with open_client(plane.url, plane.ca_path, plane.token) as admin:
            for node in ("one", "two"):
                (await admin.post("/api/v1/nodes", a_node(node))).done  # noqa: B018  (checks)
            await _let_the_tenant(admin)
            tokens = {
                "admin": plane.token,
                "tenant": plane.tokens[TENANT],
                "scheduler": await token_of(admin, "tessera-scheduler", "two"),
                "quota": await token_of(admin, "tessera-quota", "two"),
                "rebalancer": await token_of(admin, "tessera-rebalancer", "two"),
                "agent": await token_of(admin, "tessera-agent", "one"),
                "agent-unbound": await token_of(admin, "tessera-agent", ""),
            }
            await _settle(admin.named(tokens["tenant"]))
        yield Installed(plane, tokens)


def apply(plane: ControlPlane, overlay: str, *options: str) -> str:
    """`kubectl apply -k`; what it says."""
    ran = subprocess.run(
        [
            kubectl(), f"--kubeconfig={plane.kubeconfig}", "apply", "--server-side", *options,
            "-k", str(KUSTOMIZE / "overlays" / overlay),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


async def _let_the_tenant(admin: Client) -> None:
    group = "rbac.authorization.k8s.io"
    rule: Json = {
        "apiGroups": [""], "verbs": ["*"], "resources": [
            "pods", "pods/status", "pods/binding", "bindings", "nodes", "nodes/status",
        ],
    }  # fmt: skip
    role: Json = {"metadata": {"name": "tenant"}, "rules": [rule]}
    bound: Json = {
        "metadata": {"name": "tenant"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "tenant"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": TENANT}],
    }
    for kind, body in (("clusterroles", role), ("clusterrolebindings", bound)):
        (await admin.post(f"/apis/{group}/v1/{kind}", body)).done  # noqa: B018  (checks)


async def token_of(admin: Client, account: str, node: str, pod: str = "") -> str:
    """As kubelet asks for it: bound to a pod on its node; with no node, to nothing. The pod has
    the account's name unless `pod` is another."""
    spec: dict[str, Any] = {"expirationSeconds": 3600}
    if node:
        body = a_pod(pod or account)
        body["spec"] |= {"serviceAccountName": account, "nodeName": node}
        made = (await admin.post(f"/api/v1/namespaces/{NAMESPACE}/pods", body)).done
        spec["boundObjectRef"] = {
            "apiVersion": "v1", "kind": "Pod", "name": pod or account,
            "uid": made["metadata"]["uid"],
        }  # fmt: skip
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    token: str = (await admin.post(path, {"spec": spec})).done["status"]["token"]
    return token


async def _settle(tenant: Client) -> None:
    """Policies and roles are in force a moment after they were written."""
    async with asyncio.timeout(SETTLED_S):
        notes = {"cards.tessera.dev/settled": "1"}
        while True:
            body: Json = {"metadata": {"annotations": notes}}
            answer = await tenant.patch("/api/v1/nodes/two", body, dryRun="All")
            if answer.status == 403 and "ValidatingAdmissionPolicy" in answer.body["message"]:
                return
            await asyncio.sleep(0.2)
