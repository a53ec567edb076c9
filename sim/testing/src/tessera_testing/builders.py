"""Short spellings for pods, nodes and cards: `a_pod(a_container({"vendor.com/gpu": 1}))`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from tessera_schema.cards import MIB, Card
from tessera_schema.kube import (
    Container,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    EnvVar,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Quantity,
    Resources,
)


def a_container(
    limits: Mapping[str, Quantity] | None = None,
    requests: Mapping[str, Quantity] | None = None,
    *,
    name: str = "",
    env: Mapping[str, str] | None = None,
    sidecar: bool = False,
) -> Container:
    """A container; unnamed ones are called c0, c1, ... by `a_pod`."""
    return Container(
        name=name,
        resources=Resources(limits=dict(limits or {}), requests=dict(requests or {})),
        env=tuple(EnvVar(name=k, value=v) for k, v in (env or {}).items()),
        restart_policy="Always" if sidecar else None,
    )


def _named(containers: tuple[Container, ...], prefix: str) -> tuple[Container, ...]:
    return tuple(
        c if c.name else replace(c, name=f"{prefix}{i}") for i, c in enumerate(containers)
    )  # fmt: skip


def a_pod(  # noqa: PLR0913  (keyword-only shorthand: each argument names a field)
    *containers: Container,
    name: str = "pod",
    namespace: str = "default",
    uid: str = "",
    init: tuple[Container, ...] = (),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    node: str = "",
    phase: str = "",
    scheduler: str = "",
    init_done: bool = False,
    **spec: Any,
) -> Pod:
    """A pod; `spec` fills further fields of PodSpec, `init_done` ends every init container."""
    inits = _named(init, "init")
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{namespace}-{name}",
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
        ),
        spec=PodSpec(
            containers=_named(containers, "c"),
            init_containers=inits,
            node_name=node,
            scheduler_name=scheduler,
            **spec,
        ),
        status=PodStatus(
            phase=phase or ("Running" if node else "Pending"),
            init_container_statuses=tuple(
                ContainerStatus(
                    name=c.name, state=ContainerState(terminated=ContainerStateTerminated())
                )
                for c in inits
            )
            if init_done
            else (),
        ),
    )


def a_node(
    name: str = "n1",
    *,
    capacity: Mapping[str, Quantity] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Node:
    """A node whose allocatable equals its capacity."""
    amounts = dict(capacity or {})
    return Node(
        metadata=ObjectMeta(
            name=name, labels=dict(labels or {}), annotations=dict(annotations or {})
        ),
        spec=NodeSpec(**spec),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


def a_card(
    id: str = "card-0",
    index: int = 0,
    *,
    mib: int = 16384,
    cores: float = 100,
    slots: int = 100,
    vendor: str = "acme",
    **facts: Any,
) -> Card:
    """A card; `facts` fills further fields of Card."""
    return Card(
        id=id, index=index, vendor=vendor, memory_bytes=mib * MIB, cores_percent=cores,
        slots=slots, **facts,
    )  # fmt: skip
