"""Short manifests for the contract suite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.contract.client import Json

GPU = "contract.tessera.dev/gpu"
"""An extended resource that no system knows."""


def a_pod(name: str = "p", *, limits: Mapping[str, Any] | None = None, **spec: Any) -> Json:
    """A pod with one container `main`; labels and annotations go into its metadata."""
    metadata = {"name": name}
    for key in ("labels", "annotations", "finalizers", "generateName", "resourceVersion"):
        if key in spec:
            metadata[key] = spec.pop(key)
    container: Json = {"name": "main", "image": "pause"}
    if limits is not None:
        container["resources"] = {"limits": dict(limits)}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }  # fmt: skip


def a_node(name: str, **capacity: str) -> Json:
    """A ready node with room for ten pods, 4 CPUs and 8 GiB, and what else it is said to have."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", **capacity}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {}},
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
        },
    }  # fmt: skip


def a_config_map(name: str = "c", **data: str) -> Json:
    """A ConfigMap."""
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data,
    }  # fmt: skip


def a_binding(pod: str, node: str, **metadata: Any) -> Json:
    """What puts a pod on a node; uid, resourceVersion and annotations go into its metadata."""
    return {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }  # fmt: skip
