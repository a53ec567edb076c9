"""What a process sees mounted, by the text of its /proc/<pid>/mountinfo (proc(5), Linux).

A mount can be there and yet not be seen: another may lie on top of it, or on a folder above it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")
_FIELDS: Final = 6
_READ_ONLY: Final = "ro"


class MountPoint(Struct, frozen=True, kw_only=True):
    """One line."""

    id: int
    parent: int
    device: str
    """Of the file system: major:minor."""
    root: str
    """What of the file system is mounted: a path in it."""
    point: str
    """Where, as the process sees it."""
    read_only: bool


def parse_mountinfo(text: str) -> tuple[MountPoint, ...]:
    """The lines in their order. A line that is none is left out."""
    found = (_parsed(line) for line in text.splitlines())
    return tuple(mount for mount in found if mount is not None)


def _parsed(line: str) -> MountPoint | None:
    # 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
    own, _, file_system = line.partition(" - ")
    fields = own.split(" ")
    if len(fields) < _FIELDS or not (fields[0].isdecimal() and fields[1].isdecimal()):
        return None
    options = (*fields[5].split(","), *file_system.rpartition(" ")[2].split(","))
    return MountPoint(
        id=int(fields[0]), parent=int(fields[1]), device=fields[2], root=_plain(fields[3]),
        point=_plain(fields[4]), read_only=_READ_ONLY in options,
    )  # fmt: skip


def _plain(path: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), path)


def mount_of(mounts: Sequence[MountPoint], path: str) -> MountPoint | None:
    """The mount that an absolute path without links leads to; None where its root is not shown.

    From the root on, each mount on the way is entered: of those that lie on one mount, the one that
    the path reaches first.
    """
    ids = {mount.id for mount in mounts}
    roots = [mount for mount in mounts if mount.point == "/" and mount.parent not in ids]
    if not roots:
        return None
    entered = roots[-1]
    left = [mount for mount in mounts if mount is not entered and _leads_to(mount, path)]
    while True:
        on_it = [mount for mount in left if mount.parent == entered.id]
        if not on_it:
            return entered
        entered = min(on_it, key=lambda mount: len(mount.point))
        left.remove(entered)


def _leads_to(mount: MountPoint, path: str) -> bool:
    return mount.point == "/" or f"{path}/".startswith(f"{mount.point}/")


def origin_of(mounts: Sequence[MountPoint], path: str) -> tuple[str, str] | None:
    """Device and path in its file system of what an absolute path without links leads to."""
    mount = mount_of(mounts, path)
    if mount is None:
        return None
    below = path if mount.point == "/" else path[len(mount.point) :]
    return mount.device, f"{mount.root.rstrip('/')}{below}" or "/"
