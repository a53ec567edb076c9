"""What images are made of, taken from this machine: Python with what it needs, a shell with a few
tools, and packages by a lock file.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from importlib.metadata import distribution
from importlib.util import cache_from_source
from pathlib import Path

from msgspec import Struct

LEFT_OUT = {"site-packages", "test", "tests", "idlelib", "tkinter", "ensurepip", "turtledemo"}
"""Folders of the standard library that no service needs."""
TOOLS = (
    "sh", "bash", "cat", "chmod", "cmp", "cp", "cut", "dirname", "env", "ln", "ls", "mkdir", "mv",
    "readlink", "rm", "sha256sum", "sleep", "sync", "touch", "true", "uname",
)  # fmt: skip


class Link(Struct, frozen=True):
    """A symbolic link."""

    to: str


class Content(Struct, frozen=True):
    """A file that is nowhere on this machine."""

    data: bytes
    mode: int = 0o644


Tree = Mapping[str, Path | Link | Content]
"""Path in an image -> where it comes from."""


def shell() -> Tree:
    """A shell and a few tools, with their libraries."""
    found = {name: _which(name) for name in TOOLS}
    tree: dict[str, Path | Link | Content] = {f"/bin/{n}": path for n, path in found.items()}
    tree["/usr/bin"] = Link("/bin")
    return {**tree, **libraries(found.values())}


def python() -> Tree:
    """Python under /usr/local, as its own images have it."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    program = Path(sys.base_prefix, "bin", version).resolve()
    library = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix}))
    tree: dict[str, Path | Link | Content] = {f"/usr/local/bin/{version}": program}
    tree |= {f"/usr/local/bin/{name}": Link(version) for name in ("python", "python3")}
    tree |= {
        f"/usr/local/lib/{version}/{path.relative_to(library)}": path
        for path in _files(library)
        if not path.relative_to(library).parts[0].startswith("config-")
    }
    return {**tree, **libraries([program, *(library / "lib-dynload").glob("*.so")])}


def packages(lock: Path) -> Tree:
    """A virtual environment in /opt/tessera/python with what the lock file lists."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    root = "/opt/tessera/python"
    tree: dict[str, Path | Link | Content] = {
        f"{root}/bin/python": Link(f"/usr/local/bin/{version}"),
        f"{root}/pyvenv.cfg": Content(b"home = /usr/local/bin\n"),
    }
    shared = []
    for name in re.findall(r"^([A-Za-z0-9_.-]+)==", lock.read_text(), re.MULTILINE):
        for listed in distribution(name).files or ():
            path = Path(str(listed.locate())).resolve()
            inside = Path(str(listed))
            if inside.parts[0] == ".." or not path.is_file():
                continue
            tree[f"{root}/lib/{version}/site-packages/{inside}"] = path
            compiled = Path(cache_from_source(str(path)))
            if path.suffix == ".py" and compiled.is_file():
                tree[f"{root}/lib/{version}/site-packages/{inside.parent}/__pycache__/"
                     f"{compiled.name}"] = compiled  # fmt: skip
            if ".so" in path.suffixes:
                shared.append(path)
    own = {str(path) for path in tree.values() if isinstance(path, Path)}
    needed = {name: at for name, at in libraries(shared).items() if str(at) not in own}
    return {**tree, **needed}


def libraries(programs: Iterable[Path]) -> dict[str, Path | Link | Content]:
    """The shared libraries that programs are linked with, their loader among them."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    names = set(re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, re.MULTILINE))
    return {name: Path(name).resolve() for name in names}


def _files(folder: Path) -> Iterable[Path]:
    for at, folders, names in os.walk(folder):
        folders[:] = set(folders) - LEFT_OUT
        for path in (Path(at, name) for name in names if name not in LEFT_OUT):
            if path.is_file() and not path.is_symlink():
                yield path


def _which(name: str) -> Path:
    return next(p for at in ("/bin", "/usr/bin") if (p := Path(at, name)).exists()).resolve()
