"""What can be set of the container runtime's plugin."""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from tessera_runtime.errors import BadSettings
from tessera_runtime.kube.settings import Seconds


class NriSettings(Struct, frozen=True, kw_only=True):
    """The container runtime, which asks about every container that it creates."""

    socket: Path = Path("/var/run/nri/nri.sock")
    """Where the runtime listens to plugins."""
    name: str = ""
    """What the runtime calls this plugin, and requires (`required_plugins`); empty = `tessera`
    where the vendor's containers get their cards here, else `tessera-<vendor>`: an agent that only
    observes must not pass for one that limits. Agents of two such vendors on one node need names of
    their own."""
    index: str = "10"
    """Two digits: plugins are asked in this order."""
    exempt_namespaces: tuple[str, ...] = ("kube-system", "tessera-system")
    """Namespaces whose containers see cards without a grant, as their own variables say: agents
    and the cluster's own monitoring. A user who may create pods there has the cards."""
    keep_files_s: Seconds = 10.0
    """Seconds that a container's files outlive it: its last use is read within them."""

    def check(self) -> None:
        """Raises BadSettings."""
        if not re.fullmatch("[0-9]{2}", self.index):
            raise BadSettings(f'nri.index: "{self.index}": write two digits, such as 10')
