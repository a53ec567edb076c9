"""A real control plane with nodes that only seem to run: etcd, API server, controllers, kwok.

It has what an installation of Tessera brings before its first process starts: the namespace, the
roles of `deploy/kustomize`, the kinds, the policy that compares terms, an empty Lease. The services
run as the user that those roles are bound to, so what they may do here is what they may do in a
cluster.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml

from tessera_core.trust import fencing
from tests.contract.client import Client, Json, open_client
from tests.contract.kubebin import kube_bin
from tests.contract.real import PROGRAMS, ControlPlane, Program, real_control_plane

CLUSTER_PROGRAMS: Final = (*PROGRAMS, "kube-controller-manager", "kwok")
HOME: Final = "tessera-system"
AGENT_LEASES: Final = "tessera-agent-leases"
ACCOUNT: Final = "nobody"
"""The user that the services are. The control plane knows it and lets it do nothing by itself."""
CLOCKWORK: Final = {"kwok.x-k8s.io/node": "fake"}
"""Annotation of the nodes that kwok keeps alive."""
LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"
_BASE: Final = Path(__file__).parents[2] / "deploy" / "kustomize" / "base"
_PATHS: Final = {
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    **{guard["kind"]: path for path, guard in fencing.fencing_policy(HOME).items()},
}
_DEVICES: Final[Json] = {
    "metadata": {"name": "devices.scheduling.koordinator.sh"},
    "spec": {
        "group": "scheduling.koordinator.sh",
        "names": {"kind": "Device", "plural": "devices", "singular": "device"},
        "scope": "Cluster",
        "versions": [{
            "name": "v1alpha1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": True,
            }},
        }],
    },
}  # fmt: skip
"""Koordinator's kind, as far as anybody here looks at it."""
_NO_POD: Final[Json] = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": "no-pod"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {"matchLabels": {"kwok.x-k8s.io/runs": "no"}},
        "next": {"statusTemplate": "phase: Running"},
    },
}  # fmt: skip
"""What kwok does with pods, in the place of what it would do by itself: nothing."""
_NODE_ONCE: Final[Json] = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": "node-once"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Node"},
        "selector": {"matchExpressions": [{
            "key": '.status.conditions.[] | select( .type == "Ready" ) | .status',
            "operator": "NotIn", "values": ["True"],
        }]},
        "next": {"statusTemplate": (
            '{"phase": "Running", "conditions": [{"type": "Ready", "status": "True", '
            '"reason": "Quiet", "message": "says nothing more", '
            '"lastHeartbeatTime": {{ Now | Quote }}, "lastTransitionTime": {{ Now | Quote }}}]}'
        )},
    },
}  # fmt: skip
"""What kwok does with nodes, in the place of what it would do by itself: it makes them ready, and
writes no status of each of them every 20 seconds."""


class Plane:
    """The control plane, and where its programs and files are."""

    def __init__(self, control: ControlPlane, folder: Path, binaries: Path) -> None:
        """Made by `real_plane`."""
        self.control = control
        self.folder = folder
        self.binaries = binaries

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Client]:
        """The administrator's."""
        control = self.control
        async with open_client(control.url, control.ca_path, control.token) as client:
            yield client

    @property
    def account(self) -> dict[str, str]:
        """Variables that say to a service where the API server is, as in a pod with an account."""
        return {
            "TESSERA_KUBE_URL": self.control.url,
            "TESSERA_KUBE_TOKEN_FILE": str(self.folder / "service.token"),
            "TESSERA_KUBE_CA_FILE": str(self.control.ca_path),
        }


@asynccontextmanager
async def real_plane(folder: Path, *, quiet: bool = False) -> AsyncGenerator[Plane]:
    """Run it for the length of the block; KubeBinMissing where a program cannot be had. A `quiet`
    one has no controllers, nodes without heartbeats, and pods that nobody runs once they are bound:
    nothing moves but what is bound."""
    binaries = await asyncio.to_thread(all_programs)
    async with real_control_plane(folder) as control:
        plane = Plane(control, folder, binaries)
        (folder / "service.token").write_text(control.tokens[ACCOUNT])
        around = [_kwok(plane, lease_s=3600 if quiet else 40, runs_pods=not quiet)]
        if not quiet:
            around.append(_controllers(plane))
        async with plane.client() as admin:
            await _install(admin)
        try:
            for program in around:
                program.start()
            yield plane
            for program in around:
                program.check()
        finally:
            for program in around:
                await asyncio.to_thread(program.stop)


def all_programs(*, received: bool = False) -> Path:
    """The folder of every program that a cluster needs; see `kube_bin`."""
    return kube_bin(*CLUSTER_PROGRAMS, received=received)


def a_program(argv: Sequence[str | Path], log: Path, env: dict[str, str] | None = None) -> Program:
    """A process with exactly this environment, and the path of programs."""
    variables = [f"{name}={value}" for name, value in (env or {}).items()]
    cleared = [shutil.which("env") or "env", "-i", f"PATH={os.defpath}", *variables]
    return Program([*cleared, *argv], log)


def _controllers(plane: Plane) -> Program:
    return _program(
        plane, "kube-controller-manager", "--leader-elect=false", "--secure-port=0",
        "--kube-api-qps=500", "--kube-api-burst=1000", "--node-monitor-grace-period=10m",
        f"--service-account-private-key-file={plane.folder / 'accounts.key'}",
    )  # fmt: skip


def _kwok(plane: Plane, lease_s: int, *, runs_pods: bool) -> Program:
    selector = ",".join(f"{key}={value}" for key, value in CLOCKWORK.items())
    config = plane.folder / "kwok.yaml"
    stages = () if runs_pods else (_NO_POD, _NODE_ONCE)
    config.write_text("---\n".join(f"{json.dumps(stage)}\n" for stage in stages))
    return _program(
        plane, "kwok", "--manage-all-nodes=false", f"--config={config}",
        f"--manage-nodes-with-annotation-selector={selector}",
        f"--node-lease-duration-seconds={lease_s}",
    )  # fmt: skip


def _program(plane: Plane, name: str, *flags: str) -> Program:
    argv: Sequence[str | Path] = [
        plane.binaries / name,
        f"--kubeconfig={plane.control.kubeconfig}",
        *flags,
    ]
    return a_program(argv, plane.folder / f"{name}.log", {"HOME": str(plane.folder)})


async def _install(admin: Client) -> None:
    for name in (HOME, AGENT_LEASES, "kube-system"):
        answer = await admin.post("/api/v1/namespaces", {"metadata": {"name": name}})
        assert answer.status in {201, 409}, answer
    documents = [
        *_documents(_BASE / "scheduler" / "account.yaml"),
        *_documents(_BASE.parent / "components" / "ha" / "account.yaml"),
        *_documents(_BASE / "crds" / "acceleratorquotas.yaml"),
        *_documents(_BASE / "policies" / "terms.yaml"),
        {"kind": "CustomResourceDefinition", **_DEVICES},
    ]
    for document in documents:
        if document["kind"] not in _PATHS:
            continue
        if "subjects" in document:
            user = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": ACCOUNT}
            document["subjects"] = [user]
        path = _PATHS[document["kind"]].format(**document["metadata"])
        (await admin.post(path, document)).done  # noqa: B018  (checks)


def _documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))
