"""How the server behaves where Kubernetes leaves it open; every default is right for a laptop."""

from __future__ import annotations

from msgspec import Struct

from tessera_embedded.apiserver.objects.object_store import WINDOW


class ApiServerSettings(Struct, frozen=True):
    """Numbers of one server."""

    host: str = "127.0.0.1"
    """Address to listen on; the certificate is good for this one and localhost."""

    window: int = WINDOW
    """Changes of each kind that watches can resume from; older ones answer 410."""

    bookmark_s: float = 60.0
    """How often a quiet watch that wants bookmarks gets one; the real server does so too."""

    watch_s: float = 1800.0
    """The longest life of a watch; clients resume. The real server takes 30 to 60 minutes."""

    body_bytes: int = 3 * 1024 * 1024
    """The largest request body, as in the real server."""

    stop_s: float = 2.0
    """How long requests in flight may take to end when the server stops."""
