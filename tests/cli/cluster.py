"""Short manifests for tests of the command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

REGISTER = "hami.io/node-nvidia-register"


def card(index: int, node: str = "n1", mib: int = 16384, **facts: Any) -> dict[str, Any]:
    """A card as HAMi's device plugin registers it."""
    return {
        "id": f"GPU-{node}-{index}", "index": index, "count": 10, "devmem": mib, "devcore": 100,
        "type": "NVIDIA-A100", "numa": 0, "mode": "hami-core", "health": True, **facts,
    }  # fmt: skip


def node(
    name: str = "n1",
    cards: int = 2,
    *,
    annotations: Mapping[str, Any] | None = None,
    capacity: Mapping[str, str] | None = None,
    mib: int = 16384,
    **facts: Any,
) -> dict[str, Any]:
    """A node with registered cards, `facts` those of each; without cards only what `annotations`
    and `capacity` say."""
    registered = [card(i, name, mib, **facts) for i in range(cards)]
    register = {REGISTER: json.dumps(registered)} if cards else {}
    amounts = dict(capacity or {})
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {**register, **(annotations or {})}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }  # fmt: skip


def pod(
    name: str = "p", limits: Mapping[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    """A pod with one container `main`, requesting a share of 3000 MiB unless `limits` says else."""
    asked = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"} if limits is None else limits
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": "main", "resources": {"limits": dict(asked)}}]},
    }  # fmt: skip


def bound(name: str, annotation: str, on: str = "n1") -> dict[str, Any]:
    """A running pod with HAMi's list of its devices."""
    manifest = pod(name, annotations={
        "hami.io/vgpu-devices-allocated": annotation, "hami.io/vgpu-node": on,
    })  # fmt: skip
    manifest["spec"]["nodeName"] = on
    manifest["status"] = {"phase": "Running"}
    return manifest


def text(*objects: Mapping[str, Any]) -> str:
    """The objects as one List."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
