"""Pods: defaults, what admission plugins of Kubernetes add, and what status and spec may become.

Left out: service accounts and their token volumes, priority classes, LimitRanges, overhead from
runtime classes, and defaults of volumes and probes that Tessera never writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tessera_embedded.apiserver.errors import JsonObject
from tessera_embedded.apiserver.kinds.pod_validation import check, check_update
from tessera_embedded.apiserver.kinds.rules import KindRules

_CONTAINERS: Final = ("initContainers", "containers", "ephemeralContainers")
_NOT_READY: Final = "node.kubernetes.io/not-ready"
_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_MODES: Final = {"secret": 420, "configMap": 420, "downwardAPI": 420, "projected": 420}


def containers(pod: JsonObject) -> Iterator[JsonObject]:
    """Init containers, containers, ephemeral ones."""
    for field in _CONTAINERS:
        yield from pod["spec"].get(field, ())


def _default(pod: JsonObject) -> None:
    spec = pod.setdefault("spec", {})
    for container in containers(pod):
        _default_container(container)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    if name := spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", name)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)


def _default_container(container: JsonObject) -> None:
    resources = container.setdefault("resources", {})
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **resources.get("requests", {})}
    image = container.get("image", "")
    container.setdefault("imagePullPolicy", "Always" if _latest(image) else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _latest(image: str) -> bool:
    last = image.rpartition("/")[2]
    return "@" not in image and (last.partition(":")[2] or "latest") == "latest"


def _default_volume(volume: JsonObject) -> None:
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for kind, mode in _MODES.items():
        if kind in volume:
            volume[kind].setdefault("defaultMode", mode)


def _admit(pod: JsonObject) -> None:
    spec = pod["spec"]
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    for key in (_NOT_READY, _UNREACHABLE):
        have = spec.setdefault("tolerations", [])
        if not any(_tolerates(t, key) for t in have):
            have.append({"key": key, "operator": "Exists", "effect": "NoExecute",
                         "tolerationSeconds": 300})  # fmt: skip


def _tolerates(toleration: JsonObject, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in (
        "", "NoExecute",
    )  # fmt: skip


def _create(pod: JsonObject) -> None:
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod)}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }]  # fmt: skip


def qos_class(pod: JsonObject) -> str:
    """BestEffort, Burstable or Guaranteed, by cpu and memory of the containers."""
    asks = [c["resources"] for c in containers(pod)]
    named = [_computes(a.get(kind, {})) for a in asks for kind in ("limits", "requests")]
    if not any(named):
        return "BestEffort"
    guaranteed = all(
        len(_computes(a.get("limits", {}))) == 2
        and _computes(a["limits"]) == _computes(a.get("requests", {}))
        for a in asks
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _computes(amounts: JsonObject) -> JsonObject:
    return {k: v for k, v in amounts.items() if k in ("cpu", "memory") and v != "0"}


def _update(new: JsonObject, old: JsonObject) -> None:
    new["status"] = old["status"]


def _status(new: JsonObject, old: JsonObject) -> None:
    new["spec"] = old["spec"]
    status = new.setdefault("status", {})
    status.setdefault("qosClass", old["status"].get("qosClass", "BestEffort"))
    owners = old["metadata"].get("ownerReferences")
    new["metadata"].pop("ownerReferences", None)
    if owners:
        new["metadata"]["ownerReferences"] = owners


def set_condition(pod: JsonObject, condition: JsonObject, at: str) -> None:
    """Set a condition of a pod; the time of its transition moves only when its status does."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    before = next((c for c in conditions if c.get("type") == condition["type"]), None)
    if before is None:
        conditions.append({"lastTransitionTime": at, **condition})
        return
    same = before.get("status") == condition["status"]
    since = before.get("lastTransitionTime", at) if same else at
    conditions[conditions.index(before)] = {"lastTransitionTime": since, **condition}


RULES: Final = KindRules(
    default=_default,
    admit=_admit,
    readmit=_admit,
    create=_create,
    update=_update,
    status=_status,
    check=check,
    check_update=check_update,
)
