"""The base deployment on the embedded API server, as it is once everything runs there.

Objects of the manifests are those that kustomize renders. What agents write is written in their
names, so that the policies that Tessera installs let it pass. Workloads and RuntimeClasses are
custom resources there: the server has no such kinds of its own.
"""

from __future__ import annotations

import asyncio
import functools
import re
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import UNSET, Struct

from tessera_cli.check.cluster_reader import read_cluster
from tessera_cli.kubeconfig import ClusterTarget
from tessera_core.preflight.checks import run_checks
from tessera_core.preflight.findings import Finding, FindingState
from tessera_embedded.apiserver import Account, ApiServer, Rule, open_apiserver
from tessera_runtime.clock import Clock, SystemClock
from tessera_schema.node_cards import NodeCardsAnnotation, encode_node_cards
from tessera_testing.builders import a_card
from tests.contract.client import Client, Json, open_client
from tests.deploy.manifests import KUSTOMIZE, combined, kubectl

NAMESPACE: Final = "tessera-system"
CARD_NODE: Final = "gpu-1"
AGENT: Final = "system:serviceaccount:tessera-system:tessera-agent"
READER: Final = "reader"
GROUPS: Final = {
    "apps": (("deployments", "Deployment"), ("daemonsets", "DaemonSet"),
             ("statefulsets", "StatefulSet")),
    "node.k8s.io": (("runtimeclasses", "RuntimeClass"),),
}  # fmt: skip
_PATHS: Final = {
    "Namespace": "/api/v1/namespaces", "ServiceAccount": "/api/v1/{}serviceaccounts",
    "ConfigMap": "/api/v1/{}configmaps", "Service": "/api/v1/{}services",
    "Secret": "/api/v1/{}secrets",
    "Deployment": "/apis/apps/v1/{}deployments", "DaemonSet": "/apis/apps/v1/{}daemonsets",
    "StatefulSet": "/apis/apps/v1/{}statefulsets",
    "Lease": "/apis/coordination.k8s.io/v1/{}leases",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "ValidatingAdmissionPolicy":
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding":
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "MutatingWebhookConfiguration":
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "ValidatingWebhookConfiguration":
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
}  # fmt: skip
_BY_ARGUMENTS: Final = re.compile(
    r"kubectl((?: -n [\w-]+)?) create ((?:namespace|configmap) [\w-]+)"
)
_NOT_SERVED: Final = frozenset(
    {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "PriorityClass"}
)
"""Kinds of the base that no check reads, and that the embedded server does not have."""
_ORDER: Final = ("Namespace", "CustomResourceDefinition")


