"""Kinds that change what the server itself does: webhooks, admission policies, definitions.

Custom resources follow the schema of their definition.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from tessera_embedded.apiserver.admission.cel import ADMISSION_NAMES, problem
from tessera_embedded.apiserver.errors import (
    Cause,
    JsonObject,
    duplicate,
    not_allowed,
    required,
    unsupported,
    wrong,
)
from tessera_embedded.apiserver.kinds.rules import KindRules, take_all
from tessera_embedded.apiserver.kinds.schemas import SchemaRules, schema_problems
from tessera_embedded.apiserver.objects.name_validation import label_problem
from tessera_embedded.apiserver.objects.resources import Resource
from tessera_embedded.apiserver.objects.selectors import object_problem

_WEBHOOK: Final = {
    "failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10,
}  # fmt: skip
_FAILURES: Final = ("Ignore", "Fail")
_NOT_FOUND: Final = ("Deny", "Allow")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")


def _default_webhooks(configuration: JsonObject) -> None:
    for webhook in configuration.get("webhooks", ()):
        for name, value in _WEBHOOK.items():
            webhook.setdefault(name, value)
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        for rule in webhook.get("rules", ()):
            rule.setdefault("scope", "*")


def _default_mutating(configuration: JsonObject) -> None:
    _default_webhooks(configuration)
    for webhook in configuration.get("webhooks", ()):
        webhook.setdefault("reinvocationPolicy", "Never")


def _check_webhooks(configuration: JsonObject) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, webhook in enumerate(configuration.get("webhooks", ())):
        path = f"webhooks[{index}]"
        if webhook.get("name", "") in seen:
            causes.append(duplicate(f"{path}.name", webhook.get("name")))
        seen.add(webhook.get("name", ""))
        causes += _check_webhook(path, webhook)
    return causes


def _check_webhook(path: str, webhook: JsonObject) -> list[Cause]:
    name = webhook.get("name", "")
    causes = [required(f"{path}.{f}") for f in ("name", "admissionReviewVersions", "sideEffects")
              if not webhook.get(f)]  # fmt: skip
    if name and name.count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        causes.append(wrong(f"{path}.name", name, why))
    versions = webhook.get("admissionReviewVersions")
    if versions and "v1" not in versions:
        why = "must include at least one of v1, the only version that this server speaks"
        causes.append(wrong(f"{path}.admissionReviewVersions", versions, why))
    if webhook["failurePolicy"] not in _FAILURES:
        causes.append(unsupported(f"{path}.failurePolicy", webhook["failurePolicy"], _FAILURES))
    if webhook.get("sideEffects") not in (None, *_SIDE_EFFECTS):
        causes.append(unsupported(f"{path}.sideEffects", webhook["sideEffects"], _SIDE_EFFECTS))
    if not 1 <= webhook["timeoutSeconds"] <= 30:
        why = "the timeout value must be between 1 and 30 seconds"
        causes.append(wrong(f"{path}.timeoutSeconds", webhook["timeoutSeconds"], why))
    return [
        *causes,
        *_check_selectors(path, webhook),
        *_check_client(f"{path}.clientConfig", webhook.get("clientConfig", {})),
        *_check_conditions(f"{path}.matchConditions", webhook.get("matchConditions", [])),
    ]


def _check_selectors(path: str, holder: JsonObject) -> list[Cause]:
    return [
        wrong(f"{path}.{field}", holder[field], why)
        for field in ("namespaceSelector", "objectSelector")
        if field in holder and (why := object_problem(holder[field]))
    ]


def _check_client(path: str, client: JsonObject) -> list[Cause]:
    if "url" not in client:
        return [required(path, "exactly one of url or service is required; this server calls urls")]
    if urlsplit(client["url"]).scheme != "https":
        why = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        return [wrong(f"{path}.url", client["url"], why)]
    return []


def _check_conditions(
    path: str, conditions: list[JsonObject], names: frozenset[str] = ADMISSION_NAMES
) -> list[Cause]:
    causes = []
    for index, condition in enumerate(conditions):
        if not condition.get("name"):
            causes.append(required(f"{path}[{index}].name"))
        if why := problem(condition.get("expression", ""), names):
            field = f"{path}[{index}].expression"
            causes.append(wrong(field, condition.get("expression", ""), why))
    return causes


def _default_policy(policy: JsonObject) -> None:
    spec = policy.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    constraints = spec.get("matchConstraints")
    if constraints is None:
        return
    constraints.setdefault("namespaceSelector", {})
    constraints.setdefault("objectSelector", {})
    constraints.setdefault("matchPolicy", "Equivalent")
    for rule in constraints.get("resourceRules", ()):
        rule.setdefault("scope", "*")


_POLICY_NAMES: Final = ADMISSION_NAMES | {"authorizer", "namespaceObject", "params", "variables"}


def _check_policy(policy: JsonObject) -> list[Cause]:
    spec = policy["spec"]
    names = ADMISSION_NAMES | ({"params"} if spec.get("paramKind") else set())
    causes = _check_conditions("spec.matchConditions", spec.get("matchConditions", []), names)
    causes += _check_selectors("spec.matchConstraints", spec.get("matchConstraints", {}))
    if "matchConstraints" not in spec:
        causes.append(required("spec.matchConstraints"))
    causes += [
        required(f"spec.paramKind.{field}")
        for field in ("apiVersion", "kind")
        if not (spec.get("paramKind") or {field: True}).get(field)
    ]
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        why = "validations or auditAnnotations must be non-empty"
        causes.append(required("spec.validations", why))
    for kind in ("validations", "variables"):
        for index, item in enumerate(spec.get(kind, ())):
            for part in ("expression", "messageExpression"):
                why_not = problem(item[part], _POLICY_NAMES) if part in item else None
                if why_not:
                    causes.append(wrong(f"spec.{kind}[{index}].{part}", item[part], why_not))
    return causes


def _check_binding(binding: JsonObject) -> list[Cause]:
    spec = binding.get("spec", {})
    needed = ("policyName", "validationActions")
    causes = [required(f"spec.{field}") for field in needed if not spec.get(field)]
    causes += _check_parameter(spec["paramRef"]) if "paramRef" in spec else []
    return [*causes, *_check_selectors("spec.matchResources", spec.get("matchResources", {}))]


def _check_parameter(reference: JsonObject) -> list[Cause]:
    causes = []
    if "selector" in reference:
        why = "this server finds a parameter by its name alone"
        causes.append(not_allowed("spec.paramRef.selector", why))
    elif not reference.get("name"):
        causes.append(required("spec.paramRef.name"))
    action = reference.get("parameterNotFoundAction")
    if action is None:
        causes.append(required("spec.paramRef.parameterNotFoundAction"))
    elif action not in _NOT_FOUND:
        field = "spec.paramRef.parameterNotFoundAction"
        causes.append(unsupported(field, action, _NOT_FOUND))
    return causes


def _default_definition(definition: JsonObject) -> None:
    spec = definition.setdefault("spec", {})
    spec.setdefault("conversion", {"strategy": "None"})
    names = spec.setdefault("names", {})
    if kind := names.get("kind"):
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")


def _create_definition(definition: JsonObject) -> None:
    definition["status"] = {
        "acceptedNames": {"kind": "", "plural": ""},
        "storedVersions": [v.get("name", "") for v in _versions(definition) if v.get("storage")],
    }


def _versions(definition: JsonObject) -> list[JsonObject]:
    versions: list[JsonObject] = definition["spec"].get("versions", [])
    return versions


def _check_definition(definition: JsonObject) -> list[Cause]:
    spec = definition["spec"]
    causes = [required(f"spec.{f}") for f in ("group", "scope", "versions") if not spec.get(f)]
    names = spec["names"]
    causes += [required(f"spec.names.{f}") for f in ("plural", "kind") if not names.get(f)]
    wanted = f"{names.get('plural', '')}.{spec.get('group', '')}"
    name = definition["metadata"].get("name", "")
    if name != wanted:
        causes.append(wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if spec.get("scope") not in (None, "Namespaced", "Cluster"):
        causes.append(unsupported("spec.scope", spec["scope"], ("Cluster", "Namespaced")))
    if sum(bool(v.get("storage")) for v in _versions(definition)) != 1:
        why = "must have exactly one version marked as storage version"
        causes.append(wrong("spec.versions", wanted, why))
    for index, version in enumerate(_versions(definition)):
        causes += _check_version(f"spec.versions[{index}]", version)
    return causes


def _check_version(path: str, version: JsonObject) -> list[Cause]:
    name, schema = version.get("name", ""), version.get("schema", {}).get("openAPIV3Schema")
    causes = []
    if why := label_problem(name):
        causes.append(wrong(f"{path}.name", name, why))
    field = f"{path}.schema.openAPIV3Schema"
    if not schema:
        causes.append(required(field, "schemas are required"))
    elif why := next(schema_problems(schema), None):
        causes.append(wrong(field, "", why))
    return causes


def _changed_definition(new: JsonObject, old: JsonObject) -> list[Cause]:
    fixed = {
        "spec.group": (new["spec"].get("group"), old["spec"]["group"]),
        "spec.names.plural": (new["spec"]["names"].get("plural"), old["spec"]["names"]["plural"]),
        "spec.scope": (new["spec"].get("scope"), old["spec"]["scope"]),
    }
    return [not_allowed(f, "field is immutable") for f, (now, was) in fixed.items() if now != was]


def served(definition: JsonObject) -> list[Resource]:
    """The kinds that a CustomResourceDefinition adds, one for each served version."""
    spec, names = definition["spec"], definition["spec"]["names"]
    return [
        Resource(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            short=tuple(names.get("shortNames", ())),
            status="status" in version.get("subresources", {}),
            generation=True,
            unconditional=False,
            schema=version["schema"]["openAPIV3Schema"],
            custom=True,
        )
        for version in _versions(definition)
        if version.get("served")
    ]


def custom(resource: Resource) -> KindRules:
    """The rules of a custom resource: its schema's, and its status subresource."""
    schema = SchemaRules(resource.schema or {})
    return KindRules(
        settle=schema.prune,
        default=schema.default,
        create=_drop_status if resource.status else _keep,
        update=_keep_old_status if resource.status else take_all,
        status=_only_status,
        check=schema.check,
    )


def _keep(_obj: JsonObject) -> None:
    """Status is a field like any other."""


def _drop_status(obj: JsonObject) -> None:
    obj.pop("status", None)


def _keep_old_status(new: JsonObject, old: JsonObject) -> None:
    new.pop("status", None)
    if "status" in old:
        new["status"] = old["status"]


def _only_status(new: JsonObject, old: JsonObject) -> None:
    status = new.get("status")
    new.clear()
    new.update({name: value for name, value in old.items() if name != "status"})
    if status is not None:
        new["status"] = status


MUTATING: Final = KindRules(_default_mutating, update=take_all, check=_check_webhooks)
VALIDATING: Final = KindRules(_default_webhooks, update=take_all, check=_check_webhooks)
POLICIES: Final = KindRules(_default_policy, check=_check_policy)
BINDINGS: Final = KindRules(update=take_all, check=_check_binding)
DEFINITIONS: Final = KindRules(
    _default_definition, create=_create_definition, check=_check_definition,
    check_update=_changed_definition,
)  # fmt: skip
