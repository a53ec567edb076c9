"""`authorizer` in a ValidatingAdmissionPolicy: a write depends on what else its author may do."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.contract.client import Json
from tests.contract.cluster import Cluster, OpenCluster

GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
KEY: Final = "a.dev/resize"
SEEN_S: Final = 60.0
MAY_RESIZE: Final = (
    'authorizer.group("").resource("pods").subresource("resize")'
    '.namespace(object.metadata.namespace).name(object.metadata.name).check("update").allowed()'
)


async def guarded(cluster: Cluster) -> None:
    """The annotation is for users who may update `pods/resize`."""
    rule: Json = {
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"],
    }  # fmt: skip
    here = {"matchLabels": {"kubernetes.io/metadata.name": cluster.own}}
    asks = f'has(object.metadata.annotations) && "{KEY}" in object.metadata.annotations'
    policy: Json = {
        "metadata": {"name": cluster.own},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
            "matchConditions": [{"name": "it-asks", "expression": asks}],
            "validations": [
                {"expression": MAY_RESIZE, "message": "not for you", "reason": "Forbidden"}
            ],
        },
    }
    bound: Json = {
        "metadata": {"name": cluster.own},
        "spec": {"policyName": cluster.own, "validationActions": ["Deny"]},
    }
    await cluster.make(f"{GROUP}/validatingadmissionpolicies", policy)
    await cluster.make(f"{GROUP}/validatingadmissionpolicybindings", bound)


def a_resize(text: str) -> Json:
    return {"metadata": {"annotations": {KEY: text}}}


async def test_the_roles_of_the_author_decide(open_cluster: OpenCluster) -> None:
    async with open_cluster() as cluster:
        await cluster.pod("p")
        await guarded(cluster)
        path, editor = f"{cluster.pods}/p", cluster.user("editor")
        async with asyncio.timeout(SEEN_S):
            while (answer := await editor.patch(path, a_resize("1"), dryRun="All")).status == 200:
                await asyncio.sleep(0.1)
        refusal = answer.refused(403, "Forbidden")
        plain = await editor.patch(path, {"metadata": {"labels": {"a": "b"}}})
        resized = await cluster.user("resizer").patch(path, a_resize("2"))
        admin = await cluster.admin.patch(path, a_resize("3"))
    assert refusal.endswith("denied request: not for you")
    assert plain.status == 200
    assert resized.done["metadata"]["annotations"] == {KEY: "2"}
    assert admin.done["metadata"]["annotations"] == {KEY: "3"}
