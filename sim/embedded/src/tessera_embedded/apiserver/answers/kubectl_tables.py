"""Tables, which `kubectl get` asks for: a few columns of the kinds that people look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tessera_embedded.apiserver.errors import JsonObject
from tessera_embedded.apiserver.http_types import RequestTarget, Response, answer
from tessera_embedded.apiserver.objects.metadata import seconds
from tessera_embedded.apiserver.objects.resources import Shelf

Columns = Mapping[str, Callable[[JsonObject], Any]]


def _ready(pod: JsonObject) -> str:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return f"{sum(bool(s.get('ready')) for s in statuses)}/{len(pod['spec']['containers'])}"


def _pod_status(pod: JsonObject) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    status = pod.get("status", {})
    for container in status.get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason"):
            return str(waiting["reason"])
    return str(status.get("reason") or status.get("phase", "Unknown"))


def _restarts(pod: JsonObject) -> int:
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return sum(s.get("restartCount", 0) for s in statuses)


def _node_status(node: JsonObject) -> str:
    conditions = node.get("status", {}).get("conditions", ())
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    held = ",SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else ""
    return ("Ready" if ready else "NotReady") + held


_KINDS: Final[Mapping[Shelf, Columns]] = {
    ("", "pods"): {
        "Ready": _ready,
        "Status": _pod_status,
        "Restarts": _restarts,
        "Node": lambda pod: pod["spec"].get("nodeName") or "<none>",
    },
    ("", "nodes"): {
        "Status": _node_status,
        "Version": lambda n: n.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", ""),
    },
    ("", "namespaces"): {"Status": lambda n: n.get("status", {}).get("phase", "")},
    ("", "events"): {
        "Type": lambda event: event.get("type", ""),
        "Reason": lambda event: event.get("reason", ""),
        "Object": lambda event: _about(event.get("involvedObject", {})),
        "Message": lambda event: event.get("message", ""),
    },
}


def _about(reference: JsonObject) -> str:
    return f"{reference.get('kind', '').lower()}/{reference.get('name', '')}"


def as_table(target: RequestTarget, response: Response, now: float) -> Response:
    """The same answer to a get or list, as a Table."""
    body = msgspec.json.decode(response.body)
    items: Sequence[JsonObject] = body.get("items", [body])
    columns: Columns = {
        "Name": lambda obj: obj["metadata"]["name"],
        **_KINDS.get(target.resource.shelf, {}),
        "Age": lambda obj: _age(obj, now),
    }
    rows = [
        {
            "cells": [cell(item) for cell in columns.values()],
            "object": {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": item["metadata"],
            },
        }
        for item in items
    ]
    definitions = [
        {"name": name, "type": "string", "format": "name" if name == "Name" else "",
         "description": "", "priority": 0}
        for name in columns
    ]  # fmt: skip
    metadata = body["metadata"] if "items" in body else {}
    return answer(200, {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                        "columnDefinitions": definitions, "rows": rows})  # fmt: skip


def _age(obj: JsonObject, now: float) -> str:
    made = obj["metadata"].get("creationTimestamp")
    if made is None:
        return "<unknown>"
    age = max(0, int(now - seconds(made)))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if age >= 2 * size:
            return f"{age // size}{unit}"
    return f"{age}s"