class InstalledCluster:
    """The server, and what tests break and mend on it."""

    def __init__(self, server: ApiServer, admin: Client, rendered: list[Json]) -> None:
        self.server, self.admin, self.rendered = server, admin, rendered
        self.agent = admin.named(server.tokens[AGENT])

    # -- what the command does

    async def check(
        self, node: str = "", clock: Clock | None = None, who: str = ""
    ) -> tuple[Finding, ...]:
        """The findings, as the command has them; `who` is impersonated by its own token."""
        config = self.server.kubeconfig if not who else self.config_of(who)
        target = ClusterTarget(kubeconfig=str(config))
        cluster = await read_cluster(target, node, clock or SystemClock())
        return tuple(run_checks(cluster, of_node=bool(node)))

    async def faults(self, node: str = "", clock: Clock | None = None) -> dict[str, Finding]:
        """Check -> its finding, of those that are not ok."""
        found = await self.check(node, clock)
        return {one.name: one for one in found if one.state is not FindingState.OK}

    def config_of(self, who: str) -> Path:
        """A kubeconfig of this account."""
        config = yaml.safe_load(self.server.kubeconfig.read_text())
        config["users"][0]["user"]["token"] = self.server.tokens[who]
        file = self.server.kubeconfig.with_name(f"{who}.yaml")
        file.write_text(yaml.safe_dump(config))
        return file

    async def run(self, remedy: str) -> None:
        """Run a remedy as a user would paste it, but for what the embedded server does not
        speak: protobuf, in which kubectl creates objects that no manifest holds."""
        remedy = _BY_ARGUMENTS.sub(
            r"kubectl\1 create \2 --dry-run=client -o yaml | kubectl create -f -", remedy
        ).replace("create -f -", "create --validate=false -f -")
        ran = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-o", "pipefail", "-c", remedy],
            env={"KUBECONFIG": str(self.server.kubeconfig), "PATH": "/usr/bin:/bin",
                 "HOME": str(self.server.kubeconfig.parent)},
            cwd=KUSTOMIZE.parents[1], capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, (remedy, ran.stderr)

    # -- objects

    async def apply(self, *kinds: str) -> None:
        """Bring back what the manifests have of these kinds (all without), as `kubectl apply` of
        the overlay does."""
        for item in sorted(self.rendered, key=lambda i: i["kind"] not in _ORDER):
            kind = item["kind"]
            if kind in _NOT_SERVED or (kinds and kind not in kinds):
                continue
            path = f"{path_of(item)}/{item['metadata']['name']}"
            there = await self.admin.get(path)
            if there.status == 404:
                (await self.admin.post(path_of(item), item)).done  # noqa: B018  (checks)
            else:
                (await self.admin.patch(path, item)).done  # noqa: B018  (checks)

    async def create(self, *items: Json) -> None:
        """Create objects; those with a status get it."""
        for item in items:
            (await self.admin.post(path_of(item), item)).done  # noqa: B018  (checks)

    async def delete(self, path: str) -> None:
        """Delete an object at once."""
        (await self.admin.delete(path, {"gracePeriodSeconds": 0})).done  # noqa: B018  (checks)

    async def patch(self, path: str, body: Json) -> None:
        """Change an object by a merge patch."""
        (await self.admin.patch(path, body)).done  # noqa: B018  (checks)

    async def workload(self, kind: str, name: str) -> Json:
        """A Deployment, StatefulSet or DaemonSet of Tessera's."""
        found: Json = (await self.admin.get(workload_path(kind, name))).done
        return found

    async def publish(self, problem: str = "", **fields: Any) -> None:
        """Write the node's cards as its agent does."""
        value = encode_node_cards(
            NodeCardsAnnotation(
                cards=(a_card("GPU-0"),), heartbeat_s=45, problem=problem or UNSET, **fields
            )
        )
        body = {"metadata": {"annotations": {"cards.tessera.dev/nvidia": value}}}
        (await self.agent.patch(f"/api/v1/nodes/{CARD_NODE}", body)).done  # noqa: B018  (checks)

    async def renew(self, ago_s: float = 0.0) -> None:
        """Write the agent's Lease, by a clock that is so much behind."""
        stamp = datetime.fromtimestamp(SystemClock().time() - ago_s, UTC)
        item: Json = {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": f"agent.nvidia.{CARD_NODE}", "namespace": "tessera-agent-leases"},
            "spec": {"leaseDurationSeconds": 45, "holderIdentity": CARD_NODE,
                     "renewTime": stamp.isoformat(timespec="microseconds").replace("+00:00", "Z")},
        }  # fmt: skip
        path = path_of(item)
        await self.admin.delete(f"{path}/{item['metadata']['name']}")
        (await self.agent.post(path, item)).done  # noqa: B018  (checks)


def path_of(item: Json) -> str:
    """The path of the list that an object belongs to."""
    namespace = item["metadata"].get("namespace", "")
    return _PATHS[item["kind"]].format(f"namespaces/{namespace}/" if namespace else "")


def workload_path(kind: str, name: str) -> str:
    """Of Tessera's workloads; kind as in paths, such as `daemonsets`."""
    return f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind}/{name}"


def a_definition(group: str, plural: str, kind: str) -> Json:
    """A kind that the embedded server does not have, as a custom resource of any form."""
    any_form = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    fields = {"spec": any_form, "status": any_form, "handler": {"type": "string"}}
    schema = {"type": "object", "properties": fields}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group, "names": names,
            "scope": "Cluster" if kind == "RuntimeClass" else "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True,
                          "schema": {"openAPIV3Schema": schema}}],
        },
    }  # fmt: skip


def a_node(name: str, labels: Json, runtime: str = "containerd://2.2.0") -> Json:
    """A node as kubelet registers it."""
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {
            "nodeInfo": {"containerRuntimeVersion": runtime, "kubeletVersion": "v1.34.3"},
            "runtimeHandlers": [{"name": ""}, {"name": "nvidia"}],
        },
    }  # fmt: skip


def a_daemonset(name: str, namespace: str, image: str, **spec: Any) -> Json:
    """Another system's DaemonSet; `spec` is of its pods."""
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}], **spec}}},
    }  # fmt: skip


