"""ValidatingAdmissionPolicies: conditions in CEL that a write must meet.

Not served: parameters (`paramKind` is refused), audit annotations, the cost budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from tessera_embedded.apiserver.admission import (
    ConditionFailed,
    concerns,
    conditions_hold,
    scope_of,
)
from tessera_embedded.apiserver.asks import NAMESPACES, Review
from tessera_embedded.apiserver.cel import BadExpression, CelError, evaluate, parse
from tessera_embedded.apiserver.errors import JsonObject, Told, forbidden
from tessera_embedded.apiserver.objects import Objects
from tessera_embedded.apiserver.resources import ADMISSION

POLICIES: Final = (ADMISSION, "validatingadmissionpolicies")
BINDINGS: Final = (ADMISSION, "validatingadmissionpolicybindings")
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413}


class _Denial(Struct, frozen=True):
    message: str
    reason: str = "Invalid"


class Policies:
    """The policies that are configured in a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def check(self, asked: Review) -> list[str]:
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
            for denial in self._denials(policy["spec"], asked):
                if "Deny" in actions:
                    raise _refusal(asked, who, denial)
                if "Warn" in actions:
                    warnings.append(f"Validation failed for {who}: {denial.message}")
        return warnings

    def _bound(self, asked: Review) -> Iterator[tuple[JsonObject, JsonObject]]:
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

    def _takes(self, asked: Review, constraints: Mapping[str, Any]) -> bool:
        rules = constraints.get("resourceRules") or ([] if "resourceRules" in constraints else ANY)
        left_out = constraints.get("excludeResourceRules") or ()
        return concerns(self._objects, asked, constraints, rules) and not (
            left_out and concerns(self._objects, asked, {}, left_out)
        )

    def _denials(self, spec: JsonObject, asked: Review) -> Iterator[_Denial]:
        ignores = spec.get("failurePolicy") == "Ignore"
        try:
            scope = self._scope(spec, asked)
            if not conditions_hold(spec.get("matchConditions", ()), scope):
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

    def _scope(self, spec: JsonObject, asked: Review) -> Mapping[str, Any]:
        namespace = self._objects.find(NAMESPACES, "", asked.target.namespace)
        scope = scope_of(asked) | {
            "namespaceObject": namespace.obj() if namespace is not None else None,
            "params": None,
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
    told = str(validation.get("message", "")).strip()
    return told or f"failed expression: {validation['expression'].strip()}"


def _refusal(asked: Review, who: str, denial: _Denial) -> Told:
    resource = asked.target.resource
    name = asked.target.name or ((asked.obj or {}).get("metadata") or {}).get("name", "")
    message = f"{who} denied request: {denial.message}"
    status = forbidden(resource.plural, resource.group, name, message).status()
    status["details"]["causes"] = [{"message": message}]
    return Told({**status, "reason": denial.reason, "code": _CODES.get(denial.reason, 422)})
