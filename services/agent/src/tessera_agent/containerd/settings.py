"""What can be set of the component `containerd`: variables TESSERA_<FIELD>, as the agent's are."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from tessera_runtime.errors import BadSettings
from tessera_runtime.http.server import HttpSettings
from tessera_runtime.kube.settings import EventSettings, KubeSettings, Seconds
from tessera_runtime.process import ProcessSettings
from tessera_runtime.tracing.tracing import TelemetrySettings

_DURATION = re.compile(r"(\d+(ms|s|m))+")


class DropInMode(StrEnum):
    """Which way."""

    WRITE = "write"
    REMOVE = "remove"


class DropInSettings(Struct, frozen=True, kw_only=True):
    """One node."""

    node: str
    """The node's name in Kubernetes."""
    mode: DropInMode = DropInMode.WRITE
    """`write` the drop-in, or `remove` it: the way back, before Tessera is uninstalled."""
    require: bool = True
    """Whether containers are created only while the agent runs, where containerd can do that."""
    plugin: str = "tessera"
    """What the agent is called in NRI, and required as."""
    request_timeout: str = "30s"
    """How long containerd waits for the agent's answer, where it has its default of 2s."""
    agents: tuple[str, ...] = ()
    """Addresses of which one answers 200 once the agent is there for containerd, which is when it
    is first required."""
    config: str = "/etc/containerd/config.toml"
    """The file that containerd is started with on the node."""
    folder: str = "/etc/containerd/conf.d"
    """Where the drop-in is put on the node."""
    state: str = "/var/lib/tessera/containerd"
    """Where the former files are on the node while they are changed."""
    unit: str = "containerd.service"
    """The unit of systemd that runs containerd."""
    root: Path = Path("/proc/1/root")
    """The node's files, as this process sees them: it has the node's processes."""
    poll_s: Seconds = 10.0
    """Seconds between comparisons of the node with what is wanted."""
    wait_most_s: Seconds = 60.0
    """Most seconds between looks whether it is this node's turn."""
    answer_s: Seconds = 90.0
    """Seconds in which a restarted containerd, and the agent, have to answer; then the former files
    are put back."""
    settle_s: Annotated[float, Meta(ge=0)] = 5.0
    """Seconds for which they have to answer without a break before the next node is restarted."""
    namespace: str = "tessera-system"
    """Where the Lease is that goes from node to node."""
    lease: str = "tessera-containerd"
    """The name of that Lease."""
    process: ProcessSettings = ProcessSettings(stop_s=320.0)
    telemetry: TelemetrySettings = TelemetrySettings(disabled=True)
    kube: KubeSettings = KubeSettings()
    events: EventSettings = EventSettings()
    http: HttpSettings = HttpSettings(port=9470)
    """Health, and as `/readyz` whether the node is as wanted."""

    def check(self) -> None:
        """Raises BadSettings."""
        for name, path in (("config", self.config), ("folder", self.folder), ("state", self.state)):
            if not path.startswith("/"):
                raise BadSettings(f"{name}: {path!r}: write a path on the node, from its root")
        above = str(Path(self.config).parent)
        if not self.folder.startswith(f"{above}/"):
            raise BadSettings(f"folder: {self.folder!r}: write a folder in {above}, such as conf.d")
        if not _DURATION.fullmatch(self.request_timeout):
            raise BadSettings(
                f"request_timeout: {self.request_timeout!r}: write a duration such as 30s or 1m30s"
            )
        if self.require and not self.plugin:
            raise BadSettings("plugin: '': write the agent's name in NRI, or require false")
