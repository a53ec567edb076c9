"""The release that users upgrade from: its tree, out of git's history, with its hook and images.

`python -m tests.e2e.former_release` fetches it where a clone has not the whole history. `make e2e`
does so before it gives up the network.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.e2e import dockerfile
from tests.e2e.images import Image

COMMIT = "00badb6510a49b67d6f69d64d564b01264413f91"
"""The last one before one command installed Tessera: passwords were made by hand, nobody owned the
webhooks' registrations, there were no best-effort shares, streams of gangs, or images of consoles.
The next release takes its place here once there is one."""
TAG = "former"
SERVICES = ("scheduler", "agent", "quota", "rebalancer")


class HistoryMissing(Exception):
    """The clone has no such commit; the message says how to get it."""


def take_out(folder: Path) -> Path:
    """Its tree, with its hook built; the folder. Raises HistoryMissing."""
    if not _is_there():
        raise HistoryMissing(
            f"tests/e2e: commit {COMMIT} is not in this clone, and `make e2e` could not fetch it:"
            " git fetch --unshallow"
        )
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", folder], input=_git("archive", COMMIT).stdout, check=True)
    make = ["make", "-s", f"-j{os.cpu_count()}", "-C", f"{folder}/libs/hook"]
    subprocess.run([*make, "build/libtessera.so"], check=True)
    return folder


def former_images(tree: Path, scratch: Path) -> dict[str, Image]:
    """By name and tag."""
    hook = tree / "libs" / "hook" / "build" / "libtessera.so"
    return {
        f"tessera/{service}:{TAG}": dockerfile.build(service, hook, scratch, tree)
        for service in SERVICES
    }


def _is_there() -> bool:
    return _git("cat-file", "-e", f"{COMMIT}^{{commit}}").returncode == 0


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    command = ["git", "-C", str(dockerfile.REPOSITORY), *words]
    return subprocess.run(command, capture_output=True, check=False)


if __name__ == "__main__":
    if not _is_there():
        _git("fetch", "--quiet", "--depth=1", "origin", COMMIT)
