"""The node's two files, and the journal of a change, below the node's root.

A symlink on the way is followed as the node follows it: an absolute one begins at the node's root,
not at this container's.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

from tessera_core.node.containerd_config import ConfigPaths, ContainerdFiles, ContainerdRefused
from tessera_runtime import atomic_write

JOURNAL: Final = "former.json"
STAGED: Final = "staged"
MOST_LINKS: Final = 40
PRIVATE: Final = 0o600
"""A configuration may hold passwords of registries."""
_encode: Final = msgspec.json.Encoder().encode


def below(root: Path, path: str) -> Path:
    """Where the node's `path` is. Raises ContainerdRefused where links lead in a circle."""
    found, left, links = root, list(reversed(Path(path).parts[1:])), 0
    while left:
        part = left.pop()
        if part == "..":
            found = found if found == root else found.parent
            continue
        try:
            target = Path((found / part).readlink())
        except OSError:
            found /= part
            continue
        links += 1
        if links > MOST_LINKS:
            raise ContainerdRefused(f"{path}: its links lead in a circle: mend them")
        if target.is_absolute():
            found, target = root, target.relative_to("/")
        left.extend(reversed(target.parts))
    return found


class StoredFiles:
    """The files of one node. Everything blocks: call it in a thread."""

    def __init__(self, root: Path, paths: ConfigPaths, state: str) -> None:
        """`state` is the node's folder of what a change needs while it lasts."""
        self.root = root
        self.paths = paths
        self.state = state

    def read(self) -> ContainerdFiles:
        """What is there. Raises ContainerdRefused."""
        folder = below(self.root, str(Path(self.paths.config).parent))
        if (folder / Path(self.paths.config).name).is_symlink():
            raise ContainerdRefused(
                f"{self.paths.config}: it is a link, so something else writes it: have that import "
                f'"{self.paths.pattern}", or put a file in its place'
            )
        return ContainerdFiles(self._content(self.paths.config), self._content(self.paths.drop_in))

    def write(self, wanted: ContainerdFiles) -> None:
        """Put these there; what is as wanted is not written. The drop-in is there before it is
        imported, and goes after its import."""
        present = self.read()
        writes = [
            (self.paths.drop_in, present.drop_in, wanted.drop_in),
            (self.paths.config, present.config, wanted.config),
        ]
        for path, before, after in writes if wanted.drop_in is not None else reversed(writes):
            if before != after:
                self._put(path, after)

    def back_up(self, config: bytes | None) -> None:
        """Leave a copy of the administrator's file next to it, unless there is one."""
        path = below(self.root, self.paths.backup)
        if config is not None and not path.exists():
            self._put(self.paths.backup, config, like=self.paths.config)

    def drop_backup(self, config: bytes | None) -> None:
        """Remove the copy once the file is as it was."""
        if config is not None and self._content(self.paths.backup) == config:
            below(self.root, self.paths.backup).unlink()

    def begin(self, former: ContainerdFiles) -> None:
        """Store the former files before the first is changed, through a loss of power."""
        below(self.root, self.state).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._put(f"{self.state}/{JOURNAL}", _encode(former))

    def begun(self) -> ContainerdFiles | None:
        """The former files of a change that did not end; None = every change did."""
        content = self._content(f"{self.state}/{JOURNAL}")
        return msgspec.json.decode(content, type=ContainerdFiles) if content is not None else None

    def end(self) -> None:
        """The change has ended, in one way or the other."""
        below(self.root, f"{self.state}/{JOURNAL}").unlink(missing_ok=True)

    def stage(self, files: ContainerdFiles) -> str:
        """A copy of containerd's folder with these files, as the node sees it: what `containerd
        config dump` is tried with. It replaces the former copy."""
        shown = f"{self.state}/{STAGED}"
        below(self.root, self.state).mkdir(mode=0o700, parents=True, exist_ok=True)
        copy, real = below(self.root, shown), Path(self.paths.config).parent
        shutil.rmtree(copy, ignore_errors=True)
        source = below(self.root, str(real))
        if source.is_dir():
            shutil.copytree(source, copy, symlinks=True, ignore=_special)
        copy.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, content in (
            (self.paths.config, files.config),
            (self.paths.drop_in, files.drop_in),
        ):
            place = copy / Path(path).relative_to(real)
            if content is None:
                place.unlink(missing_ok=True)
            else:
                atomic_write.replace(place, content, PRIVATE)
        return shown

    def drop_stage(self) -> None:
        """Remove the copy."""
        shutil.rmtree(below(self.root, f"{self.state}/{STAGED}"), ignore_errors=True)

    def _content(self, path: str) -> bytes | None:
        try:
            return below(self.root, path).read_bytes()
        except FileNotFoundError:
            return None

    def _put(self, path: str, content: bytes | None, like: str = "") -> None:
        """Through a loss of power, with the mode of the file that is there, or of `like`."""
        place = below(self.root, path)
        if content is None:
            place.unlink(missing_ok=True)
            _sync(place.parent)
            return
        model = below(self.root, like or path)
        mode = model.stat().st_mode & 0o777 if model.exists() else PRIVATE
        atomic_write.replace(place, content, mode)
        _sync(place)
        _sync(place.parent)


def _special(folder: str, names: list[str]) -> list[str]:
    """Sockets and their like, which have no content."""
    paths = {name: Path(folder, name) for name in names}
    return [n for n, p in paths.items() if not (p.is_symlink() or p.is_file() or p.is_dir())]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
