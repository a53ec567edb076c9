"""Who asks, and may they see that pod? The API server's answer to both, so that whoever may read a
pod may have it explained, and nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from tessera_runtime import logs
from tessera_runtime.errors import ApiRefused
from tessera_runtime.kube.api import Kube, Verb
from tessera_schema.wire import decoder

_TOKENS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_SELF: Final = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_ACCESS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_SCHEME: Final = "bearer "

_log = logs.named("tessera.scheduler.access")


class Caller(Struct, frozen=True):
    """Whom a token belongs to."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(Struct, frozen=True):
    authenticated: bool = False
    user: Caller = Caller()


class _TokenReview(Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _Self(Struct, frozen=True, rename="camel"):
    user_info: Caller = Caller()


class _SelfReview(Struct, frozen=True):
    status: _Self = _Self()


class _AccessStatus(Struct, frozen=True):
    allowed: bool = False


class _AccessReview(Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_self_review = decoder(_SelfReview)
_token_review = decoder(_TokenReview)
_access_review = decoder(_AccessReview)


async def own_name(kube: Kube) -> str:
    """Who we are to the API server; empty where it does not tell. Raises Passing."""
    try:
        body = await _ask(kube, _SELF, "authentication.k8s.io/v1", "SelfSubjectReview", {})
        return _self_review(body).status.user_info.username
    except (ApiRefused, msgspec.DecodeError) as e:
        _log.warning("own name not known", problem=str(e))
        return ""


def token_of(authorization: str) -> str:
    """The token of an Authorization header; empty where it has none."""
    if authorization[: len(_SCHEME)].lower() != _SCHEME:
        return ""
    return authorization[len(_SCHEME) :].strip()


async def caller_of(kube: Kube, token: str) -> Caller | None:
    """Whom the token belongs to; None for nobody. Raises Passing, ApiForbidden where we may not
    ask, msgspec.DecodeError."""
    body = await _ask(kube, _TOKENS, "authentication.k8s.io/v1", "TokenReview", {"token": token})
    status = _token_review(body).status
    return status.user if status.authenticated else None


async def may_read(kube: Kube, caller: Caller, namespace: str, name: str) -> bool:
    """Whether the caller may get that pod. Raises as `caller_of` does."""
    return await may(
        kube, caller, {"namespace": namespace, "verb": "get", "resource": "pods", "name": name}
    )


async def may(kube: Kube, caller: Caller, action: Mapping[str, str]) -> bool:
    """Whether the caller may do that, spelt as a SubjectAccessReview's resourceAttributes. Raises
    as `caller_of` does."""
    spec = {
        "user": caller.username, "uid": caller.uid, "groups": caller.groups,
        "extra": caller.extra, "resourceAttributes": action,
    }  # fmt: skip
    body = await _ask(kube, _ACCESS, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
    return _access_review(body).status.allowed


async def _ask(kube: Kube, path: str, version: str, kind: str, spec: dict[str, Any]) -> bytes:
    body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
    try:
        return await kube.call(Verb.POST, path, body=body)
    except ApiRefused as e:
        if e.status != 400:
            raise
        return b"{}"  # a token or a name that makes no sense is nobody's
