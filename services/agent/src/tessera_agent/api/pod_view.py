"""What the API server shows of a pod, as far as it matters on its node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from tessera_core.dialect_kit.lending_terms import takes_part
from tessera_schema.annotation_keys import TRACE_KEY
from tessera_schema.grants import GRANT_KEY
from tessera_schema.json_codec import decoder
from tessera_schema.kube import TERMINAL_PHASES, Quantity

_SIDECAR: Final = "Always"


class ContainerRun(Struct, frozen=True, rename="camel"):
    """A container that runs, or one that has run."""

    container_id: str = msgspec.field(name="containerID", default="")
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def id(self) -> str:
        """As the runtime knows it, without the runtime's name."""
        return self.container_id.rpartition("//")[2]


class ContainerView(Struct, frozen=True, kw_only=True):
    """A container of a pod. It restarts, each time under another id."""

    name: str
    init: bool = False
    """Whether it ends before the containers after it begin."""
    limits: Mapping[str, Quantity] = {}
    runs: ContainerRun | None = None
    """As it runs now."""
    ended: tuple[ContainerRun, ...] = ()
    """Those that have ended, as far as they are still shown: the last one or two."""

    @property
    def began(self) -> bool:
        """Whether it has ever run."""
        return self.runs is not None or bool(self.ended)


class PodView(Struct, frozen=True, kw_only=True):
    """A pod, as the API server shows it."""

    uid: str
    namespace: str = ""
    name: str = ""
    grant: str = ""
    """The annotation; empty = none."""
    traceparent: str = ""
    lends: bool = True
    """Whether it takes part in lending."""
    ended: bool = False
    containers: tuple[ContainerView, ...] = ()
    """Init containers first, as kubelet takes them."""

    admitted: bool = False
    """Whether kubelet has reported it, and so has asked for all that its containers are to get."""

    def get(self, container: str) -> ContainerView | None:
        """One of its containers."""
        return next((c for c in self.containers if c.name == container), None)


class _Meta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] = {}


class _Resources(Struct, frozen=True):
    limits: dict[str, Quantity] = {}


class _Container(Struct, frozen=True, rename="camel"):
    name: str = ""
    resources: _Resources = _Resources()
    restart_policy: str | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    init_containers: tuple[_Container, ...] = ()
    containers: tuple[_Container, ...] = ()


class _State(Struct, frozen=True):
    running: ContainerRun | None = None
    terminated: ContainerRun | None = None


class _ContainerStatus(Struct, frozen=True, rename="camel"):
    name: str = ""
    container_id: str = msgspec.field(name="containerID", default="")
    state: _State = _State()
    last_state: _State = _State()


class _Status(Struct, frozen=True, rename="camel"):
    phase: str = ""
    start_time: str = ""
    init_container_statuses: tuple[_ContainerStatus, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class _Pod(Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_decode = decoder(_Pod)


def read(raw: bytes) -> PodView:
    """Raises msgspec.DecodeError."""
    pod = _decode(raw)
    notes, containers = pod.metadata.annotations, tuple(_containers(pod))
    return PodView(
        uid=pod.metadata.uid, namespace=pod.metadata.namespace, name=pod.metadata.name,
        grant=notes.get(GRANT_KEY, ""), traceparent=notes.get(TRACE_KEY, ""),
        lends=takes_part(notes), ended=pod.status.phase in TERMINAL_PHASES, containers=containers,
        admitted=bool(pod.status.start_time) or any(c.began for c in containers),
    )  # fmt: skip


def _containers(pod: _Pod) -> Iterator[ContainerView]:
    for containers, statuses, first in (
        (pod.spec.init_containers, pod.status.init_container_statuses, True),
        (pod.spec.containers, pod.status.container_statuses, False),
    ):
        by_name = {status.name: status for status in statuses}
        for container in containers:
            status = by_name.get(container.name, _ContainerStatus())
            yield ContainerView(
                name=container.name, limits=container.resources.limits,
                init=first and container.restart_policy != _SIDECAR, runs=_running(status),
                ended=tuple(
                    state.terminated for state in (status.last_state, status.state)
                    if state.terminated is not None
                ),
            )  # fmt: skip


def _running(status: _ContainerStatus) -> ContainerRun | None:
    running = status.state.running
    if running is None:
        return None
    return ContainerRun(container_id=status.container_id, started_at=running.started_at)
