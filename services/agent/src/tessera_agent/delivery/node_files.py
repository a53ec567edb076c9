"""Which device nodes and files of interest are on the node, as they were looked for last."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from stat import S_ISCHR

from msgspec import Struct

from tessera_kubelet.nri.types import NriDevice


class NodeFiles(Struct, frozen=True, kw_only=True):
    """What was there."""

    nodes: Mapping[str, NriDevice] = {}
    """By path on the node, in the order of paths."""
    others: frozenset[str] = frozenset()
    """Paths of files and folders."""

    def matching(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """The device nodes that one of these patterns names."""
        wanted = tuple(patterns)
        return tuple(
            path for path in self.nodes if any(fnmatchcase(path, pattern) for pattern in wanted)
        )


def read_node_files(root: Path, patterns: Iterable[str], others: Iterable[str]) -> NodeFiles:
    """Look for device nodes by patterns, and for other files by their paths. It blocks."""
    found = {path: node for pattern in patterns for path, node in _nodes(root, pattern)}
    return NodeFiles(
        nodes=dict(sorted(found.items())),
        others=frozenset(path for path in others if is_there(root / path.lstrip("/"))),
    )


def is_there(path: Path) -> bool:
    """Whether a file can be seen; one that may not be looked for cannot. It blocks."""
    try:
        return path.exists()
    except OSError:
        return False


def _nodes(root: Path, pattern: str) -> Iterator[tuple[str, NriDevice]]:
    for seen in root.glob(pattern.lstrip("/")):
        path = f"/{seen.relative_to(root)}"
        with suppress(OSError):
            found = seen.stat()
            if S_ISCHR(found.st_mode):
                major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
                yield path, NriDevice(path=path, major=major, minor=minor)
