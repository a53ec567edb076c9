"""What is said between a runtime and its plugins, without the wire.

NRI can also change the cgroup limits of running containers; that is left out, as Tessera grants
nothing that such an update could change.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

from tessera_schema.injections import Mount


class NriEvent(IntEnum):
    """What happens to pods and containers, numbered as on the wire."""

    RUN_POD_SANDBOX = 1
    STOP_POD_SANDBOX = 2
    REMOVE_POD_SANDBOX = 3
    CREATE_CONTAINER = 4
    POST_CREATE_CONTAINER = 5
    START_CONTAINER = 6
    POST_START_CONTAINER = 7
    UPDATE_CONTAINER = 8
    POST_UPDATE_CONTAINER = 9
    STOP_CONTAINER = 10
    REMOVE_CONTAINER = 11


class NriContainerState(IntEnum):
    """Where a container is, numbered as on the wire."""

    UNKNOWN = 0
    CREATED = 1
    PAUSED = 2
    RUNNING = 3
    STOPPED = 4


class NriDevice(Struct, frozen=True, kw_only=True):
    """A device node, as it appears in the container."""

    path: str
    major: int
    minor: int
    type: str = "c"
    """c or b."""


class PodSandbox(Struct, frozen=True, kw_only=True):
    """A pod, as the runtime knows it."""

    id: str
    name: str
    uid: str
    namespace: str
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    """The pod's own, as they were when its sandbox was made."""


class ContainerInfo(Struct, frozen=True, kw_only=True):
    """A container, as the runtime knows it: adjustments made to it are included."""

    id: str
    sandbox_id: str
    name: str
    state: NriContainerState = NriContainerState.UNKNOWN
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    set_twice: frozenset[str] = frozenset()
    """Variables that both the image and the pod set. The pod's value counts, and a runtime leaves
    it as it is whatever a plugin answers: NRI replaces only the first of two entries."""
    mounts: tuple[Mount, ...] = ()
    devices: tuple[NriDevice, ...] = ()
    cgroup: str = ""
    """The path that the runtime gives its cgroup, in the runtime's notation."""
    pid: int = 0
    """Of its first process; 0 = not running, or not known."""


class Adjustment(Struct, frozen=True, kw_only=True):
    """What a container gets on top of what its pod asks for. Each entry replaces one of the same
    name, destination or path; of variables, those in `set_twice` excepted."""

    env: Mapping[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    devices: tuple[NriDevice, ...] = ()
    cdi: tuple[str, ...] = ()
    """Fully qualified names of CDI devices, which the runtime looks up."""
    annotations: Mapping[str, str] = {}
    """Of the container, not of its pod."""


class CreationRefused(Struct, frozen=True, kw_only=True):
    """The container must not be created. The kubelet shows why, and tries again."""

    why: str
