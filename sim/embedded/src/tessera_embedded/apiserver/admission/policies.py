"""ValidatingAdmissionPolicies: conditions in CEL that a write must meet.

A parameter is one object, found by its name. One that changes counts at once; a real API server
gets it by a watch. Not served: parameters by selector (refused), audit annotations, the cost
budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from tessera_embedded.apiserver.access import Access
from tessera_embedded.apiserver.admission.authorizer import Authorizer
from tessera_embedded.apiserver.admission.cel import BadExpression, CelError, evaluate, parse
from tessera_embedded.apiserver.admission.matching import (
    ConditionFailed,
    concerns,
    conditions_hold,
    scope_of,
)
from tessera_embedded.apiserver.admission.requests import NAMESPACES, AdmissionQuery
from tessera_embedded.apiserver.errors import JsonObject, WebhookDenied, forbidden
from tessera_embedded.apiserver.objects.object_store import ObjectStore
from tessera_embedded.apiserver.objects.resources import ADMISSION, KindCatalogue

POLICIES: Final = (ADMISSION, "validatingadmissionpolicies")
BINDINGS: Final = (ADMISSION, "validatingadmissionpolicybindings")
_LETS_PASS: Final[JsonObject] = {}
"""In the place of a parameter that there is not, where the binding allows that."""
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}


class _Denial(Struct, frozen=True):
    message: str
    reason: str = "Invalid"


class Policies:
    """The policies that are configured in a store."""

    def __init__(self, objects: ObjectStore, catalogue: KindCatalogue, access: Access) -> None:
        self._objects = objects
        self._catalogue = catalogue
        self._access = access

    def check(self, asked: AdmissionQuery) -> list[str]:
        """Warnings about the write. Raises ApiError where a policy denies it."""
        if asked.target.resource.group == ADMISSION:
            return []
        warnings: list[str] = []
        for policy, binding in self._bound(asked):
            actions = binding["spec"].get("validationActions", ())
            who = (
                f"ValidatingAdmissionPolicy '{policy['metadata']['name']}' with binding "
                f"'{binding['metadata']['name']}'"
            )
            for denial in self._denials(policy["spec"], binding["spec"].get("paramRef"), asked):
                if "Deny" in actions:
                    raise _refusal(asked, who, denial)
                if "Warn" in actions:
                    warnings.append(f"Validation failed for {who}: {denial.message}")
        return warnings

    def _bound(self, asked: AdmissionQuery) -> Iterator[tuple[JsonObject, JsonObject]]:
        """The policies that concern a write, each with a binding that does."""
        for record in self._objects.records(POLICIES):
            policy = record.obj()
            constraints = policy["spec"].get("matchConstraints", {})
            if not self._takes(asked, constraints):
                continue
            for bound in self._objects.records(BINDINGS):
                binding = bound.obj()
                resources = binding["spec"].get("matchResources") or {}
                same = binding["spec"].get("policyName") == record.name
                if same and self._takes(asked, resources):
                    yield policy, binding

    def _takes(self, asked: AdmissionQuery, constraints: Mapping[str, Any]) -> bool:
        rules = constraints.get("resourceRules") or ([] if "resourceRules" in constraints else ANY)
        left_out = constraints.get("excludeResourceRules") or ()
        return concerns(self._objects, asked, constraints, rules) and not (
            left_out and concerns(self._objects, asked, {}, left_out)
        )

    def _denials(
        self, spec: JsonObject, reference: JsonObject | None, asked: AdmissionQuery
    ) -> Iterator[_Denial]:
        ignores = spec.get("failurePolicy") == "Ignore"
        try:
            parameter = self._parameter(spec.get("paramKind"), reference, asked)
            scope = self._scope(spec, parameter, asked)
            if parameter is _LETS_PASS or not conditions_hold(
                spec.get("matchConditions", ()), scope
            ):
                return
        except (ConditionFailed, CelError) as e:
            if not ignores:
                yield _Denial(str(e))
            return
        for validation in spec.get("validations", ()):
            try:
                if evaluate(parse(validation["expression"]), scope) is not True:
                    yield _Denial(_message(validation, scope), validation.get("reason", "Invalid"))
            except (CelError, BadExpression) as e:
                if not ignores:
                    text = validation["expression"]
                    yield _Denial(f"expression '{text}' resulted in error: {e}")

    def _parameter(
        self, kind: JsonObject | None, reference: JsonObject | None, asked: AdmissionQuery
    ) -> JsonObject | None:
        """What the policy knows as `params`. Raises ConditionFailed where the write may not pass
        without one."""
        if kind is None or reference is None:
            return None
        resource = next(
            (
                r
                for r in self._catalogue
                if (r.api_version, r.kind) == (kind["apiVersion"], kind["kind"])
            ),
            None,
        )
        if resource is None:
            raise ConditionFailed(
                f"paramKind kind `{kind['apiVersion']}, {kind['kind']}` not known"
            )
        namespace = reference.get("namespace") or asked.target.namespace
        found = self._objects.find(
            resource.shelf, namespace if resource.namespaced else "", reference["name"]
        )
        if found is not None:
            return {"kind": resource.kind, "apiVersion": resource.api_version, **found.obj()}
        if reference["parameterNotFoundAction"] == "Deny":
            raise ConditionFailed(
                "failed to configure binding: no params found for policy binding with `Deny` "
                "parameterNotFoundAction"
            )
        return _LETS_PASS

    def _scope(
        self, spec: JsonObject, parameter: JsonObject | None, asked: AdmissionQuery
    ) -> Mapping[str, Any]:
        namespace = self._objects.find(NAMESPACES, "", asked.target.namespace)
        scope = scope_of(asked) | {
            "namespaceObject": namespace.obj() if namespace is not None else None,
            "params": parameter,
            "authorizer": Authorizer(self._access, asked.user),
        }
        return {**scope, "variables": _Variables(spec.get("variables", ()), scope)}


ANY: Final[list[JsonObject]] = [
    {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]}
]


class _Variables(Mapping[str, Any]):
    """`variables.name`, evaluated when it is asked for; later ones may use earlier ones."""

    def __init__(self, spelled: list[JsonObject], scope: Mapping[str, Any]) -> None:
        self._spelled = {v["name"]: v["expression"] for v in spelled}
        self._scope = {**scope, "variables": self}
        self._known: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._known:
            self._known[name] = evaluate(parse(self._spelled[name]), self._scope)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._spelled)

    def __len__(self) -> int:
        return len(self._spelled)


def _message(validation: JsonObject, scope: Mapping[str, Any]) -> str:
    expression = validation.get("messageExpression", "")
    if expression:
        try:
            message = evaluate(parse(expression), scope)
        except (CelError, BadExpression):
            message = None
        if isinstance(message, str) and message.strip() and "\n" not in message.strip():
            return message.strip()
    message = str(validation.get("message", "")).strip()
    return message or f"failed expression: {validation['expression'].strip()}"


def _refusal(asked: AdmissionQuery, who: str, denial: _Denial) -> WebhookDenied:
    resource = asked.target.resource
    name = asked.target.name or ((asked.obj or {}).get("metadata") or {}).get("name", "")
    message = f"{who} denied request: {denial.message}"
    status = forbidden(resource.plural, resource.group, name, message).status()
    status["details"]["causes"] = [{"message": message}]
    return WebhookDenied(
        {**status, "reason": denial.reason, "code": _CODES.get(denial.reason, 422)}
    )
