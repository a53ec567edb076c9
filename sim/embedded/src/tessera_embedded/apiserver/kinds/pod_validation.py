"""What is wrong with a pod, and what of a pod may not change."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from tessera_embedded.apiserver.errors import (
    Cause,
    JsonObject,
    duplicate,
    not_allowed,
    required,
    unsupported,
    wrong,
)
from tessera_embedded.apiserver.objects.name_validation import label_problem, qualified_problem
from tessera_embedded.apiserver.objects.quantities import read

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage")
_POLICIES: Final = ("Always", "OnFailure", "Never")
_IMMUTABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions"
    " to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
    "was previously negative)"
)
_KINDS: Final = ("initContainers", "containers")


def check(pod: JsonObject) -> list[Cause]:
    """What is wrong with the spec of a pod."""
    spec = pod["spec"]
    causes = [] if spec.get("containers") else [required("spec.containers")]
    if spec["restartPolicy"] not in _POLICIES:
        causes.append(unsupported("spec.restartPolicy", spec["restartPolicy"], _POLICIES))
    seen: set[str] = set()
    for field in _KINDS:
        for index, container in enumerate(spec.get(field, ())):
            causes += _container(f"spec.{field}[{index}]", container, seen)
    return [*causes, *_tolerations(spec.get("tolerations", ()))]


def _container(path: str, container: JsonObject, seen: set[str]) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif problem := label_problem(name):
        yield wrong(f"{path}.name", name, problem)
    elif name in seen:
        yield duplicate(f"{path}.name", name)
    seen.add(name)
    if not container.get("image"):
        yield required(f"{path}.image")
    yield from _resources(f"{path}.resources", container.get("resources", {}))
    for index, variable in enumerate(container.get("env", ())):
        if not variable.get("name"):
            yield required(f"{path}.env[{index}].name")


def _resources(path: str, resources: JsonObject) -> Iterator[Cause]:
    limits, requests = resources.get("limits", {}), resources.get("requests", {})
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            field = f"{path}.{kind}[{name}]"
            if why := _unknown(name):
                yield wrong(field, name, why)
            yield from amount_causes(field, name, amount)
    for name, amount in requests.items():
        yield from _against_limit(path, name, amount, limits)


def amount_causes(field: str, name: str, amount: str) -> Iterator[Cause]:
    """What is wrong with one amount of a resource: its name, its sign, or its fraction."""
    if problem := qualified_problem(name):
        yield wrong(field, name, problem)
    if read(amount)[0] < 0:
        yield wrong(field, amount, "must be greater than or equal to 0")
    elif is_extended(name) and read(amount)[0] % 1:
        yield wrong(field, amount, "must be an integer")


def is_extended(name: str) -> bool:
    """True for names such as `example.com/gpu`: neither Kubernetes' own nor without a domain."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def _unknown(name: str) -> str | None:
    if "/" in name:
        good = is_extended(name) or "kubernetes.io/" in name
        return None if good else "doesn't follow extended resource name standard"
    if name in _STANDARD or re.match(r"hugepages-", name):
        return None
    return "must be a standard resource type or fully qualified"


def _against_limit(path: str, name: str, amount: str, limits: JsonObject) -> Iterator[Cause]:
    overcommits = not is_extended(name) and not name.startswith("hugepages-")
    if name not in limits:
        if not overcommits:
            why = "Limit must be set for non overcommitable resources"
            yield required(f"{path}.limits", why)
        return
    asked, most = read(amount)[0], read(limits[name])[0]
    if asked != most and not overcommits:
        why = f"must be equal to {name} limit of {limits[name]}"
        yield wrong(f"{path}.requests", amount, why)
    elif asked > most:
        why = f"must be less than or equal to {name} limit of {limits[name]}"
        yield wrong(f"{path}.requests", amount, why)


_OPERATORS: Final = ("Equal", "Exists")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _tolerations(tolerations: Sequence[JsonObject]) -> Iterator[Cause]:
    for index, toleration in enumerate(tolerations):
        path = f"spec.tolerations[{index}]"
        operator = toleration.get("operator") or "Equal"
        if operator not in _OPERATORS:
            yield unsupported(f"{path}.operator", operator, _OPERATORS)
        if not toleration.get("key") and operator != "Exists":
            why = "operator must be Exists when `key` is empty, which means \"match all values "\
                  "and all keys\""  # fmt: skip
            yield wrong(f"{path}.operator", operator, why)
        effect = toleration.get("effect", "")
        if effect and effect not in _EFFECTS:
            yield unsupported(f"{path}.effect", effect, _EFFECTS)


def check_update(new: JsonObject, old: JsonObject) -> list[Cause]:
    """What of a pod's spec may not change."""
    before, after = old["spec"], new["spec"]
    if before == after:
        return []
    causes = []
    for field in _KINDS:
        if len(before.get(field, ())) != len(after.get(field, ())):
            return [not_allowed(f"spec.{field}", "pod updates may not add or remove containers")]
    if any(t not in after.get("tolerations", ()) for t in before.get("tolerations", ())):
        why = "existing toleration can not be modified except its tolerationSeconds"
        causes.append(not_allowed("spec.tolerations", why))
    if any(g not in before.get("schedulingGates", ()) for g in after.get("schedulingGates", ())):
        causes.append(not_allowed("spec.schedulingGates", "only deletion is allowed"))
    if _fixed(after, before) != before:
        changed = sorted(k for k in {*before, *after} if before.get(k) != after.get(k))
        causes.append(not_allowed("spec", f"{_IMMUTABLE}\nchanged: {', '.join(changed)}"))
    return causes


def _fixed(spec: JsonObject, before: JsonObject) -> JsonObject:
    """The new spec with everything that may change put back to what it was."""
    fixed: dict[str, Any] = copy.deepcopy(spec)
    for field in _KINDS:
        for container, was in zip(fixed.get(field, ()), before.get(field, ()), strict=False):
            container["image"] = was.get("image")
    free = ["activeDeadlineSeconds", "tolerations", "schedulingGates"]
    if before["terminationGracePeriodSeconds"] < 0 and spec["terminationGracePeriodSeconds"] == 1:
        free.append("terminationGracePeriodSeconds")
    if before.get("schedulingGates"):
        free += ["nodeSelector", "affinity"]
    for field in free:
        fixed.pop(field, None)
        if field in before:
            fixed[field] = before[field]
    return fixed
