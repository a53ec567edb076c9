"""Which webhooks and policies a write concerns, and how they see it: pure, nobody is called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from tessera_embedded.apiserver.access import user_info
from tessera_embedded.apiserver.admission.cel import BadExpression, CelError, evaluate, parse
from tessera_embedded.apiserver.admission.requests import NAMESPACES, AdmissionQuery
from tessera_embedded.apiserver.errors import JsonObject
from tessera_embedded.apiserver.objects import selectors
from tessera_embedded.apiserver.objects.object_store import ObjectStore
from tessera_embedded.apiserver.objects.resources import ADMISSION

CONFIGURATIONS: Final = {
    "mutate": (ADMISSION, "mutatingwebhookconfigurations"),
    "validate": (ADMISSION, "validatingwebhookconfigurations"),
}


class Hook(Struct, frozen=True):
    """One webhook of a configuration."""

    configuration: str
    webhook: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The webhook's own name."""
        return str(self.webhook["name"])

    @property
    def ignores_failure(self) -> bool:
        """What is wrong with the webhook is not held against the write."""
        return bool(self.webhook["failurePolicy"] == "Ignore")

    @property
    def again(self) -> bool:
        """It wants to be asked again where others changed the object after it."""
        return self.webhook.get("reinvocationPolicy") == "IfNeeded"


def hooks(objects: ObjectStore, asked: AdmissionQuery) -> Iterator[Hook]:
    """The webhooks whose rules and selectors take this write, in the order of their calls.

    Each is tried when its turn comes, so one sees what those before it made of the object.
    """
    if asked.target.resource.group == ADMISSION:
        return
    for record in objects.records(CONFIGURATIONS[asked.stage]):
        for webhook in record.obj().get("webhooks", ()):
            if concerns(objects, asked, webhook, webhook.get("rules", ())):
                yield Hook(record.name, webhook)


def concerns(
    objects: ObjectStore,
    asked: AdmissionQuery,
    constraints: Mapping[str, Any],
    rules: Sequence[JsonObject],
) -> bool:
    """True where a rule and both selectors take this write."""
    return (
        any(_rule_takes(rule, asked) for rule in rules)
        and _namespace_taken(objects, asked, constraints.get("namespaceSelector"))
        and _object_taken(asked, constraints.get("objectSelector"))
    )


def _rule_takes(rule: JsonObject, asked: AdmissionQuery) -> bool:
    resource = asked.target.resource
    scope = rule.get("scope", "*")
    return (
        _has(rule.get("operations", ()), asked.operation)
        and _has(rule.get("apiGroups", ()), resource.group)
        and _has(rule.get("apiVersions", ()), resource.version)
        and any(_names(pattern, asked) for pattern in rule.get("resources", ()))
        and scope in ("*", "Namespaced" if resource.namespaced else "Cluster")
        and (not rule.get("resourceNames") or asked.target.name in rule["resourceNames"])
    )


def _has(known: Sequence[str], wanted: str) -> bool:
    return wanted in known or "*" in known


def _names(pattern: str, asked: AdmissionQuery) -> bool:
    plural, _, subresource = pattern.partition("/")
    if plural not in ("*", asked.target.resource.plural):
        return False
    return subresource in ("*", asked.target.subresource)


def _namespace_taken(
    objects: ObjectStore, asked: AdmissionQuery, selector: JsonObject | None
) -> bool:
    if not selector or not (asked.target.resource.namespaced or _is_namespace(asked)):
        return True
    return selectors.matches(selectors.from_object(selector), _namespace_labels(objects, asked))


def _is_namespace(asked: AdmissionQuery) -> bool:
    return asked.target.resource.shelf == NAMESPACES


def _namespace_labels(objects: ObjectStore, asked: AdmissionQuery) -> Mapping[str, str]:
    if _is_namespace(asked):
        return _labels(asked.obj if asked.obj is not None else asked.old)
    found = objects.find(NAMESPACES, "", asked.target.namespace)
    return found.labels if found is not None else {}


def _object_taken(asked: AdmissionQuery, selector: JsonObject | None) -> bool:
    if not selector:
        return True
    wanted = selectors.from_object(selector)
    return any(
        selectors.matches(wanted, _labels(obj)) for obj in (asked.obj, asked.old) if obj is not None
    )


def _labels(obj: JsonObject | None) -> Mapping[str, str]:
    labels: Mapping[str, str] = ((obj or {}).get("metadata") or {}).get("labels") or {}
    return labels


class ConditionFailed(Exception):
    """A match condition has no value for this write; the message says which."""


def conditions_hold(conditions: Sequence[JsonObject], scope: Mapping[str, Any]) -> bool:
    """True where every condition holds; one that is false outweighs one that fails.

    Raises ConditionFailed.
    """
    failed: ConditionFailed | None = None
    for condition in conditions:
        try:
            if evaluate(parse(condition["expression"]), scope) is not True:
                return False
        except (CelError, BadExpression) as e:
            text = condition["expression"]
            failed = failed or ConditionFailed(f"expression '{text}' resulted in error: {e}")
    if failed is not None:
        raise failed
    return True


def scope_of(asked: AdmissionQuery) -> dict[str, Any]:
    """The variables that conditions speak of."""
    return {
        "object": whole(asked, asked.obj),
        "oldObject": whole(asked, asked.old),
        "request": request_of(asked, ""),
    }


def whole(asked: AdmissionQuery, obj: JsonObject | None) -> JsonObject | None:
    """The object with its kind and apiVersion."""
    if obj is None:
        return None
    group, version, kind = asked.kind
    return {"kind": kind, "apiVersion": f"{group}/{version}" if group else version, **obj}


def request_of(asked: AdmissionQuery, uid: str) -> JsonObject:
    """The `request` of an AdmissionReview, without the objects."""
    target, resource = asked.target, asked.target.resource
    group, version, kind = asked.kind
    about: JsonObject = {"group": group, "version": version, "kind": kind}
    where: JsonObject = {
        "group": resource.group, "version": resource.version, "resource": resource.plural,
    }  # fmt: skip
    request: JsonObject = {
        "uid": uid,
        "kind": about,
        "resource": where,
        "requestKind": about,
        "requestResource": where,
        "name": target.name,
        "namespace": target.namespace,
        "operation": asked.operation,
        "userInfo": user_info(asked.user),
        "dryRun": asked.dry_run,
        "options": _options(asked),
    }
    if target.subresource:
        request["subResource"] = request["requestSubResource"] = target.subresource
    for optional in ("name", "namespace"):
        if not request[optional]:
            del request[optional]
    return request


def _options(asked: AdmissionQuery) -> JsonObject:
    kind = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}
    return {"kind": kind[asked.operation], "apiVersion": "meta.k8s.io/v1", **asked.options}


def review_body(asked: AdmissionQuery, uid: str) -> JsonObject:
    """The AdmissionReview that a webhook is sent."""
    request = request_of(asked, uid)
    request["object"] = whole(asked, asked.obj)
    request["oldObject"] = whole(asked, asked.old)
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
