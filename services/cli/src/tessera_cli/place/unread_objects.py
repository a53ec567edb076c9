"""Objects that make pods, or hold cards, in a way that is not read: a plan without them is
incomplete, and must say so.

A kind that nobody knows makes pods if there is a pod's list of containers in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_NO_TEMPLATE: Final = frozenset({
    ("argoproj.io", "CronWorkflow"), ("argoproj.io", "Workflow"),
    ("flow.volcano.sh", "JobFlow"),
    ("kubevirt.io", "VirtualMachine"), ("kubevirt.io", "VirtualMachineInstance"),
    ("serving.kserve.io", "InferenceService"),
    ("sparkoperator.k8s.io", "ScheduledSparkApplication"),
    ("sparkoperator.k8s.io", "SparkApplication"),
    ("tekton.dev", "PipelineRun"), ("tekton.dev", "TaskRun"),
    ("trainer.kubeflow.org", "TrainJob"),
})  # fmt: skip
"""Kinds that make pods and have no list of containers, or not always."""
_NO_PODS: Final = frozenset({
    ("", "PodTemplate"), ("apps", "ControllerRevision"), ("argoproj.io", "ClusterWorkflowTemplate"),
    ("argoproj.io", "WorkflowTemplate"), ("flow.volcano.sh", "JobTemplate"),
    ("kueue.x-k8s.io", "Workload"), ("kyverno.io", "ClusterPolicy"), ("kyverno.io", "Policy"),
})  # fmt: skip
"""Kinds that have such a list for others to use, or to compare with."""
_CLAIM: Final = ("resource.k8s.io", "ResourceClaim")
_OF_CONTAINERS: Final = ("image", "resources")


def makes_pods(group: str, kind: str, content: Mapping[str, Any]) -> bool:
    """Whether the object makes pods; those of one that the API server knows (it has a uid) are in
    its dump themselves."""
    if (group, kind) in _NO_PODS or _text(content.get("metadata"), "uid"):
        return False
    return (group, kind) in _NO_TEMPLATE or any(map(_has_containers, _mappings(content)))


def holds_devices(group: str, kind: str, content: Mapping[str, Any]) -> bool:
    """Whether devices were allocated to the object itself (dynamic resource allocation)."""
    status = content.get("status")
    return (group, kind) == _CLAIM and isinstance(status, dict) and bool(status.get("allocation"))


def unread_notice(count: int, kind: str, what: str) -> str:
    """What is to be said of objects of a kind; `what` is pods or devices."""
    verb = {"pods": "make", "devices": "hold"}[what]
    who = (
        f"1 object of kind {kind} {verb}s"
        if count == 1
        else f"{count} objects of kind {kind} {verb}"
    )
    return f"{who} {what} that are not read: the plan is incomplete"


def _has_containers(value: Mapping[str, Any]) -> bool:
    found = value.get("containers")
    return isinstance(found, list) and any(
        isinstance(each, dict) and any(key in each for key in _OF_CONTAINERS) for each in found
    )


def _mappings(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every mapping in an object, however deep."""
    left: list[Any] = [content]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            yield value
            left += value.values()
        elif isinstance(value, list):
            left += value


def _text(value: Any, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
