"""What can be seen of containers on their nodes: what they were given, and what they printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from tessera_demo.promises import Inside
from tessera_embedded.node.container import ContainerRecord
from tessera_embedded.node.environment import HOOK_FILES


def container_record(node_folder: Path, uid: str, container: str) -> ContainerRecord | None:
    """How the node created a container; None where it did not (yet)."""
    with suppress(OSError, msgspec.DecodeError):
        text = (node_folder / "pods" / uid / container / "kept").read_bytes()
        return msgspec.json.decode(text, type=ContainerRecord)
    return None


def inside(node_folder: Path, uid: str, container: str) -> Inside:
    """What was seen in a container that the hook is to hold."""
    found = container_record(node_folder, uid, container)
    if found is None:
        return Inside(unlike="its node has no record of it")
    mounts = [mount.destination for mount in found.container.mounts]
    if not HOOK_FILES.keys() <= set(mounts):
        return Inside(unlike=f"it runs without the hook: its mounts are {mounts}")
    return Inside(lines=printed(node_folder, uid, container))


def printed(node_folder: Path, uid: str, container: str) -> Sequence[Mapping[str, Any]]:
    """What its process printed since it last started, a JSON object a line."""
    with suppress(OSError):
        text = (node_folder / "pods" / uid / container / "log").read_text(errors="replace")
        lines = [_object(line) for line in text.splitlines()]
        starts = [i for i, line in enumerate(lines) if line.get("index") == 0]
        return lines[starts[-1] if starts else 0 :]
    return ()


def _object(line: str) -> dict[str, Any]:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(line, type=dict[str, Any])
    return {"text": line}
