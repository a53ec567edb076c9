"""Pods as a node reads them."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from tessera_schema.kube import ObjectMeta


class _FieldRef(Struct, frozen=True, rename="camel"):
    field_path: str = ""


class _Source(Struct, frozen=True, rename="camel"):
    field_ref: _FieldRef | None = None


class Variable(Struct, frozen=True, rename="camel"):
    """One variable; of its sources only the pod's own fields are read."""

    name: str
    value: str = ""
    value_from: _Source | None = None


class _Resources(Struct, frozen=True):
    limits: dict[str, str] = {}


class ContainerSpec(Struct, frozen=True, rename="camel"):
    """A container as written."""

    name: str
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    resources: _Resources = _Resources()
    restart_policy: str | None = None

    @property
    def sidecar(self) -> bool:
        """True for an init container that goes on while the others run."""
        return self.restart_policy == "Always"


class _Spec(Struct, frozen=True, rename="camel"):
    node_name: str = ""
    restart_policy: str = "Always"
    termination_grace_period_seconds: int = 30
    init_containers: tuple[ContainerSpec, ...] = ()
    containers: tuple[ContainerSpec, ...] = ()


class _Status(Struct, frozen=True, rename="camel"):
    phase: str = ""
    conditions: tuple[dict[str, Any], ...] = ()


class NodePod(Struct, frozen=True):
    """A pod that is bound to this node."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.metadata.uid

    @property
    def deleting(self) -> bool:
        """True once somebody deleted it."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ended(self) -> bool:
        """True when it has nothing left to run."""
        return self.status.phase in ("Succeeded", "Failed")

    def field(self, path: str) -> str:
        """A field of the downward API; empty for one that is not offered here."""
        meta = self.metadata
        for prefix, values in (
            ("metadata.labels", meta.labels),
            ("metadata.annotations", meta.annotations),
        ):
            if path.startswith(f"{prefix}['"):
                return values.get(path[len(prefix) + 2 : -2], "")
        known = {
            "metadata.name": meta.name, "metadata.namespace": meta.namespace,
            "metadata.uid": meta.uid, "spec.nodeName": self.spec.node_name,
            "status.podIP": "127.0.0.1", "status.hostIP": "127.0.0.1",
        }  # fmt: skip
        return known.get(path, "")


read_pod = msgspec.json.Decoder(NodePod).decode
"""A pod of a list or a watch. Raises msgspec.DecodeError."""
