"""What the API server says of this process and of callers: names and permissions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.errors import ApiRefused
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.json_codec import decoder

_SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_OWNER: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

_log = logs.named("tessera.scheduler.access")


class Caller(Struct, frozen=True):
    """The user behind a request, as the API server knows it."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _Self(Struct, frozen=True, rename="camel"):
    user_info: Caller = Caller()


class _SelfReview(Struct, frozen=True):
    status: _Self = _Self()


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: Caller = Caller()


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_self_review = decoder(_SelfReview)
_token_review = decoder(_TokenReview)
_access_review = decoder(_AccessReview)


async def own_name(kube: Kube) -> str:
    """The user name of this process; empty where the API server does not say. Raises Transient."""
    try:
        body = await _review(kube, _SELF, "authentication.k8s.io/v1", "SelfSubjectReview", {})
        return _self_review(body).status.user_info.username
    except (ApiRefused, msgspec.DecodeError) as e:
        _log.warning("own name not known", problem=str(e))
        return ""


async def owner_of(kube: Kube, token: str) -> Caller | None:
    """Whose bearer token it is; None for nobody's. Raises Transient, ApiForbidden where this
    process may not ask, msgspec.DecodeError."""
    spec = {"token": token}
    body = await _review(kube, _OWNER, "authentication.k8s.io/v1", "TokenReview", spec)
    status = _token_review(body).status
    return status.user if status.authenticated else None


async def may(kube: Kube, caller: Caller, action: Mapping[str, str]) -> bool:
    """Whether the caller may do `action`, spelt as a SubjectAccessReview's resourceAttributes.
    Raises Transient, ApiForbidden where this process may not ask, msgspec.DecodeError."""
    spec = {
        "user": caller.username, "uid": caller.uid, "groups": caller.groups,
        "extra": caller.extra, "resourceAttributes": action,
    }  # fmt: skip
    body = await _review(kube, _ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
    return _access_review(body).status.allowed


async def _review(kube: Kube, path: str, version: str, kind: str, spec: dict[str, Any]) -> bytes:
    body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
    try:
        return await kube.call(Verb.POST, path, body=body)
    except ApiRefused as e:
        if e.status != 400:
            raise
        return b"{}"  # a name that makes no sense is nobody's
