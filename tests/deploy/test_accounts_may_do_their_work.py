"""Roles on a real API server: what each service calls is allowed, and what would harm is not."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec import Struct

from tests.contract.client import Client
from tests.deploy.installed import NAMESPACE, Installed

REVIEW: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SERVICES: Final = ("scheduler", "agent", "quota", "rebalancer")


class AccessRequest(Struct, frozen=True):
    """`verb group/resource/subresource namespace name`; `-` = empty."""

    verb: str
    what: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return " ".join((self.verb, self.what, self.namespace, self.name)).strip()


def exchange(verbs: str, what: str, namespace: str = "", name: str = "") -> list[AccessRequest]:
    return [AccessRequest(verb, what, namespace, name) for verb in verbs.split()]


HOOKS = (
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
)
MAY: Final = {
    "scheduler": [
        *exchange("get list watch patch", "/pods"),
        *exchange("create", "/pods/binding", "team-a"),
        *exchange("get list watch patch", "/nodes"),
        *exchange("get", "/namespaces", name="team-a"),
        *exchange("list watch", "/resourcequotas"),
        *exchange("list watch", "tessera.dev/acceleratorquotas"),
        *exchange("list watch", "scheduling.koordinator.sh/devices"),
        *exchange("create patch", "/events", "team-a"),
        *exchange("create", "authentication.k8s.io/tokenreviews"),
        *exchange("create", "authorization.k8s.io/subjectaccessreviews"),
        *(a for hook in HOOKS for a in exchange("create", hook)),
        *(a for hook in HOOKS for a in exchange("get update", hook, name="tessera")),
        *exchange("create", "/secrets", NAMESPACE),
        *exchange("get update", "/secrets", NAMESPACE, "tessera-grant-signing"),
        *exchange("get update", "/secrets", NAMESPACE, "tessera-webhook-certificate"),
        *exchange("create", "/configmaps", NAMESPACE),
        *exchange("get update", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *exchange("get update", "/configmaps", NAMESPACE, "tessera-packing-history"),
        *exchange("create", "coordination.k8s.io/leases", NAMESPACE),
        *exchange("get update", "coordination.k8s.io/leases", NAMESPACE, "tessera-scheduler"),
        # kube-scheduler, next to it
        *exchange("list watch", "/persistentvolumeclaims"),
        *exchange("list watch", "policy/poddisruptionbudgets"),
        *exchange("patch update", "/pods/status", "team-a"),
        *exchange("get", "/configmaps", "kube-system", "extension-apiserver-authentication"),
    ],
    "agent": [
        *exchange("get patch", "/nodes", name="one"),
        *exchange("patch", "/nodes/status", name="one"),
        *exchange("list watch", "/pods"),
        *exchange("create patch", "/events", "team-a"),
        *exchange("list watch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
    ],
    "quota": [
        *exchange("list watch", "/pods"),
        *exchange("list watch", "/nodes"),
        *exchange("list watch", "/namespaces"),
        *exchange("list watch", "/resourcequotas"),
        *exchange("list watch", "tessera.dev/acceleratorquotas"),
        *exchange("patch", "tessera.dev/acceleratorquotas/status", "team-a", "own"),
        *exchange("create patch", "/events", "team-a"),
        *exchange("list watch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
    ],
    "rebalancer": [
        *exchange("get list watch patch", "/pods"),
        *exchange("create", "/pods/eviction", "team-a"),
        *exchange("list watch", "/nodes"),
        *exchange("list watch", "/namespaces"),
        *exchange("list watch", "/resourcequotas"),
        *exchange("list watch", "policy/poddisruptionbudgets"),
        *exchange("list watch", "tessera.dev/acceleratorquotas"),
        *exchange("get list watch create patch delete", "tessera.dev/rebalanceplans"),
        *exchange("patch", "tessera.dev/rebalanceplans/status"),
        *exchange("create patch", "/events", "team-a"),
        *exchange("list watch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
    ],
}
MAY_NOT: Final = {
    "scheduler": [
        *exchange("get list", "/secrets", "team-a"),
        *exchange("get list", "/secrets", NAMESPACE),
        *exchange("get", "/secrets", NAMESPACE, "tessera-bus"),
        *exchange("update delete", "/configmaps", NAMESPACE, "tessera-dialects"),
        *exchange("delete create", "/nodes"),
        *exchange("patch", "/nodes/status", name="one"),
        *(a for hook in HOOKS for a in exchange("update delete", hook, name="another")),
        *exchange("create", "/pods", "team-a"),
        *exchange("create", "/pods/exec", "team-a"),
        *exchange("update patch", "tessera.dev/acceleratorquotas", "team-a"),
        *exchange("update", "rbac.authorization.k8s.io/clusterroles"),
    ],
    "agent": [
        *exchange("get list", "/secrets", NAMESPACE),
        *exchange("get", "/secrets", NAMESPACE, "tessera-grant-signing"),
        *exchange("update patch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *exchange("list", "/configmaps", NAMESPACE),
        *exchange("patch update delete create", "/pods", "team-a"),
        *exchange("patch update", "/pods/status", "team-a"),
        *exchange("create", "/pods/binding", "team-a"),
        *exchange("list watch delete", "/nodes"),
        *exchange("create", "/pods/exec", "team-a"),
        *exchange("create update", "coordination.k8s.io/leases", NAMESPACE, "tessera-scheduler"),
    ],
    "quota": [
        *exchange("get list", "/secrets", NAMESPACE),
        *exchange("update patch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *exchange("list", "/configmaps", NAMESPACE),
        *exchange("create patch update delete", "/pods", "team-a"),
        *exchange("patch update", "/pods/status", "team-a"),
        *exchange("create", "/pods/binding", "team-a"),
        *exchange("patch update delete", "/nodes"),
        *exchange("patch", "/nodes/status", name="one"),
        *exchange("create patch update delete", "tessera.dev/acceleratorquotas", "team-a"),
        *exchange("patch update", "/resourcequotas", "team-a"),
    ],
    "rebalancer": [
        *exchange("get list", "/secrets", NAMESPACE),
        *exchange("update patch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *exchange("list", "/configmaps", NAMESPACE),
        *exchange("create update delete", "/pods", "team-a"),
        *exchange("patch update", "/pods/status", "team-a"),
        *exchange("create", "/pods/binding", "team-a"),
        *exchange("create", "/pods/exec", "team-a"),
        *exchange("patch update delete", "/nodes"),
        *exchange("create patch update delete", "tessera.dev/acceleratorquotas", "team-a"),
        *exchange("patch update delete", "policy/poddisruptionbudgets", "team-a"),
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
