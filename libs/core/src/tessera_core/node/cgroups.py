"""Which container a process belongs to, by its line in /proc/<pid>/cgroup.

Both cgroup versions and both drivers are read: `/kubepods/burstable/pod<uid>/<id>` and
`/kubepods.slice/.../kubepods-pod<uid with _>.slice/cri-containerd-<id>.scope`.
"""

from __future__ import annotations

import re
from typing import Final

_ID: Final = re.compile(r"(?:^|[-/])([0-9a-f]{64})(?:\.scope)?(?:/|$)")


def container_of(cgroup: str) -> str:
    """The container's id, 64 hexadecimal digits; empty for a process of no container.

    `cgroup` is the file's whole text. The innermost container counts where several are nested.
    """
    for line in cgroup.splitlines():
        path = line.split(":", 2)[-1]
        found = _ID.findall(path)
        if found:
            return str(found[-1])
    return ""
