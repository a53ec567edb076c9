"""The questions that are posted and not kept: whose token is this, and may they do that?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tessera_embedded.apiserver.access import Access, Attempt, user_info
from tessera_embedded.apiserver.errors import JsonObject, invalid, wrong
from tessera_embedded.apiserver.http_types import AuthenticatedUser, HttpCall, Response, answer
from tessera_embedded.apiserver.kinds.fields import settle
from tessera_embedded.apiserver.objects.metadata import json_object, without_nulls

Answerer = Callable[[Access, AuthenticatedUser, JsonObject], JsonObject]


def _token_review(access: Access, _caller: AuthenticatedUser, spec: JsonObject) -> JsonObject:
    user = access.user_of(str(spec.get("token", "")))
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user_info(user), "audiences": spec.get("audiences", [])}


def _access_review(access: Access, _caller: AuthenticatedUser, spec: JsonObject) -> JsonObject:
    if not spec.get("user") and not spec.get("groups"):
        cause = wrong("spec.user", "", "at least one of user or group must be specified")
        raise invalid("SubjectAccessReview", "authorization.k8s.io", "", [cause])
    user = AuthenticatedUser(spec.get("user", ""), groups=tuple(spec.get("groups", ())))
    return _decision(access, user, spec)


def _own_access_review(access: Access, caller: AuthenticatedUser, spec: JsonObject) -> JsonObject:
    return _decision(access, caller, spec)


def _own_review(_access: Access, caller: AuthenticatedUser, _spec: JsonObject) -> JsonObject:
    return {"userInfo": user_info(caller)}


def _decision(access: Access, user: AuthenticatedUser, spec: JsonObject) -> JsonObject:
    about: Mapping[str, Any] = spec.get("resourceAttributes") or {}
    path: Mapping[str, Any] = spec.get("nonResourceAttributes") or {}
    attempt = Attempt(
        str(about.get("verb") or path.get("verb", "")),
        about.get("group", ""),
        about.get("resource", ""),
        about.get("subresource", ""),
        about.get("namespace", ""),
        about.get("name", ""),
        path.get("path", ""),
    )
    return {"allowed": access.allows(user, attempt)}


_ANSWERERS: Final[Mapping[str, tuple[str, Answerer]]] = {
    "/apis/authentication.k8s.io/v1/tokenreviews": ("TokenReview", _token_review),
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": ("SelfSubjectReview", _own_review),
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": ("SubjectAccessReview", _access_review),
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": (
        "SelfSubjectAccessReview", _own_access_review,
    ),
}  # fmt: skip

SELF: Final = ("/selfsubjectreviews", "/selfsubjectaccessreviews")
"""What everybody who is known may ask."""


def reviewed(call: HttpCall, access: Access) -> Response | None:
    """The answer to a posted review, or None where the call is none. Raises ApiError."""
    kind, answerer = _ANSWERERS.get(call.path, ("", None))
    if answerer is None or call.method != "POST":
        return None
    asked = without_nulls(json_object(call.body))
    settle(asked, kind, "v1")
    spec = asked.get("spec", {})
    version = call.path.removeprefix("/apis/").rpartition("/")[0]
    about = {"kind": kind, "apiVersion": version, "metadata": asked.get("metadata") or {}}
    return answer(201, {**about, "spec": spec, "status": answerer(access, call.user, spec)})
