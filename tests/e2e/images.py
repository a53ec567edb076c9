"""OCI images in memory, and a registry that serves them to a runtime under any host's name."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path

from aiohttp import web

from tests.e2e.network import NODE_IP
from tests.e2e.trees import Link, Tree

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
TAR = "application/vnd.oci.image.layer.v1.tar"
FOLDERS = ("dev", "etc", "proc", "sys", "tmp", "var")


class Layer:
    """Files of an image."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    @cached_property
    def data(self) -> bytes:
        """The layer, a tar file."""
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as tar:
            for name in FOLDERS:
                info = tarfile.TarInfo(name)
                info.type, info.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
                tar.addfile(info)
            for path, source in sorted(self._tree.items()):
                info = tarfile.TarInfo(path.lstrip("/"))
                if isinstance(source, Link):
                    info.type, info.linkname = tarfile.SYMTYPE, source.to
                    tar.addfile(info)
                elif isinstance(source, Path):
                    found = source.stat()
                    content = source.read_bytes()
                    info.size, info.mtime = len(content), int(found.st_mtime)
                    info.mode = found.st_mode & 0o777
                    tar.addfile(info, io.BytesIO(content))
                else:
                    info.size, info.mode = len(source.data), source.mode
                    tar.addfile(info, io.BytesIO(source.data))
        return made.getvalue()

    @cached_property
    def digest(self) -> str:
        """Its name."""
        return _digest(self.data)


class Image:
    """What a container starts from."""

    def __init__(
        self, layers: tuple[Layer, ...], command: tuple[str, ...],
        env: Mapping[str, str] | None = None, user: str = "",
    ) -> None:  # fmt: skip
        self.layers = layers
        self._config = {
            "Cmd": list(command), "User": user,
            "Env": [f"{key}={value}" for key, value in (env or {"PATH": "/bin"}).items()],
        }  # fmt: skip

    def topped(self, layer: Layer) -> Image:
        """The same with another layer upon it."""
        made = Image((*self.layers, layer), ())
        made._config = self._config
        return made

    @cached_property
    def config(self) -> bytes:
        """Its configuration."""
        rootfs = {"type": "layers", "diff_ids": [layer.digest for layer in self.layers]}
        system = {"architecture": MACHINE, "os": "linux", "config": self._config}
        return json.dumps({**system, "rootfs": rootfs}).encode()

    @cached_property
    def manifest(self) -> bytes:
        """What its tag stands for."""
        return json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, self.config),
            "layers": [_descriptor(TAR, layer.data, layer.digest) for layer in self.layers],
        }).encode()  # fmt: skip


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _descriptor(kind: str, data: bytes, digest: str = "") -> dict[str, object]:
    return {"mediaType": kind, "digest": digest or _digest(data), "size": len(data)}


@asynccontextmanager
async def open_registry(images: Mapping[str, Image], otherwise: Image) -> AsyncGenerator[str]:
    """Its URL. Images are known by `name:tag`, or by name for all other tags, without the host;
    every other name is the same one."""
    blobs: dict[str, bytes] = {}
    for image in (*images.values(), otherwise):
        blobs |= {layer.digest: layer.data for layer in image.layers}
        blobs |= {_digest(data): data for data in (image.config, image.manifest)}

    async def answer(request: web.Request) -> web.Response:
        path = request.path.removeprefix("/v2/")
        if not path:
            return web.json_response({})
        name, _, wanted = path.rpartition("/")
        name, _, what = name.rpartition("/")
        if what == "manifests":
            image = images.get(f"{name}:{wanted}") or images.get(name, otherwise)
            data = blobs.get(wanted) or image.manifest
            kind = MANIFEST
        else:
            data, kind = blobs.get(wanted, b""), "application/octet-stream"
        if not data:
            return web.Response(status=404)
        headers = {"Docker-Content-Digest": _digest(data), "Content-Type": kind}
        if request.method == "HEAD":
            headers["Content-Length"] = str(len(data))
            return web.Response(headers=headers)
        return web.Response(body=data, headers=headers)

    app = web.Application()
    app.router.add_get("/v2/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, NODE_IP, 5000)
    await site.start()
    try:
        yield f"http://{NODE_IP}:5000"
    finally:
        await runner.cleanup()
