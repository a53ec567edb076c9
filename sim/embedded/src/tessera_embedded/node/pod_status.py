"""A pod's status as kubelet writes it, from where its containers are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from msgspec import Struct

from tessera_embedded.node.pods import ContainerSpec, NodePod

READY_CONDITIONS: Final = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


class ProcessWaiting(Struct, frozen=True):
    """Not started (yet, or again)."""

    reason: str = "PodInitializing"
    message: str = ""


class ProcessRunning(Struct, frozen=True):
    """Its process runs, since then (Unix time in seconds)."""

    since: float


class ProcessEnded(Struct, frozen=True):
    """Its process has ended."""

    code: int
    since: float
    at: float


Where = ProcessWaiting | ProcessRunning | ProcessEnded


class ContainerProgress(Struct):
    """One container."""

    where: Where = ProcessWaiting()
    last: ProcessEnded | None = None
    restarts: int = 0
    id: str = ""


def stamp(seconds: float) -> str:
    """RFC 3339 in whole seconds, as Kubernetes' own times are."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return text.replace("+00:00", "Z")


def pod_status(pod: NodePod, states: Mapping[str, ContainerProgress], now: float) -> dict[str, Any]:
    """What to write into the pod's status."""
    inits, apps = pod.spec.init_containers, pod.spec.containers
    phase = _phase(pod, states)
    initialized = all(_init_is_over(c, states[c.name]) for c in inits)
    ready = phase == "Running" and all(
        isinstance(states[c.name].where, ProcessRunning) for c in apps
    )
    holds = {"Initialized": initialized, "ContainersReady": ready, "Ready": ready}
    conditions = [
        {
            "type": kind,
            "status": "True" if holds.get(kind, True) else "False",
            "lastTransitionTime": _since(pod, kind, holds.get(kind, True), now),
        }
        for kind in READY_CONDITIONS
    ]
    status: dict[str, Any] = {
        "phase": phase, "hostIP": "127.0.0.1", "podIP": "127.0.0.1", "conditions": conditions,
        "containerStatuses": [_container(c, states[c.name]) for c in apps],
    }  # fmt: skip
    if inits:
        status["initContainerStatuses"] = [_container(c, states[c.name]) for c in inits]
    return status


def _phase(pod: NodePod, states: Mapping[str, ContainerProgress]) -> str:
    apps = [states[c.name].where for c in pod.spec.containers]
    again = pod.spec.restart_policy
    ended = [where for where in apps if isinstance(where, ProcessEnded)]
    for container in pod.spec.init_containers:
        where = states[container.name].where
        if isinstance(where, ProcessEnded) and where.code and again == "Never":
            return "Failed"
    if len(ended) == len(apps) and apps and (again != "Always" or pod.deleting):
        if all(where.code == 0 for where in ended):
            return "Succeeded"
        if again == "Never" or pod.deleting:
            return "Failed"
    started = any(
        states[c.name].restarts or not isinstance(states[c.name].where, ProcessWaiting)
        for c in pod.spec.containers
    )
    return "Running" if started else "Pending"


def _init_is_over(container: ContainerSpec, state: ContainerProgress) -> bool:
    if container.sidecar:
        return isinstance(state.where, ProcessRunning)
    return isinstance(state.where, ProcessEnded) and state.where.code == 0


def _since(pod: NodePod, kind: str, holds: bool, now: float) -> str:  # noqa: FBT001  (the condition's own value)
    for condition in pod.status.conditions:
        if condition.get("type") == kind and (condition.get("status") == "True") == holds:
            return str(condition.get("lastTransitionTime") or stamp(now))
    return stamp(now)


def _container(container: ContainerSpec, state: ContainerProgress) -> dict[str, Any]:
    running = isinstance(state.where, ProcessRunning)
    status: dict[str, Any] = {
        "name": container.name, "image": container.image, "imageID": "", "ready": running,
        "started": running, "restartCount": state.restarts, "state": _where(state.where),
        "containerID": f"embedded://{state.id}" if state.id else "", "lastState": {},
    }  # fmt: skip
    if state.last is not None:
        status["lastState"] = _where(state.last)
    return status


def _where(where: Where) -> dict[str, Any]:
    match where:
        case ProcessWaiting():
            return {"waiting": {"reason": where.reason, "message": where.message}}
        case ProcessRunning():
            return {"running": {"startedAt": stamp(where.since)}}
        case ProcessEnded():
            return {
                "terminated": {
                    "exitCode": where.code, "reason": "Error" if where.code else "Completed",
                    "startedAt": stamp(where.since), "finishedAt": stamp(where.at),
                }
            }  # fmt: skip


def backoff_s(restarts: int, first_s: float, most_s: float) -> float:
    """Seconds until a container is tried again."""
    return min(first_s * float(1 << min(restarts, 30)), most_s)
