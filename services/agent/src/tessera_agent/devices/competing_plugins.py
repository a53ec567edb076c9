"""Others on the node that would hand out the same cards: device plugins and DRA drivers, found by
their sockets below kubelet's folder. They are never touched."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tessera_core.dialect_kit.monitoring import CompetingPlugin

PREFIX: Final = "tessera"
"""How the names of our own plugin's sockets begin."""
_CONNECT_S: Final = 0.2
"""A socket of this machine answers at once or not at all."""


def competing_plugins_on(kubelet_folder: str, rivals: Sequence[CompetingPlugin]) -> tuple[str, ...]:
    """Names of those that run. A socket whose process is gone does not count, nor does our own
    plugin's. Blocks: call it from a thread. A folder that is not there has nobody in it."""
    root = Path(kubelet_folder)
    return tuple(
        rival.name
        for rival in rivals
        if any(_answers(path) for path in sorted(root.glob(rival.socket)) if not _is_ours(path))
    )  # fmt: skip


def _is_ours(path: Path) -> bool:
    return path.name.startswith(f"{PREFIX}-")


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asked:
        asked.settimeout(_CONNECT_S)
        try:
            asked.connect(str(path))
        except PermissionError:
            return True
        except OSError:
            return False
    return True
