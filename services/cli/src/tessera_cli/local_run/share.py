"""`tessera share`: reserved shares, and the CDI specifications by which containers get them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from tessera_cli.errors import CommandError
from tessera_cli.local_run.client import NoLocalDaemon, answer_to
from tessera_schema.local_shares import ShareFreed, ShareGiven, ShareUnwanted, ShareWanted

KIND: Final = "tessera.dev/share"
_VERSION: Final = "0.6.0"


class NoSpecification(CommandError):
    """The CDI specification cannot be written or removed."""


def create(wanted: ShareWanted, options: argparse.Namespace) -> int:
    """Reserve the share and write its specification. Raises NoLocalDaemon, NoSpecification."""
    given = answer_to(options, wanted)
    if not isinstance(given, ShareGiven):
        raise NoLocalDaemon("the daemon is of another release: end it")
    path = _path(options, given.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(specification(given)), indent=2))
        new.replace(path)
    except OSError as e:
        answer_to(options, ShareUnwanted(given.name))
        raise NoSpecification(str(path), f"{e.strerror}: name another --cdi-folder") from e
    sys.stdout.write(f"{KIND}={given.name}\n")
    return 0


def remove(options: argparse.Namespace) -> int:
    """Free the share. Raises NoLocalDaemon, NoSpecification."""
    if not isinstance(answer_to(options, ShareUnwanted(options.name)), ShareFreed):
        raise NoLocalDaemon("the daemon is of another release: end it")
    path = _path(options, options.name)
    try:
        path.unlink(missing_ok=True)
    except OSError as e:
        raise NoSpecification(str(path), f"{e.strerror}: remove it") from e
    return 0


def specification(given: ShareGiven) -> dict[str, Any]:
    """The CDI specification of one share."""
    mounts = [
        {"hostPath": source, "containerPath": path, "options": ["bind", "nosuid", "nodev", mode]}
        for files, mode in ((given.files, "ro"), (given.written, "rw"))
        for path, source in files.items()
    ]
    nodes = [
        {"path": path, "hostPath": source, "permissions": "rw"}
        for path, source in given.devices.items()
    ]
    edits: dict[str, Any] = {
        "env": [f"{k}={v}" for k, v in given.container_env.items()], "mounts": mounts,
    }  # fmt: skip
    if nodes:
        edits["deviceNodes"] = nodes
    return {
        "cdiVersion": _VERSION, "kind": KIND,
        "devices": [{"name": given.name, "containerEdits": edits}],
    }  # fmt: skip


def _path(options: argparse.Namespace, name: str) -> Path:
    folder: Path = options.cdi_folder
    return folder / f"tessera-share-{name}.json"
