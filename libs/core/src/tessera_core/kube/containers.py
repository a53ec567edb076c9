"""The containers of a pod: their roles, and the fields that messages name."""

from __future__ import annotations

from tessera_schema.kube import Container, Pod
from tessera_schema.requests import Role


def role_of(container: Container, *, init: bool) -> Role:
    """Init containers with restartPolicy Always are sidecars (Kubernetes 1.29)."""
    if not init:
        return Role.APP
    return Role.SIDECAR if container.restart_policy == "Always" else Role.INIT


def roles(pod: Pod) -> tuple[tuple[int, Container, Role], ...]:
    """Position, container and role of every container: init containers first."""
    inits = len(pod.spec.init_containers)
    return tuple((i, c, role_of(c, init=i < inits)) for i, c in enumerate(pod.all_containers))


def field_of(pod: Pod, position: int, where: str, name: str) -> str:
    """A field as messages print it, such as `spec.containers[0].resources.limits[x/y]`."""
    inits = len(pod.spec.init_containers)
    kind, index = (
        ("initContainers", position) if position < inits else ("containers", position - inits)
    )
    return f"spec.{kind}[{index}].resources.{where}[{name}]"
