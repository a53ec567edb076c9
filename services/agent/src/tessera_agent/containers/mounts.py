"""Whether the processes of a container still see what the agent had mounted: the limits file, the
hook and the file that loads it.

A volume that is mounted above them, and shared with another container, lets that container remove
the mount points: the kernel then takes the mounts off. A process with privileges may cover them.
The hook closes itself where its limits are gone; a process without the hook is detected only here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Final, Protocol

from tessera_core.bounded_cache import Cache
from tessera_core.hook import limits_file
from tessera_core.hook.paths import HOOK_LIBRARY, PRELOAD
from tessera_core.node.cgroups import container_of
from tessera_core.node.mountinfo import MountPoint, mount_of, origin_of, parse_mountinfo

MOST_PROCESSES: Final = 64
"""Processes of one container whose mounts one check reads. The others have their turn at the next
checks."""
MOST_MOUNTINFO_BYTES: Final = 1 << 20
"""Of one process. A container has some 30 mounts of 150 bytes; more than this is a gap."""
MOST_KNOWN: Final = 32 << 10
"""Bytes of digests of lists of mounts whose answer is remembered: a thousand of them, and
containers of one image have equal ones but for their own limits file."""
MOST_ORIGINS: Final = 1024
"""Limits files of which it is remembered where they lie."""
_OWN_S: Final = 1.0
"""Seconds for which the agent's own mounts are taken to be as they were."""
_INSIDE_S: Final = 30.0
"""Seconds for which a process is taken to be inside its container, or not: its cgroup takes longer
to read than its mounts."""
_MOST_INSIDE: Final = 4096
"""Processes of which that is remembered."""
_DIGEST: Final = 16
_READ_ONLY: Final = (limits_file.PATH, HOOK_LIBRARY, PRELOAD)


class MountChecker(Protocol):
    """Checks what containers see mounted."""

    def are_changed(self, container_id: str, limits: Path, pids: Iterable[int]) -> bool:
        """Whether one of these processes of the container sees something else than the agent had
        mounted; `limits` is the container's file on the node. Never raises."""
        ...


class ProcMounts:
    """Checks by the node's /proc."""

    def __init__(self, proc_folder: str) -> None:
        self._proc = proc_folder
        self._checks = 0
        self._own = ""
        """The agent's own mounts, as last read."""
        self._own_until = float("-inf")
        self._origin_of = _origins("")
        self._known = Cache[bool](MOST_KNOWN)
        self._inside: dict[tuple[str, int], tuple[bool, float]] = {}

    def are_changed(self, container_id: str, limits: Path, pids: Iterable[int]) -> bool:
        """See `MountChecker`. Processes outside the container's cgroup (a demo's) have no mounts of
        their own, and are skipped."""
        self._checks += 1
        origin = self._origin(limits)
        seen: dict[str, bool] = {}
        for pid in self._pids_of_this_check(sorted(set(pids) - {0})):
            if not self._is_inside(container_id, pid):
                continue
            text = self._text(pid, "mountinfo")
            if text and text not in seen:
                seen[text] = len(text) >= MOST_MOUNTINFO_BYTES or self._is_changed(text, origin)
        return any(seen.values())

    def _is_inside(self, container_id: str, pid: int) -> bool:
        now = monotonic()
        inside, until = self._inside.get((container_id, pid), (False, now))
        if now < until:
            return inside
        if len(self._inside) >= _MOST_INSIDE:
            self._inside.clear()
        inside = bool(container_id) and container_of(self._text(pid, "cgroup")) == container_id
        self._inside[container_id, pid] = inside, now + _INSIDE_S
        return inside

    def _pids_of_this_check(self, pids: Sequence[int]) -> Sequence[int]:
        if len(pids) <= MOST_PROCESSES:
            return pids
        at = self._checks * MOST_PROCESSES % len(pids)
        return (*pids[at:], *pids[:at])[:MOST_PROCESSES]

    def _is_changed(self, text: str, origin: tuple[str, str] | None) -> bool:
        key = blake2b(f"{origin}\n{text}".encode(), digest_size=_DIGEST).hexdigest()
        known = self._known.get(key)
        if known is None:
            known = _is_changed(text, origin)
            self._known.keep(key, known, 2 * _DIGEST)
        return known

    def _origin(self, limits: Path) -> tuple[str, str] | None:
        """Where the file lies, as mounts of it show it. None = it cannot be known."""
        now = monotonic()
        if now >= self._own_until:
            text = self._text("self", "mountinfo")
            if text != self._own:
                self._own, self._origin_of = text, _origins(text)
            self._own_until = now + _OWN_S
        return self._origin_of(limits)

    def _text(self, pid: int | str, name: str) -> str:
        path = f"{self._proc}/{pid}/{name}"
        try:
            with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123  (half the time)
                return file.read(MOST_MOUNTINFO_BYTES)
        except OSError:
            return ""


def _origins(text: str) -> Callable[[Path], tuple[str, str] | None]:
    """Where files lie, by the agent's own mounts."""
    mounts = parse_mountinfo(text)

    @lru_cache(MOST_ORIGINS)
    def origin(limits: Path) -> tuple[str, str] | None:
        return origin_of(mounts, os.path.realpath(limits))

    return origin


def _is_changed(text: str, origin: tuple[str, str] | None) -> bool:
    mounts = parse_mountinfo(text)
    found: Mapping[str, MountPoint | None] = {path: mount_of(mounts, path) for path in _READ_ONLY}
    if any(m is None or m.point != path or not m.read_only for path, m in found.items()):
        return True
    limits = found[limits_file.PATH]
    return origin is not None and limits is not None and (limits.device, limits.root) != origin
