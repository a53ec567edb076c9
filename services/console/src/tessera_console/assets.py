"""The page's own files, read once. Nothing else of the disk can be asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from typing import Final

from aiohttp import web
from msgspec import Struct

_KINDS: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}  # fmt: skip
PAGE: Final = "index.html"
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
"""Of every answer. No script runs but the page's own files; no host but this one is called."""


class PageAsset(Struct, frozen=True):
    """One file."""

    body: bytes
    kind: str
    tag: str
    """Its ETag."""


def read_assets() -> dict[str, PageAsset]:
    """Name -> file, of all that the package has."""
    found = {}
    for file in resources.files("tessera_console").joinpath("static").iterdir():
        kind = _KINDS.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            body = file.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
            found[file.name] = PageAsset(body, kind, tag)
    return found


def asset_answer(request: web.Request, asset: PageAsset) -> web.Response:
    """The file, or that it has not changed. Browsers ask each time: it is small, and a new release
    is there at once."""
    headers = {**HEADERS, "Cache-Control": "no-cache", "ETag": asset.tag}
    if request.headers.get("If-None-Match") == asset.tag:
        return web.Response(status=304, headers=headers)
    return web.Response(body=asset.body, headers={**headers, "Content-Type": asset.kind})
