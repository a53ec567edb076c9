"""Roles on a real API server: what each service calls is allowed, and what would harm is not."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec import Struct

from tests.contract.client import Client
from tests.deploy.installed import NAMESPACE, Installed

REVIEW: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
SERVICES: Final = ("scheduler", "agent", "quota", "rebalancer")


class Ask(Struct, frozen=True):
    """`verb group/resource/subresource namespace name`; `-` = empty."""

    verb: str
    what: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return " ".join((self.verb, self.what, self.namespace, self.name)).strip()


def asks(verbs: str, what: str, namespace: str = "", name: str = "") -> list[Ask]:
    return [Ask(verb, what, namespace, name) for verb in verbs.split()]


HOOKS = (
    "admissionregistration.k8s.io/mutatingwebhookconfigurations",
    "admissionregistration.k8s.io/validatingwebhookconfigurations",
)
MAY: Final = {
    "scheduler": [
        *asks("get list watch patch", "/pods"),
        *asks("create", "/pods/binding", "team-a"),
        *asks("get list watch patch", "/nodes"),
        *asks("get", "/namespaces", name="team-a"),
        *asks("list watch", "/resourcequotas"),
        *asks("list watch", "tessera.dev/acceleratorquotas"),
        *asks("list watch", "scheduling.koordinator.sh/devices"),
        *asks("create patch", "/events", "team-a"),
        *asks("create", "authentication.k8s.io/tokenreviews"),
        *asks("create", "authorization.k8s.io/subjectaccessreviews"),
        *(a for hook in HOOKS for a in asks("create", hook)),
        *(a for hook in HOOKS for a in asks("get update", hook, name="tessera")),
        *asks("create", "/secrets", NAMESPACE),
        *asks("get update", "/secrets", NAMESPACE, "tessera-grant-signing"),
        *asks("get update", "/secrets", NAMESPACE, "tessera-webhook-certificate"),
        *asks("create", "/configmaps", NAMESPACE),
        *asks("get update", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *asks("get update", "/configmaps", NAMESPACE, "tessera-packing-history"),
        *asks("create", "coordination.k8s.io/leases", NAMESPACE),
        *asks("get update", "coordination.k8s.io/leases", NAMESPACE, "tessera-scheduler"),
        # kube-scheduler, beside it
        *asks("list watch", "/persistentvolumeclaims"),
        *asks("list watch", "policy/poddisruptionbudgets"),
        *asks("patch update", "/pods/status", "team-a"),
        *asks("get", "/configmaps", "kube-system", "extension-apiserver-authentication"),
    ],
    "agent": [
        *asks("get patch", "/nodes", name="one"),
        *asks("patch", "/nodes/status", name="one"),
        *asks("list watch", "/pods"),
        *asks("create patch", "/events", "team-a"),
        *asks("list watch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
    ],
    "quota": [
        *asks("list watch", "/pods"),
        *asks("list watch", "/nodes"),
        *asks("list watch", "/namespaces"),
        *asks("list watch", "/resourcequotas"),
        *asks("list watch", "tessera.dev/acceleratorquotas"),
        *asks("patch", "tessera.dev/acceleratorquotas/status", "team-a", "own"),
        *asks("create patch", "/events", "team-a"),
        *asks("list watch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
    ],
    "rebalancer": [
        *asks("get list watch patch", "/pods"),
        *asks("create", "/pods/eviction", "team-a"),
        *asks("list watch", "/nodes"),
        *asks("list watch", "/namespaces"),
        *asks("list watch", "/resourcequotas"),
        *asks("list watch", "policy/poddisruptionbudgets"),
        *asks("list watch", "tessera.dev/acceleratorquotas"),
        *asks("get list watch create patch delete", "tessera.dev/rebalanceplans"),
        *asks("patch", "tessera.dev/rebalanceplans/status"),
        *asks("create patch", "/events", "team-a"),
        *asks("list watch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
    ],
}
MAY_NOT: Final = {
    "scheduler": [
        *asks("get list", "/secrets", "team-a"),
        *asks("get list", "/secrets", NAMESPACE),
        *asks("get", "/secrets", NAMESPACE, "tessera-bus"),
        *asks("update delete", "/configmaps", NAMESPACE, "tessera-dialects"),
        *asks("delete create", "/nodes"),
        *asks("patch", "/nodes/status", name="one"),
        *(a for hook in HOOKS for a in asks("update delete", hook, name="another")),
        *asks("create", "/pods", "team-a"),
        *asks("create", "/pods/exec", "team-a"),
        *asks("update patch", "tessera.dev/acceleratorquotas", "team-a"),
        *asks("update", "rbac.authorization.k8s.io/clusterroles"),
    ],
    "agent": [
        *asks("get list", "/secrets", NAMESPACE),
        *asks("get", "/secrets", NAMESPACE, "tessera-grant-signing"),
        *asks("update patch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *asks("list", "/configmaps", NAMESPACE),
        *asks("patch update delete create", "/pods", "team-a"),
        *asks("patch update", "/pods/status", "team-a"),
        *asks("create", "/pods/binding", "team-a"),
        *asks("list watch delete", "/nodes"),
        *asks("create", "/pods/exec", "team-a"),
        *asks("create update", "coordination.k8s.io/leases", NAMESPACE, "tessera-scheduler"),
    ],
    "quota": [
        *asks("get list", "/secrets", NAMESPACE),
        *asks("update patch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *asks("list", "/configmaps", NAMESPACE),
        *asks("create patch update delete", "/pods", "team-a"),
        *asks("patch update", "/pods/status", "team-a"),
        *asks("create", "/pods/binding", "team-a"),
        *asks("patch update delete", "/nodes"),
        *asks("patch", "/nodes/status", name="one"),
        *asks("create patch update delete", "tessera.dev/acceleratorquotas", "team-a"),
        *asks("patch update", "/resourcequotas", "team-a"),
    ],
    "rebalancer": [
        *asks("get list", "/secrets", NAMESPACE),
        *asks("update patch", "/configmaps", NAMESPACE, "tessera-grant-keys"),
        *asks("list", "/configmaps", NAMESPACE),
        *asks("create update delete", "/pods", "team-a"),
        *asks("patch update", "/pods/status", "team-a"),
        *asks("create", "/pods/binding", "team-a"),
        *asks("create", "/pods/exec", "team-a"),
        *asks("patch update delete", "/nodes"),
        *asks("create patch update delete", "tessera.dev/acceleratorquotas", "team-a"),
        *asks("patch update delete", "policy/poddisruptionbudgets", "team-a"),
    ],
}


async def allowed(admin: Client, service: str, ask: Ask) -> bool:
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
