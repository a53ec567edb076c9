"""Faults on demand: what tests and the demo make the API server do to its callers.

    server.faults.add(Fault("POST", r".*/binding", Cut(after=True)))

The next requests that match get the fault, as often as it says, oldest fault first.
"""

from __future__ import annotations

import re

from msgspec import Struct

from tessera_embedded.apiserver.http_types import Response, answer


class Answer(Struct, frozen=True, tag=True):
    """Refuse with this code, and do nothing."""

    code: int
    message: str = "a fault that was asked for"
    retry_after_s: int = 0


class Hang(Struct, frozen=True, tag=True):
    """Do nothing and never answer; the client's patience ends it."""


class Cut(Struct, frozen=True, tag=True):
    """Cut the connection, before or after the request was carried out."""

    after: bool = False


class Delay(Struct, frozen=True, tag=True):
    """Carry the request out later."""

    seconds: float


Effect = Answer | Hang | Cut | Delay

_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict",
    410: "Expired", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError",
    503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


class InjectedFault(Struct, frozen=True):
    """Which requests, and what becomes of them."""

    method: str
    """`POST`, or `*` for any."""
    path: str
    """A regular expression for the whole path."""
    effect: Effect
    times: int = 1


class Faults:
    """The faults that are waiting for their requests."""

    def __init__(self) -> None:
        self._waiting: list[tuple[InjectedFault, re.Pattern[str], int]] = []

    def add(self, fault: InjectedFault) -> None:
        """Let the next requests that match have this fault."""
        self._waiting.append((fault, re.compile(fault.path), fault.times))

    def clear(self) -> None:
        """No more faults."""
        self._waiting.clear()

    @property
    def waiting(self) -> int:
        """How many requests have yet to meet their fault."""
        return sum(left for _, _, left in self._waiting)

    def take(self, method: str, path: str) -> Effect | None:
        """The fault that this request gets, which is then used up."""
        for index, (fault, pattern, left) in enumerate(self._waiting):
            if fault.method in ("*", method) and pattern.fullmatch(path):
                if left > 1:
                    self._waiting[index] = (fault, pattern, left - 1)
                else:
                    del self._waiting[index]
                return fault.effect
        return None


def refused(fault: Answer) -> Response:
    """The answer of an Answer fault."""
    headers = (("Retry-After", str(fault.retry_after_s)),) if fault.retry_after_s else ()
    details = {"retryAfterSeconds": fault.retry_after_s} if fault.retry_after_s else {}
    body = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": fault.message, "reason": _REASONS.get(fault.code, ""), "details": details,
        "code": fault.code,
    }  # fmt: skip
    return answer(fault.code, body, headers)
