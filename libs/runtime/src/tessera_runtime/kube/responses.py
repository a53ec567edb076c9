"""What a status means: the one place where it is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from tessera_runtime.errors import (
    ApiBusy,
    ApiConflict,
    ApiExpired,
    ApiForbidden,
    ApiLost,
    ApiNotFound,
    ApiRefused,
    TesseraError,
)
from tessera_schema.json_codec import decoder

_TEXT_MOST: Final = 500
_KINDS: Final[Mapping[int, type[ApiRefused]]] = {
    401: ApiForbidden, 403: ApiForbidden, 404: ApiNotFound, 409: ApiConflict, 410: ApiExpired,
}  # fmt: skip
_UNCERTAIN: Final = frozenset({408, 425})
"""Refusals by whatever stands in between; what is behind it may have gone on."""
RETRY_MOST_S: Final = 60.0


class StatusObject(Struct, frozen=True):
    """The body of an answer that refuses. `reason` is empty where it was not the API server who
    spoke, but a proxy, or a server of something else."""

    kind: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0


_read: Final = decoder(StatusObject)


def status_of(content: bytes) -> StatusObject:
    """The body as a Status; one of another form becomes the message."""
    try:
        status = _read(content)
    except msgspec.DecodeError:
        status = StatusObject()
    if status.kind == "Status":
        return status
    return StatusObject(message=content[:_TEXT_MOST].decode("utf-8", "replace").strip())


def refusal(what: str, status: StatusObject, *, retry_after: str = "") -> TesseraError:
    """The error that a refusal means. `what` names the call; `retry_after` is the header's
    value."""
    text = f"{what}: {status.message}"
    if status.code == 429:
        return ApiBusy(text, _seconds(retry_after))
    if status.code < 400 or status.code >= 500 or status.code in _UNCERTAIN:
        return ApiLost(f"{what}: {status.code} {status.reason}: {status.message}")
    return _KINDS.get(status.code, ApiRefused)(status.code, status.reason, text)


def check(what: str, code: int, headers: Mapping[str, str], content: bytes) -> None:
    """Raise what an answer means, unless it is a success."""
    if not 200 <= code < 300:
        status = msgspec.structs.replace(status_of(content), code=code)
        raise refusal(what, status, retry_after=headers.get("Retry-After", ""))


def _seconds(text: str) -> float:
    try:
        return min(max(float(text), 0.0), RETRY_MOST_S)
    except ValueError:
        return 1.0
