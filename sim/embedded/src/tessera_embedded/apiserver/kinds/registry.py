"""The rules of every built-in kind, and the small ones themselves."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cache
from typing import Final

import msgspec

from tessera_embedded.apiserver.errors import (
    Cause,
    JsonObject,
    duplicate,
    not_allowed,
    required,
    wrong,
)
from tessera_embedded.apiserver.kinds import admission, pods
from tessera_embedded.apiserver.kinds.fields import settle
from tessera_embedded.apiserver.kinds.pod_validation import amount_causes
from tessera_embedded.apiserver.kinds.rules import KindRules, take_all
from tessera_embedded.apiserver.objects.resources import (
    ADMISSION,
    EVENTS,
    EXTENSIONS,
    REGISTRATION,
    Resource,
    Shelf,
)
from tessera_embedded.apiserver.objects.selectors import object_problem

_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def _default_node(node: JsonObject) -> None:
    node.setdefault("spec", {})
    status = node.setdefault("status", {})
    if "allocatable" not in status and "capacity" in status:
        status["allocatable"] = dict(status["capacity"])


def _admit_node(node: JsonObject) -> None:
    taints = node["spec"].setdefault("taints", [])
    if _NOT_READY not in taints:
        taints.append(dict(_NOT_READY))


def _check_node(node: JsonObject) -> list[Cause]:
    status = node.get("status", {})
    causes = [
        cause
        for kind in ("capacity", "allocatable")
        for name, amount in status.get(kind, {}).items()
        for cause in amount_causes(f"status.{kind}.{name}", name, amount)
    ]
    seen = set()
    for index, taint in enumerate(node["spec"].get("taints", ())):
        which = (taint.get("key", ""), taint.get("effect", ""))
        if not all(which):
            field = "key" if not which[0] else "effect"
            causes.append(required(f"metadata.taints[{index}].{field}"))
        if which in seen:
            causes.append(duplicate(f"metadata.taints[{index}]", taint))
        seen.add(which)
    return causes


def _default_namespace(namespace: JsonObject) -> None:
    name = namespace["metadata"].get("name")
    if name:
        namespace["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    namespace.setdefault("status", {}).setdefault("phase", "Active")


def _create_namespace(namespace: JsonObject) -> None:
    namespace["status"] = {"phase": "Active"}


def _update_namespace(new: JsonObject, old: JsonObject) -> None:
    new["spec"], new["status"] = old["spec"], old["status"]


def _default_secret(secret: JsonObject) -> None:
    secret.setdefault("type", "Opaque")
    for key, text in (secret.pop("stringData", None) or {}).items():
        secret.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()


def _frozen_data(new: JsonObject, old: JsonObject) -> list[Cause]:
    if not old.get("immutable"):
        return []
    fields = ("data", "binaryData", "immutable")
    changed = [f for f in fields if new.get(f) != old.get(f)]
    return [not_allowed(f, "field is immutable when `immutable` is set") for f in changed]


def _secret_update(new: JsonObject, old: JsonObject) -> list[Cause]:
    kept = new["type"] == old["type"]
    same = [] if kept else [wrong("type", new["type"], "field is immutable")]
    return [*same, *_frozen_data(new, old)]


def _default_quota(quota: JsonObject) -> None:
    quota.setdefault("spec", {})
    quota.setdefault("status", {})


_QUOTA: Final = (
    "cpu", "memory", "ephemeral-storage", "requests.cpu", "requests.memory", "requests.storage",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
    "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps",
    "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
)  # fmt: skip


def _check_quota(quota: JsonObject) -> list[Cause]:
    causes: list[Cause] = []
    for name, amount in quota["spec"].get("hard", {}).items():
        field = f"spec.hard[{name}]"
        causes += amount_causes(field, name, amount)
        if "/" not in name and name not in _QUOTA:
            causes.append(wrong(field, name, "must be a standard resource for quota"))
    return causes


def _check_event(event: JsonObject) -> list[Cause]:
    about = event.get("involvedObject", {}).get("namespace", "")
    namespace = event["metadata"].get("namespace", "")
    if about == namespace or (not about and namespace == "default"):
        return []
    return [wrong("involvedObject.namespace", about, "does not match event.namespace")]


def _check_new_event(event: JsonObject) -> list[Cause]:
    """The newer group asks for more."""
    fields = {
        "eventTime": "eventTime",
        "reportingController": "reportingComponent",
        "reportingInstance": "reportingInstance",
        "action": "action",
        "reason": "reason",
    }
    causes = [required(field) for field, kept in fields.items() if not event.get(kept)]
    if event.get("type") not in ("Normal", "Warning"):
        causes.append(wrong("type", event.get("type", ""), "has invalid value"))
    return [*causes, *_check_event(event)]


def _empty_status(obj: JsonObject) -> None:
    obj["status"] = {}


def _check_lease(lease: JsonObject) -> list[Cause]:
    spec, causes = lease.get("spec", {}), []
    for name, least in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        number = spec.get(name, least)
        if number < least:
            why = "must be greater than 0" if least else "must be greater than or equal to 0"
            causes.append(wrong(f"spec.{name}", number, why))
    return causes


def _default_budget(budget: JsonObject) -> None:
    budget.setdefault("spec", {})


def _create_budget(budget: JsonObject) -> None:
    budget["status"] = {
        "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
    }  # fmt: skip


def _check_budget(budget: JsonObject) -> list[Cause]:
    selector = budget["spec"].get("selector")
    if why := object_problem(selector):
        return [wrong("spec.selector", selector, why)]
    if {"minAvailable", "maxUnavailable"} <= set(budget["spec"]):
        why = "minAvailable and maxUnavailable cannot be both set"
        return [wrong("spec", budget["spec"], why)]
    return []


_TABLE: Final[Mapping[Shelf, KindRules]] = {
    ("", "pods"): pods.RULES,
    ("", "nodes"): KindRules(_default_node, _admit_node, check=_check_node),
    ("", "namespaces"): KindRules(
        _default_namespace, create=_create_namespace, update=_update_namespace
    ),
    ("", "configmaps"): KindRules(update=take_all, check_update=_frozen_data),
    ("", "secrets"): KindRules(_default_secret, update=take_all, check_update=_secret_update),
    ("", "events"): KindRules(update=take_all, check=_check_event),
    (EVENTS, "events"): KindRules(update=take_all, check=_check_new_event),
    ("", "resourcequotas"): KindRules(_default_quota, create=_empty_status, check=_check_quota),
    ("", "serviceaccounts"): KindRules(update=take_all),
    ("", "services"): KindRules(),
    (REGISTRATION, "apiservices"): KindRules(),
    ("coordination.k8s.io", "leases"): KindRules(update=take_all, check=_check_lease),
    ("policy", "poddisruptionbudgets"): KindRules(
        _default_budget, create=_create_budget, check=_check_budget
    ),
    (ADMISSION, "mutatingwebhookconfigurations"): admission.MUTATING,
    (ADMISSION, "validatingwebhookconfigurations"): admission.VALIDATING,
    (ADMISSION, "validatingadmissionpolicies"): admission.POLICIES,
    (ADMISSION, "validatingadmissionpolicybindings"): admission.BINDINGS,
    (EXTENSIONS, "customresourcedefinitions"): admission.DEFINITIONS,
}


@cache
def _built_in(shelf: Shelf, kind: str, version: str) -> KindRules:
    def settled(obj: JsonObject) -> list[str]:
        return settle(obj, kind, version)

    return msgspec.structs.replace(_TABLE[shelf], settle=settled)


def rules_of(resource: Resource) -> KindRules:
    """The rules of a kind; a custom resource has those of its schema."""
    if resource.custom:
        return admission.custom(resource)
    return _built_in((resource.group, resource.plural), resource.kind, resource.version)
