"""Container images without a registry: archives made of what is on this machine.

An image has the programs that it is made of and the libraries that they need, so a preloaded
library works in it as in an image of somebody's own.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).parent
PAUSE = "localhost/tessera/pause:1"
TOOLS = ("sh", "cat", "env", "ls", "mv", "rm", "sleep", "touch")
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


class Image:
    """What an image is made of: path in it -> file of this machine."""

    def __init__(
        self, name: str, files: Mapping[str, Path], command: Sequence[str],
        env: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.files = files
        self.config = {
            "Cmd": list(command),
            "Env": ["PATH=/bin", *(f"{key}={value}" for key, value in (env or {}).items())],
        }


def pause_image(folder: Path) -> Image:
    """What holds a sandbox."""
    program = folder / "pause"
    subprocess.run(
        ["gcc", "-Os", "-static", "-nostdlib", "-ffreestanding", "-fno-stack-protector",
         "-o", program, HERE / "pause.c"], check=True,
    )  # fmt: skip
    return Image(PAUSE, {"/pause": program}, ["/pause"])


def with_programs(programs: Mapping[str, Path]) -> dict[str, Path]:
    """These programs, a shell and a few tools, with all the libraries that they need."""
    files = dict(programs)
    files |= {f"/bin/{tool}": Path("/bin", tool).resolve() for tool in TOOLS}
    for library in sorted({name for file in files.values() for name in _libraries(file)}):
        files[library] = Path(library).resolve()
    return files


def archive(path: Path, *images: Image) -> Path:
    """Write images as `docker save` does, each of one layer."""
    manifest = []
    with tarfile.open(path, "w") as tar:
        for image in images:
            layer = _layer(image.files)
            digest = hashlib.sha256(layer).hexdigest()
            system = {"architecture": MACHINE, "os": "linux", "config": image.config}
            layers = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
            config = json.dumps({**system, "rootfs": layers}).encode()
            names = [f"{hashlib.sha256(config).hexdigest()}.json", f"{digest}.tar"]
            for name, content in zip(names, (config, layer), strict=True):
                _add(tar, name, content)
            manifest.append({"Config": names[0], "RepoTags": [image.name], "Layers": names[1:]})
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    return path


def _layer(files: Mapping[str, Path]) -> bytes:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for folder in ("tmp", "etc", "proc", "sys", "dev"):
            _add_folder(tar, folder)
        for path, source in files.items():
            _add(tar, path.lstrip("/"), source.read_bytes(), 0o755)
    return layer.getvalue()


def _libraries(program: Path) -> list[str]:
    """Paths of the libraries that a program is linked with, its loader among them."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, re.MULTILINE)


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(info)


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))
