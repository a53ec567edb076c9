"""Settings of the aggregated API."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from tessera_runtime.http.server import HttpSettings

WAITING_MOST: Final = 64
"""Requests that are answered or wait at a time."""
USER_MOST: Final = 8
"""Those of one user among them."""

Seconds = Annotated[float, Meta(gt=0)]


class VisibilitySettings(Struct, frozen=True, kw_only=True):
    """The API `visibility.tessera.dev`, whose requests the API server passes on."""

    enabled: bool = True
    """False = it is not served; an APIService that is there has to be deleted by hand."""
    register: bool = True
    """False where another program maintains the APIService."""
    http: HttpSettings = HttpSettings(host="0.0.0.0", port=8444, body_bytes=64 * 2**10)  # noqa: S104  (the API server comes from elsewhere)
    """Where it listens. Nothing that is asked has a body, and none is read."""
    service_port: Annotated[int, Meta(ge=1, le=65535)] = 8444
    """Port of the Service that the webhook has, too, under which the API server reaches it."""
    refresh_s: Seconds = 60.0
    """Seconds between two checks of the APIService and of the front proxy's authority."""
    review_s: Seconds = 10.0
    """Seconds for which an answer of the API server about a user's rights is remembered."""
    at_once: Annotated[int, Meta(gt=0)] = 2
    """Explanations that are computed at the same time; more wait. Filter and bind go first."""
    waiting: Annotated[int, Meta(gt=0)] = WAITING_MOST
    """Requests that are answered or wait at the same time; more are answered 429."""
    whole_s: Seconds = 20.0
    """Seconds until one is given up, waiting included."""
