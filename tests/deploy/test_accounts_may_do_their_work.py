"""Roles on a real API server: what each service calls is allowed, and what would harm is not."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec import Struct

from tests.contract.client import Client
from tests.deploy.installed import NAMESPACE, Installed

REVIEW: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
LEASES: Final = "tessera-agent-leases"
SERVICES: Final = ("scheduler", "agent", "quota", "rebalancer")


class AccessRequest(Struct, frozen=True):
    """`verb group/resource/subresource namespace name`; `-` = empty."""

    verb: str
    what: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return " ".join((self.verb, self.what, self.namespace, self.name)).strip()


def accesses(verbs: str, what: str, namespace: str = "", name: str = "") -> list[AccessRequest]:
    return [AccessRequest(verb, what, namespace, name) for verb in verbs.split()]


HOOKS = (
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
)
MAY: Final = {
    "scheduler": [
        *accesses("get list watch patch", "/pods"),
        *accesses("create", "/pods/binding", "team-a"),
        *accesses("get list watch patch", "/nodes"),
        *accesses("get", "/namespaces", name="team-a"),
        *accesses("list watch", "/resourcequotas"),
        *accesses("list watch", "tessera.dev/acceleratorquotas"),
        *accesses("list watch", "scheduling.koordinator.sh/devices"),
        *accesses("create patch", "/events", "team-a"),
        *accesses("create", "authentication.k8s.io/tokenreviews"),
        *accesses("create", "authorization.k8s.io/subjectaccessreviews"),
        *(a for hook in HOOKS for a in accesses("create", hook)),
        *(a for hook in HOOKS for a in accesses("get update delete", hook, name="tessera")),
        *accesses("get", "rbac.authorization.k8s.io/clusterroles", name="tessera-scheduler"),
        *accesses("create", "/secrets", NAMESPACE),
        *accesses("get update", "/secrets", NAMESPACE, "tessera-grant-signing"),
        *accesses("get update", "/secrets", NAMESPACE, "tessera-webhook-certificate"),
        *accesses("create", "/configmaps", NAMESPACE),
        *accesses("get update", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *accesses("get update", "/configmaps", NAMESPACE, "tessera-packing-history"),
        *accesses("get update", "/configmaps", NAMESPACE, "tessera-queue-history"),
        *accesses("create", "coordination.k8s.io/leases", NAMESPACE),
        *accesses("get update", "coordination.k8s.io/leases", NAMESPACE, "tessera-scheduler"),
        *accesses("create list watch", "coordination.k8s.io/leases", LEASES),
        *accesses("get update", "coordination.k8s.io/leases", LEASES, "scheduler"),
        # kube-scheduler, next to it
        *accesses("list watch", "/persistentvolumeclaims"),
        *accesses("list watch", "policy/poddisruptionbudgets"),
        *accesses("patch update", "/pods/status", "team-a"),
        *accesses("get", "/configmaps", "kube-system", "extension-apiserver-authentication"),
    ],
    "agent": [
        *accesses("get patch", "/nodes", name="one"),
        *accesses("patch", "/nodes/status", name="one"),
        *accesses("list watch", "/pods"),
        *accesses("create patch", "/events", "team-a"),
        *accesses("list watch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *accesses("create get update", "coordination.k8s.io/leases", LEASES, "agent.nvidia.one"),
    ],
    "quota": [
        *accesses("list watch", "/pods"),
        *accesses("list watch", "/nodes"),
        *accesses("list watch", "/namespaces"),
        *accesses("list watch", "/resourcequotas"),
        *accesses("list watch", "tessera.dev/acceleratorquotas"),
        *accesses("patch", "tessera.dev/acceleratorquotas/status", "team-a", "own"),
        *accesses("create patch", "/events", "team-a"),
        *accesses("list watch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
    ],
    "rebalancer": [
        *accesses("get list watch patch", "/pods"),
        *accesses("create", "/pods/eviction", "team-a"),
        *accesses("list watch", "/nodes"),
        *accesses("list watch", "/namespaces"),
        *accesses("list watch", "/resourcequotas"),
        *accesses("list watch", "policy/poddisruptionbudgets"),
        *accesses("list watch", "tessera.dev/acceleratorquotas"),
        *accesses("get list watch create patch delete", "tessera.dev/rebalanceplans"),
        *accesses("patch", "tessera.dev/rebalanceplans/status"),
        *accesses("create patch", "/events", "team-a"),
        *accesses("list watch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
    ],
}
MAY_NOT: Final = {
    "scheduler": [
        *accesses("get list", "/secrets", "team-a"),
        *accesses("get list", "/secrets", NAMESPACE),
        *accesses("get", "/secrets", NAMESPACE, "tessera-bus"),
        *accesses("update delete", "/configmaps", NAMESPACE, "tessera-dialects"),
        *accesses("delete create", "/nodes"),
        *accesses("patch", "/nodes/status", name="one"),
        *(a for hook in HOOKS for a in accesses("update delete", hook, name="another")),
        *accesses("create", "/pods", "team-a"),
        *accesses("create", "/pods/exec", "team-a"),
        *accesses("update patch", "tessera.dev/acceleratorquotas", "team-a"),
        *accesses("update", "rbac.authorization.k8s.io/clusterroles"),
        *accesses("get", "rbac.authorization.k8s.io/clusterroles", name="cluster-admin"),
    ],
    "agent": [
        *accesses("get list", "/secrets", NAMESPACE),
        *accesses("get", "/secrets", NAMESPACE, "tessera-grant-signing"),
        *accesses("update patch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *accesses("list", "/configmaps", NAMESPACE),
        *accesses("patch update delete create", "/pods", "team-a"),
        *accesses("patch update", "/pods/status", "team-a"),
        *accesses("create", "/pods/binding", "team-a"),
        *accesses("list watch delete", "/nodes"),
        *accesses("create", "/pods/exec", "team-a"),
        *accesses("create update", "coordination.k8s.io/leases", NAMESPACE, "tessera-scheduler"),
        *accesses("list watch delete", "coordination.k8s.io/leases", LEASES),
    ],
    "quota": [
        *accesses("get list", "/secrets", NAMESPACE),
        *accesses("update patch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *accesses("list", "/configmaps", NAMESPACE),
        *accesses("create patch update delete", "/pods", "team-a"),
        *accesses("patch update", "/pods/status", "team-a"),
        *accesses("create", "/pods/binding", "team-a"),
        *accesses("patch update delete", "/nodes"),
        *accesses("patch", "/nodes/status", name="one"),
        *accesses("create patch update delete", "tessera.dev/acceleratorquotas", "team-a"),
        *accesses("patch update", "/resourcequotas", "team-a"),
    ],
    "rebalancer": [
        *accesses("get list", "/secrets", NAMESPACE),
        *accesses("update patch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *accesses("list", "/configmaps", NAMESPACE),
        *accesses("create update delete", "/pods", "team-a"),
        *accesses("patch update", "/pods/status", "team-a"),
        *accesses("create", "/pods/binding", "team-a"),
        *accesses("create", "/pods/exec", "team-a"),
        *accesses("patch update delete", "/nodes"),
        *accesses("create patch update delete", "tessera.dev/acceleratorquotas", "team-a"),
        *accesses("patch update delete", "policy/poddisruptionbudgets", "team-a"),
    ],
}


async def allowed(admin: Client, service: str, ask: AccessRequest) -> bool:
    group, resource, *sub = ask.what.split("/")
    attributes = {
        "verb": ask.verb, "group": group, "version": "*", "resource": resource,
        "subresource": sub[0] if sub else "", "namespace": ask.namespace, "name": ask.name,
    }  # fmt: skip
    spec = {
        "user": f"system:serviceaccount:{NAMESPACE}:tessera-{service}",
        "groups": [
            "system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated",
        ],
        "resourceAttributes": attributes,
    }  # fmt: skip
    answer: bool = (await admin.post(REVIEW, {"spec": spec})).done["status"]["allowed"]
    return answer


@pytest.mark.parametrize("service", SERVICES)
async def test_what_a_service_calls_is_allowed(installed: Installed, service: str) -> None:
    async with installed.clients() as clients:
        denied = [str(a) for a in MAY[service] if not await allowed(clients["admin"], service, a)]
    assert denied == []


@pytest.mark.parametrize("service", SERVICES)
async def test_what_would_harm_is_denied(installed: Installed, service: str) -> None:
    async with installed.clients() as clients:
        granted = [str(a) for a in MAY_NOT[service] if await allowed(clients["admin"], service, a)]
    assert granted == []


@pytest.mark.parametrize("service", ["agent", "quota", "rebalancer"])
async def test_the_published_keys_are_read_and_no_other_map(
    installed: Installed, service: str
) -> None:
    maps = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    async with installed.clients() as clients:
        reader = clients[service]
        one = await reader.get(maps, fieldSelector="metadata.name=tessera-grant-keys")
        all_of_them = await reader.get(maps)
    assert one.done["kind"] == "ConfigMapList"
    all_of_them.refused(403, "Forbidden")
