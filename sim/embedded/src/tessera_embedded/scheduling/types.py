"""Pods and nodes as the scheduler keeps them: what it decides by, and the pod's own JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tessera_schema.kube import Node, Pod


class _Gate(Struct, frozen=True):
    name: str = ""


class _Spec(Struct, frozen=True, rename="camel"):
    priority: int = 0
    scheduling_gates: tuple[_Gate, ...] = ()


class _More(Struct, frozen=True):
    spec: _Spec = _Spec()


class PodInfo(Struct, frozen=True, kw_only=True):
    """A pod. `sent` is what extenders are sent: as Go writes a pod that came from a list."""

    pod: Pod
    sent: msgspec.Raw
    priority: int
    gated: bool = False
    """Somebody else has to take a gate away before it is looked at."""

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid

    @property
    def path(self) -> str:
        """Where the API server has it."""
        meta = self.pod.metadata
        return f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}"

    @property
    def wants(self) -> object:
        """All of it that may decide where it fits: equal before and after a change of status."""
        return msgspec.json.encode(
            (self.pod.metadata.labels, self.pod.metadata.annotations, self.pod.spec)
        )


class NodeInfo(Struct, frozen=True, kw_only=True):
    """A node."""

    node: Node
    facts: bytes
    """Equal before and after a heartbeat."""


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""


class _NodeStatus(Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class _NodeMore(Struct, frozen=True):
    status: _NodeStatus = _NodeStatus()


_pod = msgspec.json.Decoder(Pod).decode
_more = msgspec.json.Decoder(_More).decode
_whole = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_node = msgspec.json.Decoder(Node).decode
_node_more = msgspec.json.Decoder(_NodeMore).decode


def read_pod(raw: bytes) -> PodInfo:
    """A pod of a list or a watch. Raises msgspec.DecodeError."""
    fields: Mapping[str, Any] = {
        k: v for k, v in _whole(raw).items() if k not in ("kind", "apiVersion")
    }
    more = _more(raw).spec
    return PodInfo(
        pod=_pod(raw), sent=msgspec.Raw(msgspec.json.encode(fields)), priority=more.priority,
        gated=bool(more.scheduling_gates),
    )  # fmt: skip


def read_node(raw: bytes) -> NodeInfo:
    """A node of a list or a watch. Raises msgspec.DecodeError."""
    node = _node(raw)
    meta = node.metadata
    states = [(c.type, c.status) for c in _node_more(raw).status.conditions]
    facts = (meta.labels, meta.annotations, node.spec, node.status.allocatable, states)
    return NodeInfo(node=node, facts=msgspec.json.encode(facts))
