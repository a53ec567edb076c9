"""The files that kubelet and its plugins meet at, and how to distinguish a file from its
successor.

Kubelet does not announce that it has restarted: it deletes every socket of the folder and makes its
own again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from pathlib import Path
from typing import NamedTuple

from tessera_kubelet.device_plugin.protobuf import KUBELETS_SOCKET
from tessera_kubelet.errors import PluginNameInvalid, SocketUnusable
from tessera_kubelet.grpc_channel import LONGEST_PATH

_LONGEST_NAME = 40
"""Characters of a resource's name that are in its socket's name as they are."""


class FileIdentity(NamedTuple):
    """Which file lies at a path: inode numbers are used again at once, times are not."""

    device: int
    inode: int
    changed_ns: int


async def file_identity(path: Path) -> FileIdentity | None:
    """The file at the path; None = there is none."""
    try:
        found = await asyncio.to_thread(os.lstat, path)
    except OSError:
        return None
    return FileIdentity(found.st_dev, found.st_ino, found.st_ctime_ns)


def kubelets_socket(folder: Path) -> Path:
    """Where kubelet takes registrations."""
    return folder / KUBELETS_SOCKET


def plugins_socket(folder: Path, prefix: str, resource: str) -> Path:
    """Where the plugin `prefix` answers for this resource: the same each time, another one for
    every resource. Raises PluginNameInvalid, SocketUnusable."""
    if not re.fullmatch("[a-z0-9-]{1,16}", prefix):
        raise PluginNameInvalid(f'prefix: "{prefix}" must be 1 to 16 of a-z, 0-9 and -')
    path = folder / f"{prefix}-{_short(resource)}.sock"
    if len(os.fsencode(path)) > LONGEST_PATH:
        raise SocketUnusable(
            f"{path}: a socket's path has {LONGEST_PATH} bytes at most; choose another folder"
        )
    return path


def _short(resource: str) -> str:
    plain = resource.replace("/", "_")
    if len(plain) <= _LONGEST_NAME and re.fullmatch("[A-Za-z0-9._-]*", plain):
        return plain
    digest = hashlib.sha256(resource.encode()).hexdigest()[:8]
    readable = re.sub("[^A-Za-z0-9._-]", "_", plain)[: _LONGEST_NAME - 9]
    return f"{readable}-{digest}"
