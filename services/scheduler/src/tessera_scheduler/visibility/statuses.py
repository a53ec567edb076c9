"""Refusals as Kubernetes clients read them: objects of the kind Status."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from aiohttp import web

from tessera_schema.endpoints.visibility import GROUP, PLURAL

_REASONS: Final = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound",
    405: "MethodNotAllowed", 429: "TooManyRequests", 503: "ServiceUnavailable",
}  # fmt: skip


class StatusRefusal(Exception):
    """A refusal, answered as a Status."""

    def __init__(self, code: int, message: str, name: str = "", retry_s: int = 0) -> None:
        """`name` is that of the pod; after `retry_s` a client may ask again."""
        super().__init__(message)
        self.code, self._name, self._retry_s = code, name, retry_s

    def response(self) -> web.Response:
        """The refusal as an HTTP answer."""
        details: dict[str, Any] = {"group": GROUP, "kind": PLURAL}
        if self._name:
            details["name"] = self._name
        if self._retry_s:
            details["retryAfterSeconds"] = self._retry_s
        body = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": f"{self}", "reason": _REASONS[self.code], "details": details,
            "code": self.code,
        }  # fmt: skip
        headers = {"Retry-After": str(self._retry_s)} if self._retry_s else {}
        return web.Response(
            status=self.code, body=msgspec.json.encode(body), headers=headers,
            content_type="application/json",
        )  # fmt: skip


def forbidden(
    user: str, verb: str, namespace: str, name: str, resource: str = PLURAL
) -> StatusRefusal:
    """As the API server says it, with the role that would do."""
    what = f' "{name}"' if name else ""
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    return StatusRefusal(
        403,
        f'{resource}.{GROUP}{what} is forbidden: User "{user}" cannot {verb} resource '
        f'"{resource}" in API group "{GROUP}" {where}: one of the roles view, edit and admin '
        "allows it",
        name,
    )


def no_such_pod(name: str) -> StatusRefusal:
    """As the API server says it."""
    return StatusRefusal(404, f'pods "{name}" not found', name)
