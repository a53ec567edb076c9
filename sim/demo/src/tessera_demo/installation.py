"""What an installation applies in addition to the services: the definitions of Tessera's own
objects and the policies, as `deploy/kustomize` has them. The components `gangs`, `preemption` and
`vendor-plugins` are part of it: gangs start whole, queues take back what others borrow, and on some
nodes the vendor's own plugin gives the cards, and writes on the pod that it did."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tessera_demo.api_objects import insist
from tessera_demo.scenario import scene_text
from tessera_runtime.kube import paths
from tessera_runtime.kube.api import Kube

BASE: Final = Path(__file__).parents[4] / "deploy" / "kustomize" / "base"
_ADMISSION: Final = "admissionregistration.k8s.io"
_PLURAL: Final = "validatingadmissionpolicies"
_POLICIES: Final = {
    "ValidatingAdmissionPolicy": _PLURAL,
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
_RESULTS: Final = "tessera-results"
"""The policy of the keys that dialects' results have."""
_DEFINITIONS: Final = paths.in_group("apiextensions.k8s.io", "v1", "customresourcedefinitions")


async def install_definitions(kube: Kube) -> None:
    """Create every definition, and those of Volcano's PodGroups and Queues. Raises ApiRefused."""
    volcano = yaml.safe_load_all(scene_text("volcano.yaml"))
    for definition in (*await asyncio.to_thread(_documents, "crds"), *volcano):
        await insist(kube, _DEFINITIONS, definition)


async def install_policies(kube: Kube) -> None:
    """Create every policy with its binding. Raises ApiRefused."""
    for document in await asyncio.to_thread(_documents, "policies"):
        plural = _POLICIES.get(document["kind"], "")
        if not plural:  # a role: accounts have their rules already
            continue
        if plural == _PLURAL and document["metadata"]["name"] == _RESULTS:
            document = await asyncio.to_thread(_with_plugins, document)
        await insist(kube, paths.in_group(_ADMISSION, "v1", plural), document)


def _with_plugins(policy: Mapping[str, Any]) -> Mapping[str, Any]:
    """The policy as the component patches it: one more account writes result keys."""
    text = (BASE.parent / "components/vendor-plugins/policies.yaml").read_text(encoding="utf-8")
    (patch,) = yaml.safe_load(text)
    spec = policy["spec"]
    first, *others = spec["variables"]
    variables = [{**first, "expression": patch["value"]}, *others]
    return {**policy, "spec": {**spec, "variables": variables}}


def _documents(folder: str) -> list[Mapping[str, Any]]:
    return [
        document
        for file in sorted((BASE / folder).glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    ]
