"""Where objects are on an API server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

PODS: Final = "/api/v1/pods"
NODES: Final = "/api/v1/nodes"
NAMESPACES: Final = "/api/v1/namespaces"
LIVING: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of pods that hold something. The watch reports one that ends as deleted."""
_PLAIN: Final = re.compile("[A-Za-z0-9._-]+").fullmatch
"""Names that Kubernetes accepts: nothing of them has to be quoted."""


def pod(namespace: str, name: str, subresource: str = "") -> str:
    """A pod, or what is below it, such as `binding`."""
    return in_core(namespace, "pods", name, subresource)


def node(name: str) -> str:
    """The path of a node."""
    return f"{NODES}/{_quoted(name)}"


def in_core(namespace: str, plural: str, name: str = "", subresource: str = "") -> str:
    """Objects of a namespace that belong to no API group: pods, configmaps, secrets, events."""
    return _joined("/api/v1", namespace, plural, name, subresource)


def in_group(group: str, version: str, plural: str, *, namespace: str = "", name: str = "") -> str:
    """Objects of an API group; without a namespace those of all, or of none."""
    return _joined(f"/apis/{group}/{version}", namespace, plural, name)


def query_string(query: Mapping[str, str]) -> str:
    """A query as it stands in a URL."""
    return "&".join([f"{_quoted(name)}={_quoted(value)}" for name, value in query.items()])


def _joined(root: str, namespace: str, *parts: str) -> str:
    below = ["namespaces", _quoted(namespace)] if namespace else []
    return "/".join([root, *below, *[_quoted(part) for part in parts if part]])


def _quoted(part: str) -> str:
    return part if _PLAIN(part) else quote(part, safe="")
