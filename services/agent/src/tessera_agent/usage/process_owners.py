"""Which container a process of the node belongs to: by its cgroup, and where that says nothing
(containers that are plain processes) by its ancestors.

A process may end, and its number be used again, between the driver's answer and this lookup: the
next lookup is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from tessera_core.node.cgroups import container_of

_MOST_ANCESTORS: Final = 64
_PARENT: Final = 1
"""Of the fields of /proc/<pid>/stat that follow the name in brackets."""


def containers_in(proc_folder: str) -> frozenset[str]:
    """The ids of all containers of which a process runs on the node. It reads a file for every
    process: call it from a thread."""
    found = set()
    for cgroup in Path(proc_folder).glob("[0-9]*/cgroup"):
        with suppress(OSError):
            found.add(container_of(cgroup.read_text(errors="replace")))
    return frozenset(found - {""})


class Owners(Protocol):
    """Finds the container of a process."""

    def container_of(self, pid: int) -> str:
        """The container's id as the runtime knows it; empty for a process of none. Never raises."""
        ...


class ProcOwners:
    """Finds owners by the node's /proc."""

    def __init__(self, proc_folder: str, roots: Callable[[], Mapping[int, str]]) -> None:
        """`roots` gives the first process of each container, as the runtime reported it: pid ->
        id."""
        self._proc = proc_folder
        self._roots = roots

    def container_of(self, pid: int) -> str:
        """The container by the process's cgroup, or by its ancestors."""
        return container_of(self._text(pid, "cgroup")) or self._by_ancestors(pid)

    def _by_ancestors(self, pid: int) -> str:
        roots = self._roots()
        for _ in range(_MOST_ANCESTORS if roots else 0):
            if pid in roots:
                return roots[pid]
            pid = self._parent(pid)
            if pid <= 1:
                break
        return ""

    def _parent(self, pid: int) -> int:
        fields = self._text(pid, "stat").rpartition(")")[2].split()
        return int(fields[_PARENT]) if len(fields) > _PARENT else 0

    def _text(self, pid: int, name: str) -> str:
        try:
            with open(f"{self._proc}/{pid}/{name}", errors="replace") as file:  # noqa: PTH123  (half the time)
                return file.read()
        except OSError:
            return ""
