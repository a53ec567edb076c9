"""What an installation with the component `gangs` has besides: kinds of others, and rights."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import yaml

from tests.cluster.cluster import LOOK_S, WAIT_S
from tests.cluster.plane import ACCOUNT
from tests.contract.client import Client, Json

VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
KOORDINATOR: Final = "scheduling.sigs.k8s.io/v1alpha1"
COSCHEDULING: Final = "scheduling.x-k8s.io/v1alpha1"
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_COMPONENT: Final = Path(__file__).parents[3] / "deploy/kustomize/components/gangs/access.yaml"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_RULES: Final = {
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
}


def a_definition(api: str, kind: str, *, cluster_wide: bool = False) -> Json:
    """A CustomResourceDefinition without a schema and, as those of the systems here, without a
    status subresource."""
    group, _, version = api.partition("/")
    singular = kind.lower()
    names = {
        "plural": f"{singular}s", "singular": singular, "kind": kind, "listKind": f"{kind}List",
    }  # fmt: skip
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    scope = "Cluster" if cluster_wide else "Namespaced"
    return {
        "metadata": {
            "name": f"{singular}s.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, as those of the systems"},
        },
        "spec": {"group": group, "scope": scope, "names": names, "versions": [served]},
    }


async def install_kinds(admin: Client) -> None:
    """Make PodGroups of three systems and the rights of the component, if they are not there."""
    for api in (VOLCANO, KOORDINATOR, COSCHEDULING):
        await _make(admin, _CRDS, a_definition(api, "PodGroup"))
        async with asyncio.timeout(WAIT_S):
            while (await admin.get(f"/apis/{api}/podgroups")).status != 200:
                await asyncio.sleep(LOOK_S)
    for document in yaml.safe_load_all(_COMPONENT.read_text()):
        if "subjects" in document:
            user = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": ACCOUNT}
            document["subjects"] = [user]
        await _make(admin, _RULES[document["kind"]], document)


async def _make(admin: Client, path: str, body: Mapping[str, object]) -> None:
    answer = await admin.post(path, dict(body))
    assert answer.status in {201, 409}, answer
