"""What can be done to a pod in addition to the common verbs: bind it, evict it.

A Binding is one write: node, annotations and the PodScheduled condition appear together, or the
answer is 409 and nothing has changed.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec

from tessera_embedded.apiserver.admission.requests import (
    AdmissionQuery,
    Steps,
    WriteRequest,
    precondition_failed,
)
from tessera_embedded.apiserver.errors import (
    BadRequest,
    JsonObject,
    TooManyRequests,
    Unworded,
    conflict,
    required,
    unsupported,
)
from tessera_embedded.apiserver.http_types import RequestTarget, success
from tessera_embedded.apiserver.kinds.fields import settle
from tessera_embedded.apiserver.kinds.pods import set_condition
from tessera_embedded.apiserver.objects import selectors
from tessera_embedded.apiserver.objects.metadata import json_object, shaped
from tessera_embedded.apiserver.objects.object_store import StoredObject
from tessera_embedded.apiserver.verbs.delete import PODS, delete_now
from tessera_embedded.apiserver.verbs.write import Writer

BUDGETS: Final = ("policy", "poddisruptionbudgets")
_EVICTED: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
_DONE: Final = ("Succeeded", "Failed")


def posted(body: bytes, kind: str, target: RequestTarget) -> JsonObject:
    """The object posted to a subresource, its name and namespace filled in. Raises BadRequest."""
    obj = json_object(body)
    if obj.pop("kind", kind) != kind:
        raise BadRequest(f"the body is not a {kind} object")
    obj.pop("apiVersion", None)
    obj = shaped(obj)
    settle(obj, kind, "v1")
    metadata = obj["metadata"]
    if metadata.setdefault("namespace", target.namespace) != target.namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent "
                         "on the request")  # fmt: skip
    if metadata.setdefault("name", target.name) != target.name:
        raise BadRequest(f"name in URL does not match name in {kind} object")
    return obj


def bind(writer: Writer, ask: WriteRequest, body: bytes) -> Steps:
    """Place a pod on a node and give it the Binding's annotations; 201."""
    binding = posted(body, "Binding", ask.target)
    binding = yield from _requested(ask, binding, ("", "v1", "Binding"))
    wanted = binding.get("target", {})
    causes = []
    if wanted.get("kind", "") not in ("", "Node"):
        causes.append(unsupported("target.kind", wanted["kind"], ("Node", "<empty>")))
    if not wanted.get("name"):
        causes.append(required("target.name"))
    if causes:
        raise Unworded("; ".join(f"{c.field}: {c.message}" for c in causes))
    record = writer.find(ask.target)
    _check_conditions(ask.target, binding["metadata"], record)
    pod = record.obj()
    _check_unbound(pod)
    _place(pod, binding, wanted["name"])
    condition = {"type": "PodScheduled", "status": "True"}
    set_condition(pod, condition, writer.stamp())
    writer.put(ask, pod)
    return success(201)


def _requested(
    ask: WriteRequest, obj: JsonObject, kind: tuple[str, str, str]
) -> Generator[AdmissionQuery, JsonObject | None, JsonObject]:
    """The posted object as admission leaves it."""
    asked = AdmissionQuery(
        "mutate",
        "CREATE",
        ask.target,
        ask.user,
        obj,
        None,
        lambda _obj: None,
        kind,
        ask.dry_run,
        ask.options,
    )
    obj = (yield asked) or obj
    asked.obj, asked.stage = obj, "validate"
    yield asked
    return obj


def _check_conditions(target: RequestTarget, metadata: JsonObject, pod: StoredObject) -> None:
    uid, version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
    if uid and uid != pod.uid:
        raise precondition_failed(target, "UID", uid, pod.uid)
    if version and version != str(pod.version):
        raise precondition_failed(target, "ResourceVersion", version, str(pod.version))


def _check_unbound(pod: JsonObject) -> None:
    name, spec = pod["metadata"]["name"], pod["spec"]
    why = ""
    if "deletionTimestamp" in pod["metadata"]:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise conflict("pods/binding", "", name, why)


def _place(pod: JsonObject, binding: JsonObject, node: str) -> None:
    pod["spec"]["nodeName"] = node
    annotations = binding["metadata"].get("annotations", {})
    if annotations:
        pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **annotations}
    pod.get("status", {}).pop("nominatedNodeName", None)


def evict(writer: Writer, ask: WriteRequest, body: bytes) -> Steps:
    """Delete a pod unless its disruption budget forbids it (429); 201."""
    eviction = posted(body, "Eviction", ask.target)
    options = dict(eviction.get("deleteOptions") or {})
    if ask.dry_run:
        options["dryRun"] = ["All"]
    ask = msgspec.structs.replace(ask, options=options)
    yield from _requested(ask, eviction, ("policy", "v1", "Eviction"))
    record = writer.find(ask.target)
    conditions = options.get("preconditions") or {}
    _check_conditions(ask.target, conditions, record)
    pod = record.obj()
    if not _ignores_budgets(pod):
        _spend_budget(writer, ask, record, pod)
    if not ask.dry_run:
        set_condition(pod, dict(_EVICTED), writer.stamp())
        record = writer.objects.put(PODS, pod)
    delete_now(writer, ask, record)
    return success(201)


def _ignores_budgets(pod: JsonObject) -> bool:
    phase = pod.get("status", {}).get("phase", "Pending")
    return phase in (*_DONE, "Pending") or "deletionTimestamp" in pod["metadata"]


def _spend_budget(writer: Writer, ask: WriteRequest, record: StoredObject, pod: JsonObject) -> None:
    budgets = [b for b in writer.objects.records(BUDGETS) if _guards(b, record)]
    if len(budgets) > 1:
        raise Unworded(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does "
            "not support."
        )
    if not budgets:
        return
    budget = budgets[0].obj()
    status = budget.setdefault("status", {})
    if not _ready(pod) and _unhealthy_may_go(budget):
        return
    _check_budget(budget, status)
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[record.name] = writer.stamp()
    if not ask.dry_run:
        writer.objects.put(BUDGETS, budget)


def _guards(budget: StoredObject, pod: StoredObject) -> bool:
    selector: Any = budget.obj()["spec"].get("selector")
    return (
        budget.namespace == pod.namespace
        and selector is not None
        and selectors.matches(selectors.from_object(selector), pod.labels)
    )


def _ready(pod: JsonObject) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _unhealthy_may_go(budget: JsonObject) -> bool:
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = budget["status"].get("desiredHealthy", 0)
    return bool(0 < desired <= budget["status"].get("currentHealthy", 0))


def _check_budget(budget: JsonObject, status: JsonObject) -> None:
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        message = f"The disruption budget {name} is still being processed by the server."
        raise _not_now(message, retry_after_s=10)
    if status.get("disruptionsAllowed", 0) <= 0:
        message = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        raise _not_now(message, retry_after_s=0)


def _not_now(message: str, *, retry_after_s: int) -> TooManyRequests:
    return TooManyRequests(
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details={"causes": [{"reason": "DisruptionBudget", "message": message}]},
        retry_after_s=retry_after_s,
    )
