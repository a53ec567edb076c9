"""Ends a container by its processes: neither NRI nor kubelet offers an agent a way as quick.

The runtime finds its container ended, as if it had ended by itself; kubelet starts it again where
its pod says so.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from tessera_agent.usage.process_owners import Owners


class ContainerProcesses:
    """The processes of the node's containers."""

    def __init__(self, proc_folder: str, owners: Owners) -> None:
        self._proc = Path(proc_folder)
        self._owners = owners

    def end(self, container: str, *, by_force: bool) -> int:
        """Send all processes of the container, by its id, SIGTERM, or SIGKILL `by_force`; how many
        there were. It reads a file for every process of the node: call it from a thread. Raises
        PermissionError."""
        number = signal.SIGKILL if by_force else signal.SIGTERM
        return sum(
            self._send(pid, container, number)
            for pid in self._all()
            if self._owners.container_of(pid) == container
        )

    def _all(self) -> tuple[int, ...]:
        return tuple(int(process.name) for process in self._proc.glob("[0-9]*"))

    def _send(self, pid: int, container: str, number: signal.Signals) -> bool:
        """Signal the process unless it has ended: by a descriptor, since its number may be another
        process's by now."""
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            try:
                if self._owners.container_of(pid) == container:
                    signal.pidfd_send_signal(descriptor, number)
                    return True
            finally:
                os.close(descriptor)
        return False
