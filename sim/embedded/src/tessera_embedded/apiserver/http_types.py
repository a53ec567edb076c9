"""What comes in and what goes out: calls, where they point, answers. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from tessera_embedded.apiserver.errors import ApiError, JsonObject, NotFound, code_of
from tessera_embedded.apiserver.objects.resources import KindCatalogue, Resource


class AuthenticatedUser(Struct, frozen=True):
    """Who calls, as authentication found it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


ADMIN: Final = AuthenticatedUser(
    "kubernetes-admin", groups=("system:masters", "system:authenticated")
)
ANONYMOUS: Final = AuthenticatedUser("system:anonymous", groups=("system:unauthenticated",))


class HttpCall(Struct, frozen=True):
    """One HTTP request, its body read."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = "application/json"
    user: AuthenticatedUser = ADMIN
    table: bool = False
    """The answer is to be a Table (`kubectl get`)."""


class Response(Struct, frozen=True):
    """One HTTP answer with a whole body."""

    code: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"


class RequestTarget(Struct, frozen=True):
    """Where a path points: a kind, and an object of it unless `name` is empty."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str, catalogue: KindCatalogue) -> RequestTarget:
    """Where an object path points. Raises NotFound."""
    group, version, rest = _api(path)
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    else:
        namespace = ""
    resource = catalogue.find(group, version, rest[0]) if 0 < len(rest) <= 3 else None
    if resource is None or (namespace and not resource.namespaced):
        raise no_such_path()
    name, subresource, *_ = [*rest[1:], "", ""]
    if resource.namespaced and name and not namespace:
        raise no_such_path()
    if subresource and not _has(resource, subresource):
        raise no_such_path()
    return RequestTarget(resource, namespace, name, subresource)


def _api(path: str) -> tuple[str, str, list[str]]:
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["api", version, *rest]:
            return "", version, rest
        case ["apis", group, version, *rest]:
            return group, version, rest
        case _:
            raise no_such_path()


def _has(resource: Resource, subresource: str) -> bool:
    return subresource in resource.subresources or (subresource == "status" and resource.status)


def no_such_path() -> NotFound:
    """Nothing is served there."""
    return NotFound("the server could not find the requested resource")


def answer(code: int, obj: JsonObject, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """An answer with a JSON object."""
    return Response(code, msgspec.json.encode(obj), headers)


def refusal(error: ApiError) -> Response:
    """The answer that an error becomes."""
    headers = (("Retry-After", str(error.retry_after_s)),) if error.retry_after_s else ()
    return answer(code_of(error), error.status(), headers)


def success(code: int, details: JsonObject | None = None) -> Response:
    """A Status that says that all went well."""
    body: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        return answer(code, {**body, "details": details})
    return answer(code, {**body, "code": code})