ACCOUNTS: Final = (
    Account(
        AGENT,
        (Rule(("*",), ("nodes",)), Rule(("*",), ("leases",), groups=("coordination.k8s.io",))),
        extra={"authentication.kubernetes.io/node-name": (CARD_NODE,)},
    ),
    Account(READER, (Rule(("get", "list"), ("nodes", "pods", "configmaps", "events")),)),
)


@asynccontextmanager
async def bare_cluster(
    folder: Path, rendered: Iterable[Json] = ()
) -> AsyncGenerator[InstalledCluster]:
    """A cluster with one labelled node and one without, and nothing of Tessera's."""
    async with (
        open_apiserver(folder / "server", accounts=ACCOUNTS) as server,
        open_client(server.url, server.ca_path, server.token) as admin,
    ):
        cluster = InstalledCluster(server, admin, list(rendered))
        for group, kinds in GROUPS.items():
            await cluster.create(*(a_definition(group, *kind) for kind in kinds))
        for name, labels in ((CARD_NODE, {"tessera.dev/cards": "nvidia"}), ("cpu-1", {})):
            (await admin.post("/api/v1/nodes", a_node(name, labels))).done  # noqa: B018  (checks)
        yield cluster


@asynccontextmanager
async def installed_cluster(
    folder: Path, components: Iterable[str] = ()
) -> AsyncGenerator[InstalledCluster]:
    """The base with these components, all of it at work."""
    rendered = await asyncio.to_thread(_rendered, tuple(components))
    async with bare_cluster(folder, rendered) as cluster:
        await cluster.apply()
        await cluster.run(f"deploy/kustomize/passwords.sh | {kubectl()} create -f -")
        await _start(cluster)
        yield cluster


@functools.cache
def _rendered(components: tuple[str, ...]) -> list[Json]:
    with tempfile.TemporaryDirectory() as folder:
        return combined(Path(folder), components)


async def _start(cluster: InstalledCluster) -> None:
    """Write what the scheduler, controllers, kubelet and the agent write."""
    for item in cluster.rendered:
        if item["kind"] in ("Deployment", "StatefulSet"):
            path = f"{path_of(item)}/{item['metadata']['name']}"
            await cluster.patch(
                path, {"status": {"readyReplicas": item["spec"].get("replicas", 1)}}
            )
    meta: Json = {"namespace": NAMESPACE}
    call = {"url": "https://127.0.0.1:1/"}  # the embedded server knows no Services
    await cluster.create(
        *(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {**meta, "name": name},
             "stringData": {"entry": "x"}}
            for name in ("tessera-grant-signing", "tessera-webhook-certificate")
        ),
        {"apiVersion": "v1", "kind": "ConfigMap",
         "metadata": {**meta, "name": "tessera-grant-keys"},
         "data": {"k1": "x"}},
        {"apiVersion": "v1", "kind": "ConfigMap",
         "metadata": {**meta, "name": "tessera-agent-required"}},
        *(
            {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
             "metadata": {"name": "tessera"},
             "webhooks": [{
                 "name": "admit.tessera.dev", "clientConfig": call, "sideEffects": "None",
                 "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
                 "rules": [{"apiGroups": ["none"], "apiVersions": ["v1"], "operations": ["CREATE"],
                            "resources": ["nothing"]}],
             }]}
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        ),
    )  # fmt: skip
    await run_agent(cluster)


async def run_agent(cluster: InstalledCluster, **status: Any) -> None:
    """The agent's pod as kubelet runs it, and what it writes itself."""
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    name = "tessera-agent-nvidia-x"
    await cluster.admin.delete(f"{pods}/{name}", {"gracePeriodSeconds": 0})
    pod: Json = {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {
            "app.kubernetes.io/name": "tessera-agent", "app.kubernetes.io/component": "nvidia",
            "app.kubernetes.io/part-of": "tessera",
        }},
        "spec": {"nodeName": CARD_NODE, "containers": [{"name": "agent", "image": "agent"}]},
    }  # fmt: skip
    (await cluster.admin.post(pods, pod)).done  # noqa: B018  (checks)
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    await cluster.patch(f"{pods}/{name}/status", {"status": {**ready, **status}})
    await cluster.publish()
    await cluster.renew()


class FixedClock(Struct, frozen=True):
    """A clock that is so many seconds ahead of this machine's."""

    ahead_s: float

    def time(self) -> float:
        return SystemClock().time() + self.ahead_s

    def time_ns(self) -> int:
        return int(self.time() * 1e9)
