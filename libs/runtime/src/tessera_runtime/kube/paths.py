"""Where objects are on an API server."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"


def pod(namespace: str, name: str, subresource: str = "") -> str:
    """A pod, or what is below it, such as `binding`."""
    return in_core(namespace, "pods", name, subresource)


def node(name: str) -> str:
    """A node."""
    return f"{NODES}/{quote(name, safe='')}"


def in_core(namespace: str, plural: str, name: str = "", subresource: str = "") -> str:
    """Objects of a namespace that belong to no API group: pods, configmaps, secrets, events."""
    return _joined("/api/v1", namespace, plural, name, subresource)


def in_group(group: str, version: str, plural: str, *, namespace: str = "", name: str = "") -> str:
    """Objects of an API group; without a namespace those of all, or of none."""
    return _joined(f"/apis/{group}/{version}", namespace, plural, name)


def _joined(root: str, namespace: str, *parts: str) -> str:
    below = ["namespaces", namespace] if namespace else []
    return "/".join([root, *(quote(part, safe="") for part in (*below, *parts) if part)])
