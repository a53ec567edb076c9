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
_NOT_TELLING: Final = frozenset({408, 425})
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
        told = _read(content)
    except msgspec.DecodeError:
        told = StatusObject()
    if told.kind == "Status":
        return told
    return StatusObject(message=content[:_TEXT_MOST].decode("utf-8", "replace").strip())


def refusal(what: str, told: StatusObject, *, retry_after: str = "") -> TesseraError:
    """What a refusal means. `what` was asked; `retry_after` is the header's value."""
    text = f"{what}: {told.message}"
    if told.code == 429:
        return ApiBusy(text, _seconds(retry_after))
    if told.code < 400 or told.code >= 500 or told.code in _NOT_TELLING:
        return ApiLost(f"{what}: {told.code} {told.reason}: {told.message}")
    return _KINDS.get(told.code, ApiRefused)(told.code, told.reason, text)


def check(what: str, code: int, headers: Mapping[str, str], content: bytes) -> None:
    """Raise what an answer means, unless it is a success."""
    if not 200 <= code < 300:
        told = msgspec.structs.replace(status_of(content), code=code)
        raise refusal(what, told, retry_after=headers.get("Retry-After", ""))


def _seconds(text: str) -> float:
    try:
        return min(max(float(text), 0.0), RETRY_MOST_S)
    except ValueError:
        return 1.0
