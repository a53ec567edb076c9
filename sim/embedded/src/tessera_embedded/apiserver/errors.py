"""Answers that refuse, as Kubernetes words them: a tree by status code, and the Status body.

ApiError
  BadRequest 400          Unauthorized 401        Forbidden 403
  NotFound 404            MethodNotAllowed 405    NotAcceptable 406
  AlreadyExists 409       Conflict 409            ResourceExpired 410
  RequestTooLarge 413     UnsupportedMedia 415    Invalid 422
  TooManyRequests 429     Internal, Unworded 500  Timeout 504
  WebhookDenied (the code that the webhook chose)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

JsonObject = dict[str, Any]


class Cause(Struct, frozen=True, omit_defaults=True):
    """One reason of an Invalid answer: which field, and what is wrong with it."""

    reason: str = ""
    message: str = ""
    field: str = ""


class ApiError(Exception):
    """The request was refused and nothing was written; `status()` is the body that says why."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self, message: str, *, details: JsonObject | None = None, retry_after_s: int = 0
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details = dict(details or {})
        if retry_after_s:
            self.details["retryAfterSeconds"] = retry_after_s
        self.retry_after_s = retry_after_s

    def status(self) -> JsonObject:
        """The `Status` object that Kubernetes answers with."""
        body: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details:
            body["details"] = self.details
        return {**body, "code": self.code}


class BadRequest(ApiError):
    """The request makes no sense by itself."""

    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    """The token is nobody's."""

    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    """The user may not do this, or admission refused it."""

    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    """There is no such object, or no such path."""

    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    """The path exists and the verb does not."""

    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(ApiError):
    """None of the media types that the client takes is served."""

    code, reason = 406, "NotAcceptable"


class AlreadyExists(ApiError):
    """An object of that name is there already."""

    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """A precondition (uid, resourceVersion, not yet bound) does not hold."""

    code, reason = 409, "Conflict"


class ResourceExpired(ApiError):
    """The resourceVersion is older than what is remembered: list again."""

    code, reason = 410, "Expired"


class RequestTooLarge(ApiError):
    """The body is larger than the server takes."""

    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMedia(ApiError):
    """The content type is not one that this verb takes."""

    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """The object is well-formed and wrong; `details.causes` name the fields."""

    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    """Not now: try again after `details.retryAfterSeconds`."""

    code, reason = 429, "TooManyRequests"


class Internal(ApiError):
    """Something that the request needs (a webhook, say) failed."""

    code, reason = 500, "InternalError"


class Unworded(ApiError):
    """Refused by code that words no reason, as a few corners of the real server do."""

    code, reason = 500, ""


class Timeout(ApiError):
    """The server did not reach the asked-for state in time."""

    code, reason = 504, "Timeout"


class WebhookDenied(ApiError):
    """A refusal worded by somebody else (an admission webhook), passed on with its own code."""

    def __init__(self, status: JsonObject) -> None:
        super().__init__(str(status.get("message", "")), details=status.get("details"))
        self.body = status

    @property
    def answer_code(self) -> int:
        """The code that the other side chose."""
        return int(self.body["code"])

    def status(self) -> JsonObject:
        """The body as the other side worded it."""
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **self.body}


def code_of(error: ApiError) -> int:
    """The HTTP status of an answer that refuses."""
    return error.answer_code if isinstance(error, WebhookDenied) else error.code


def qualified(plural: str, group: str) -> str:
    """`pods`, or `leases.coordination.k8s.io`: how messages name a resource."""
    return f"{plural}.{group}" if group else plural


def not_found(plural: str, group: str, name: str) -> NotFound:
    """No object of that name."""
    return NotFound(
        f'{qualified(plural, group)} "{name}" not found', details=_details(plural, group, name)
    )


def already_exists(plural: str, group: str, name: str) -> AlreadyExists:
    """An object of that name is there."""
    return AlreadyExists(
        f'{qualified(plural, group)} "{name}" already exists',
        details=_details(plural, group, name),
    )


def conflict(plural: str, group: str, name: str, why: str) -> Conflict:
    """A precondition failed; `why` ends the sentence."""
    return Conflict(
        f'Operation cannot be fulfilled on {qualified(plural, group)} "{name}": {why}',
        details=_details(plural, group, name),
    )


def forbidden(plural: str, group: str, name: str, why: str) -> Forbidden:
    """Admission or authorisation says no."""
    which = f'{qualified(plural, group)} "{name}"' if name else qualified(plural, group)
    return Forbidden(f"{which} is forbidden: {why}", details=_details(plural, group, name))


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Invalid:
    """Fields that are wrong, all at once."""
    texts = [f"{c.field}: {c.message}" for c in causes]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Invalid(
        f'{qualified(kind, group)} "{name}" is invalid: {text}',
        details={
            **_details(kind, group, name),
            "causes": [msgspec.to_builtins(c) for c in causes],
        },
    )


def _details(kind: str, group: str, name: str) -> JsonObject:
    known = {"name": name, "group": group, "kind": kind}
    return {key: value for key, value in known.items() if value}


def required(field: str, more: str = "") -> Cause:
    """The field must be there."""
    return Cause("FieldValueRequired", f"Required value{': ' + more if more else ''}", field)


def wrong(field: str, value: object, why: str) -> Cause:
    """The field has a value that cannot be."""
    shown = msgspec.json.encode(value).decode()
    return Cause("FieldValueInvalid", f"Invalid value: {shown}: {why}", field)


def unsupported(field: str, value: object, known: Sequence[str]) -> Cause:
    """The value is none of the known ones."""
    shown = msgspec.json.encode(value).decode()
    names = ", ".join(f'"{k}"' for k in known)
    return Cause(
        "FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {names}", field
    )


def not_allowed(field: str, why: str) -> Cause:
    """The field may not be set, or not be changed."""
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def duplicate(field: str, value: object) -> Cause:
    """The value is there twice where it must be unique."""
    shown = msgspec.json.encode(value).decode()
    return Cause("FieldValueDuplicate", f"Duplicate value: {shown}", field)
