"""Makes images of Tessera's own Dockerfiles without Docker: their last stage is carried out as far
as they go, with Python and packages of this machine in place of what earlier stages fetch.

A line that is not understood is an error, so that an image here is what the Dockerfile says.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.e2e.images import Image, Layer
from tests.e2e.trees import Content, Link, Tree, libraries, packages, python, shell

REPOSITORY = Path(__file__).parents[2]
LIBRARY = "/hook/build/release/libtessera.so"
BUILT = "/hook/build/"
"""Where a stage builds what this machine has in libs/hook/build."""
COMPILING = "python -m compileall -q /opt/tessera/lib"


class NotUnderstood(Exception):
    """A line of a Dockerfile that this builder does not know."""


Parts = dict[str, Path | Link | Content]


class _Last:
    """The last stage, as far as it has been carried out."""

    def __init__(self, service: str, lock: Path, hook: Path, scratch: Path) -> None:
        self._service, self._lock, self._hook, self._scratch = service, lock, hook, scratch
        self._repository = lock.parents[2]
        self.packages: Tree = {}
        self.tree: Parts = {}
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
        self._arguments: dict[str, str] = {}
        self.user = ""
        self.command: tuple[str, ...] = ()

    def take(self, word: str, rest: str) -> None:
        """One line. Raises NotUnderstood."""
        match word:
            case "COPY":
                self._copy(rest)
            case "ENV":
                self._set(shlex.split(rest))
            case "ARG":
                name, _, default = rest.partition("=")
                self._arguments[name] = default
            case "USER":
                self.user = rest
            case "CMD":
                self.command = tuple(re.findall(r'"([^"]*)"', rest))
            case "RUN" if rest == COMPILING:
                pass  # what was copied is compiled already
            case _:
                raise NotUnderstood(f"{self._service}: {word} {rest}")

    def _set(self, variables: list[str]) -> None:
        for assigned in variables:
            name, value = assigned.split("=", 1)
            for known, text in (self.environment | self._arguments).items():
                value = value.replace(f"${known}", text)
            self.environment[name] = value

    def _copy(self, rest: str) -> None:
        if "--from=packages" in rest:
            self.packages = packages(self._lock)
        elif f"--from=hook {LIBRARY} " in rest:
            self.tree[rest.split()[-1]] = self._hook
        elif f"--from=hook {BUILT}" in rest:
            self.tree |= _built(rest, self._repository)
        elif "--from=" in rest:
            raise NotUnderstood(f"{self._service}: COPY {rest}")
        else:
            self.tree |= _copied(rest, self._repository, self._scratch)


@cache
def base() -> Layer:
    """What all of them stand on."""
    return Layer({**shell(), **python()})


def build(service: str, hook: Path, folder: Path, repository: Path = REPOSITORY) -> Image:
    """The image of a service of this tree; `folder` is for all of them. Raises NotUnderstood."""
    images = repository / "deploy" / "images"
    stages = _stages((images / f"{service}.Dockerfile").read_text())
    lock = re.search(r"-r /tmp/(\S+\.lock)", _text(stages, "packages"))
    last = _Last(service, images / (lock[1] if lock else "none"), hook, folder)
    for word, rest in stages[-1][1]:
        last.take(word, rest)
    layers = (base(), Layer(last.packages), Layer(last.tree))
    return Image(layers, last.command, last.environment, last.user)


def _stages(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    stages: list[tuple[str, list[tuple[str, str]]]] = []
    lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", text)).splitlines()
    for line in filter(None, map(str.strip, lines)):
        word, rest = line.split(None, 1)
        if word == "FROM":
            stages.append((rest.partition(" AS ")[2], []))
        else:
            stages[-1][1].append((word, rest))
    return stages


def _text(stages: list[tuple[str, list[tuple[str, str]]]], name: str) -> str:
    return "\n".join(rest for stage, lines in stages if stage == name for _, rest in lines)


def _built(rest: str, repository: Path) -> Parts:
    """Programs and libraries into a folder, with what they are linked with."""
    *sources, target = rest.split()[1:]
    paths = [repository / "libs" / "hook" / "build" / s.removeprefix(BUILT) for s in sources]
    return libraries(paths) | {f"{target}{path.name}": path for path in paths}


def _copied(rest: str, repository: Path, scratch: Path) -> Parts:
    words = shlex.split(rest)
    mode = next((w.removeprefix("--chmod=") for w in words if w.startswith("--chmod=")), None)
    *sources, target = (word for word in words if not word.startswith("--"))
    tree: Parts = {}
    for source in sources:
        path = repository / source
        if path.is_dir():  # what is in it, as Docker has it
            kept = scratch / source
            if not kept.exists():  # for another image
                left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(path, kept, ignore=left_out)
                subprocess.run([sys.executable, "-m", "compileall", "-q", kept], check=True)
            tree |= {
                f"{target.rstrip('/')}/{file.relative_to(kept)}": file
                for file in kept.rglob("*") if file.is_file()
            }  # fmt: skip
        else:
            at = f"{target}{path.name}" if target.endswith("/") else target
            tree[at] = Content(path.read_bytes(), int(mode or "0644", 8))
    return tree
